/* roberta.c - encoders of text: RoBERTa (Liu et al. 2019) and BERT (Devlin et al. 2019), with the
 * names and shapes of Hugging Face's transformers.
 *
 * Words, positions and segments are summed and normalised. A block: attention, the sum with what
 * came in, layer norm; a linear layer to four times as many channels, GELU, one back, the sum,
 * layer norm. With GraphOptions.masked the head guesses the words at those places: a linear layer,
 * GELU, layer norm, and the words' own table with a bias. Else it reads the first word of each
 * sequence and says its class. Sequences lie in a canvas (kernels/op_embed.h).
 *
 * In memory the projections to queries, keys and values are one, LAYER.attention.self.qkv; files
 * have three (trainer/engine/files/weights.h). RoBERTa's table of one segment is part of its
 * positions. The pooler and the next-sentence layer of BERT keep the weights that they were given
 * while it learns masked words. A variant is one row at the end. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define EXPANSION  4
#define HEAD_WIDTH 64
#define FAN_OF_2E2 50 /* INIT_NORMAL's, for a deviation of 0.02 */
#define DROP_RATE  0.1F

typedef struct Naming {
    const char *base, *dense, *norm, *decoder; /* of the head that guesses words */
    float norm_eps;
    int offset; /* of positions: fairseq counts from the word behind <pad>'s */
    int segments;
} Naming;
static const Naming roberta = { .base = "roberta",
                                .dense = "lm_head.dense",
                                .norm = "lm_head.layer_norm",
                                .decoder = "lm_head",
                                .norm_eps = 1e-5F,
                                .offset = 2 };
static const Naming bert = { .base = "bert",
                             .dense = "cls.predictions.transform.dense",
                             .norm = "cls.predictions.transform.LayerNorm",
                             .decoder = "cls.predictions",
                             .norm_eps = 1e-12F,
                             .segments = 2 };

typedef struct TextRow {
    int layers, heads;
    const Naming *names;
} TextRow;

/* What a network is built with. */
typedef struct Text {
    const TextRow *row;
    int heads;
    const GraphOptions *o;
    int64_t channels;
    float drop, attention_drop; /* 0 where the graph does not train */
} Text;

typedef char Name[BLOCK_NAME_MAX];

static void set_first(Graph *g, const char *layer, bool frozen)
{
    char name[BLOCK_NAME_MAX + 8];
    snprintf(name, sizeof name, "%s.weight", layer);
    graph_set_init(g, name, INIT_NORMAL, FAN_OF_2E2, frozen);
    snprintf(name, sizeof name, "%s.bias", layer);
    graph_set_init(g, name, INIT_ZERO, 0, frozen);
}

/* Of each place. */
static TensorId add_dense(Graph *g, const char *layer, TensorId x, int64_t features)
{
    x = graph_linear_positions(g, layer, x, features);
    set_first(g, layer, false);
    return x;
}

/* Of picked places. */
static TensorId add_rows_dense(Graph *g, const char *layer, TensorId x, int64_t features,
                               bool frozen)
{
    x = graph_linear(g, layer, x, features);
    set_first(g, layer, frozen);
    return x;
}

static TensorId add_embeddings(Graph *g, const Text *t)
{
    const Naming *n = t->row->names;
    Name words, positions, segments, norm, drop;
    snprintf(words, sizeof words, "%s.embeddings.word_embeddings.weight", n->base);
    snprintf(positions, sizeof positions, "%s.embeddings.position_embeddings.weight", n->base);
    snprintf(segments, sizeof segments, "%s.embeddings.token_type_embeddings.weight", n->base);
    snprintf(norm, sizeof norm, "%s.embeddings.LayerNorm", n->base);
    snprintf(drop, sizeof drop, "%s.embeddings.dropout", n->base);
    const EmbedOptions e = { .words = words,
                             .positions = positions,
                             .segments = n->segments ? segments : NULL,
                             .width = t->channels,
                             .position_rows = t->o->tokens + n->offset,
                             .segment_rows = n->segments,
                             .offset = n->offset };
    TensorId x = graph_embed(g, "embeddings", &e);
    graph_set_init(g, words, INIT_NORMAL_PADDED, FAN_OF_2E2, false);
    if (n->offset > 0) graph_set_init(g, positions, INIT_NORMAL_PADDED, FAN_OF_2E2, false);
    x = graph_layernorm(g, norm, x, n->norm_eps);
    return t->drop > 0 ? graph_drop(g, drop, x, t->drop, false, TENSOR_NONE) : x;
}

static TensorId add_residual(Graph *g, const Text *t, const char *name, TensorId y, TensorId x)
{
    return t->drop > 0 ? graph_drop(g, name, y, t->drop, false, x) : graph_add(g, name, y, x);
}

static TensorId add_layer(Graph *g, const Text *t, int index, TensorId x)
{
    enum { QKV, HEADS, PROJECT, SUM1, NORM1, MLP1, ACT, MLP2, SUM2, NORM2, COUNT };
    static const char *const suffixes[COUNT] = { [QKV] = "attention.self.qkv",
                                                 [HEADS] = "attention.self",
                                                 [PROJECT] = "attention.output.dense",
                                                 [SUM1] = "attention.output.sum",
                                                 [NORM1] = "attention.output.LayerNorm",
                                                 [MLP1] = "intermediate.dense",
                                                 [ACT] = "intermediate.act",
                                                 [MLP2] = "output.dense",
                                                 [SUM2] = "output.sum",
                                                 [NORM2] = "output.LayerNorm" };
    const Naming *n = t->row->names;
    Name names[COUNT];
    for (int i = 0; i < COUNT; i++)
        snprintf(names[i], sizeof names[i], "%s.encoder.layer.%d.%s", n->base, index, suffixes[i]);
    TensorId y = add_dense(g, names[QKV], x, 3 * t->channels);
    y = graph_attention(g, names[HEADS], y, t->heads, t->attention_drop);
    y = add_dense(g, names[PROJECT], y, t->channels);
    x = add_residual(g, t, names[SUM1], y, x);
    x = graph_layernorm(g, names[NORM1], x, n->norm_eps);
    y = add_dense(g, names[MLP1], x, EXPANSION * t->channels);
    y = graph_activation(g, names[ACT], y, ACT_GELU);
    y = add_dense(g, names[MLP2], y, t->channels);
    x = add_residual(g, t, names[SUM2], y, x);
    return graph_layernorm(g, names[NORM2], x, n->norm_eps);
}

static TensorId add_pooler(Graph *g, const Text *t, const char *layer, TensorId x, bool frozen)
{
    x = graph_pick(g, "first", x, graph_input(g, "starts"));
    x = add_rows_dense(g, layer, x, t->channels, frozen);
    return graph_activation(g, "first.act", x, ACT_TANH);
}

/* x: of all places, from which BERT's other head reads, whose results nobody asks for. */
static TensorId add_word_head(Graph *g, const Text *t, TensorId x)
{
    const Naming *n = t->row->names;
    Name words;
    snprintf(words, sizeof words, "%s.embeddings.word_embeddings.weight", n->base);
    if (n->segments)
        add_rows_dense(g, "cls.seq_relationship", add_pooler(g, t, "bert.pooler.dense", x, true), 2,
                       true);
    x = graph_pick(g, "masked", x, graph_input(g, "rows"));
    x = add_rows_dense(g, n->dense, x, t->channels, false);
    x = graph_activation(g, "masked.act", x, ACT_GELU);
    x = graph_layernorm(g, n->norm, x, n->norm_eps);
    return graph_linear_tied(g, n->decoder, x, graph_find(g, words));
}

static TensorId add_class_head(Graph *g, const Text *t, TensorId x)
{
    const bool pools = t->row->names->segments > 0; /* as BERT's first task has taught it */
    x = add_pooler(g, t, pools ? "bert.pooler.dense" : "classifier.dense", x, false);
    if (pools && t->drop > 0) x = graph_drop(g, "first.drop", x, t->drop, false, TENSOR_NONE);
    return add_rows_dense(g, pools ? "classifier" : "classifier.out_proj", x, t->o->classes, false);
}

static Status check(const ModelOptions *o, int64_t channels, int heads)
{
    const int64_t head_width = channels / heads;
    if (o->stochastic_depth > 0)
        return fail(ERR_USAGE, "model.stochastic_depth is not supported by this network");
    if (channels % heads != 0 || head_width % 8 != 0)
        return fail(ERR_USAGE,
                    "model.hidden is %lld and model.heads %d; each head must have a multiple of "
                    "8 channels",
                    (long long)channels, heads);
    if (head_width <= ATTENTION_MAX_WIDTH) return OK;
    return fail(ERR_USAGE, "heads have at most %d channels, not %lld", ATTENTION_MAX_WIDTH,
                (long long)head_width);
}

static Status build_text(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const TextRow *row = def->params;
    const int heads = o->heads > 0 ? o->heads : row->heads;
    const int64_t channels =
        o->hidden > 0 ? o->hidden : row->heads * block_scale_channels(HEAD_WIDTH, o->width);
    const bool trains = o->graph.training;
    const Text t = { .row = row,
                     .heads = heads,
                     .o = &o->graph,
                     .channels = channels,
                     .drop = !trains          ? 0
                             : o->dropout < 0 ? DROP_RATE
                                              : (float)o->dropout,
                     .attention_drop =
                         o->attention_dropout < 0 ? DROP_RATE : (float)o->attention_dropout };
    const int layers = o->layers > 0 ? o->layers : row->layers;
    TRY(check(o, channels, heads));
    TensorId x = add_embeddings(g, &t);
    for (int i = 0; i < layers; i++) x = add_layer(g, &t, i, x);
    graph_softmax_xent(g, t.o->masked > 0 ? add_word_head(g, &t, x) : add_class_head(g, &t, x));
    return graph_status(g);
}

#define ROW(id, layers, heads, naming, two, about)                                                 \
    {                                                                                              \
        .name = id, .summary = about, .build = build_text,                                         \
        .params = &(const TextRow){ layers, heads, &naming }, .drops = true, .one_size = true,     \
        .names = MODEL_NAMES_HF, .text = true, .segments = two                                     \
    }
#define ROBERTA(id, layers, heads, about) ROW("roberta_" id, layers, heads, roberta, false, about)
#define BERT(id, layers, heads, about)    ROW("bert_" id, layers, heads, bert, true, about)
static const ModelDef rows[] = {
    ROBERTA("tiny", 2, 2, "RoBERTa, 2 layers of 128, Turc et al. 2019"),
    ROBERTA("mini", 4, 4, "RoBERTa, 4 layers of 256, Turc et al. 2019"),
    ROBERTA("base", 12, 12, "RoBERTa, Liu et al. 2019 (transformers)"),
    ROBERTA("large", 24, 16, "RoBERTa, Liu et al. 2019 (transformers)"),
    BERT("tiny", 2, 2, "BERT, Turc et al. 2019 (transformers)"),
    BERT("mini", 4, 4, "BERT, Turc et al. 2019 (transformers)"),
    BERT("base", 12, 12, "BERT, Devlin et al. 2019 (transformers)"),
    BERT("large", 24, 16, "BERT, Devlin et al. 2019 (transformers)"),
};
const ModelFamily roberta_family = MODEL_FAMILY(rows);
