/* weights_list.c - the tensors of a network under the names of files (weights.h).
 *
 * The two names of a tensor of an image network are found by building the network twice, once
 * under each: tensors come in the same order. Those of transformers follow from the names in the
 * graph. */
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/files/weights.h"
#include <stdio.h>
#include <string.h>

static bool is_weight(const Graph *g, TensorId id)
{
    const TensorRole role = graph_tensor(g, id)->role;
    return role == ROLE_PARAM || role == ROLE_BUFFER;
}

static int count_weights(const Graph *g)
{
    int count = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) count += is_weight(g, id);
    return count;
}

static const GraphNode *last_layer(const Graph *g)
{
    const int producer = graph_tensor(g, graph_logits(g))->producer;
    return producer < 0 ? NULL : graph_node(g, producer);
}

/* Weights and bias of the last layer. */
static bool is_head(const Graph *g, TensorId id)
{
    const GraphNode *last = last_layer(g);
    return last && last->kind == OP_LINEAR &&
           (last->in[LINEAR_IN_W] == id || last->in[LINEAR_IN_B] == id);
}

/* Whether a node of this kind has the tensor in a slot. */
static const GraphNode *reader_of(const Graph *g, TensorId id, OpKind kind, int slot)
{
    for (int i = 0; i < graph_node_count(g); i++)
        if (graph_node(g, i)->kind == kind && graph_node(g, i)->in[slot] == id)
            return graph_node(g, i);
    return NULL;
}

/* Filters of a convolution that reads the images; g: not fused. */
static bool is_first(const Graph *g, TensorId id)
{
    const GraphNode *n = reader_of(g, id, OP_CONV2D, CONV_IN_W);
    const int producer = n ? graph_tensor(g, n->in[CONV_IN_X])->producer : -1;
    return producer >= 0 && graph_node(g, producer)->kind == OP_INPUT;
}

static PositionGrid grid_of(const Graph *g, TensorId id)
{
    const GraphNode *n = reader_of(g, id, OP_TOKENS, TOKENS_IN_POSITIONS);
    if (!n) return (PositionGrid){ 0 };
    const int64_t *d = graph_tensor(g, n->in[TOKENS_IN_X])->desc.dims;
    return (PositionGrid){ n->in[TOKENS_IN_CLASS] != TENSOR_NONE, d[2], d[3] };
}

static Status build_named(Graph **out, const Graph *g, const ModelDef *def, ModelNames names)
{
    ModelOptions o = { .graph = *graph_options(g), .width = 1 };
    o.graph.batch = 1;
    o.graph.views = 1;
    o.graph.training = false;
    ModelDef named = *model_named(def, names);
    if (named.both) named.names = names;
    return model_build(out, &named, &o);
}

static void fill_twins(WeightList *list, const Graph *g)
{
    TensorId other = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (!is_weight(g, id)) continue;
        const GraphTensor *t = graph_tensor(g, id);
        while (other < graph_tensor_count(list->named) && !is_weight(list->named, other)) other++;
        ASSERT(other < graph_tensor_count(list->named));
        const GraphTensor *there = graph_tensor(list->named, other);
        TensorDesc desc = t->desc; /* dims past its rank are 1: [C,1,1] may be [C] there */
        desc.rank = there->desc.rank;
        ASSERT(tensor_elements(&desc) == tensor_elements(&t->desc));
        list->items[list->count++] = (Weight){ .name = t->name,
                                               .other = there->name,
                                               .desc = desc,
                                               .head = is_head(list->named, other),
                                               .first = is_first(list->named, other),
                                               .grid = grid_of(list->named, other) };
        other++;
    }
}

/* The rest of the module that the last layer is in, such as a norm, goes where that goes. */
static void mark_above(WeightList *list)
{
    const char *head = "";
    for (int i = 0; i < list->count; i++)
        if (list->items[i].head) head = list->items[i].other;
    const size_t module = strcspn(head, ".");
    for (int i = 0; i < list->count && module > 0; i++) {
        Weight *w = &list->items[i];
        w->above = !w->head && strncmp(w->other, head, module + 1) == 0;
    }
}

static Status list_twins(WeightList *out, const Graph *g, const ModelDef *def, ModelNames names)
{
    TRY(build_named(&out->named, g, def, names));
    if (count_weights(out->named) != count_weights(g))
        return fail(ERR_INTERNAL, "%s: the network with torchvision's names has other tensors",
                    def->name);
    fill_twins(out, g);
    mark_above(out);
    return OK;
}

/* ---- networks that read words ---- */

static const char packed[] = ".qkv.";
enum { PACKED_PARTS = 3 };

/* Whether it belongs to a head, which another task does not have. */
bool weights_above_encoder(const char *name)
{
    return str_starts_with(name, "bert.pooler.") ||
           !(str_starts_with(name, "bert.") || str_starts_with(name, "roberta."));
}

static Weight text_weight(const Graph *g, TensorId id)
{
    const GraphTensor *t = graph_tensor(g, id);
    return (Weight){ .name = t->name,
                     .other = t->name,
                     .desc = t->desc,
                     .head = is_head(g, id),
                     .tied = is_head(g, id) && graph_options(g)->masked > 0,
                     .above = weights_above_encoder(t->name),
                     .spare = graph_options(g)->masked > 0 &&
                              (str_starts_with(t->name, "bert.pooler.") ||
                               str_starts_with(t->name, "cls.seq_relationship.")),
                     .rows = reader_of(g, id, OP_EMBED, EMBED_IN_POSITIONS) != NULL };
}

/* w by three names, a third of its rows each. */
static void add_parts(WeightList *list, const Weight *w)
{
    static const char *const parts[PACKED_PARTS] = { "query", "key", "value" };
    const char *at = strstr(w->name, packed);
    const int64_t third = tensor_elements(&w->desc) / PACKED_PARTS;
    for (int k = 0; k < PACKED_PARTS; k++) {
        Weight *part = &list->items[list->count++];
        *part = *w;
        part->kind = WEIGHT_PART;
        part->desc.dims[0] /= PACKED_PARTS;
        part->from = k * third;
        part->other = arena_printf(list->arena, "%.*s.%s.%s", (int)(at - w->name), w->name,
                                   parts[k], at + sizeof packed - 1);
    }
}

/* What w is there once more, as another. */
static void add_again(WeightList *list, const Weight *w, WeightKind kind, const char *other)
{
    Weight *again = &list->items[list->count++];
    *again = *w;
    again->kind = kind;
    again->head = again->rows = false;
    again->other = other;
    if (kind == WEIGHT_FOLDED) again->desc.dims[0] = 1;
}

static void add_files(WeightList *list, const Graph *g, const Weight *w)
{
    const char *suffix = strrchr(w->name, '.'), *place = strstr(w->name, "position_embeddings");
    if (strstr(w->name, packed)) {
        add_parts(list, w);
        return;
    }
    list->items[list->count++] = *w;
    if (w->tied)
        add_again(list, w, WEIGHT_COPY,
                  arena_printf(list->arena, "%s.decoder%s", last_layer(g)->name, suffix));
    if (w->rows && place && !graph_options(g)->segments)
        add_again(list, w, WEIGHT_FOLDED,
                  arena_printf(list->arena, "%.*stoken_type_embeddings.weight",
                               (int)(place - w->name), w->name));
}

static Status list_text(WeightList *out, const Graph *g, bool as_files)
{
    TRY(arena_create(&out->arena, 0));
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (!is_weight(g, id)) continue;
        const Weight w = text_weight(g, id);
        if (as_files) add_files(out, g, &w);
        else out->items[out->count++] = w;
    }
    for (int i = 0; i < out->count; i++)
        if (!out->items[i].other) return ERR_MEMORY;
    return OK;
}

Status weights_list(WeightList *out, const Graph *g, const ModelDef *def, ModelNames names)
{
    const size_t most = PACKED_PARTS * (size_t)count_weights(g) + 1;
    *out = (WeightList){ .items = mem_calloc(most, sizeof *out->items) };
    if (!out->items) return ERR_MEMORY;
    const Status status =
        def->text ? list_text(out, g, names == MODEL_NAMES_HF) : list_twins(out, g, def, names);
    if (status != OK) weights_free(out);
    return status;
}

void weights_free(WeightList *list)
{
    mem_free(list->items);
    graph_destroy(list->named);
    arena_destroy(list->arena);
    *list = (WeightList){ 0 };
}

const SafeTensor *weights_find(const SafeFile *file, const Weight *w)
{
    static const char *const old[][2] = { { ".LayerNorm.weight", "gamma" },
                                          { ".LayerNorm.bias", "beta" } };
    const SafeTensor *t = safetensors_find(file, w->other);
    char name[WEIGHTS_NAME_BYTES];
    for (int k = 0; k < 2 && !t; k++) {
        const char *dot = strrchr(w->other, '.');
        if (!str_ends_with_nocase(w->other, old[k][0])) continue;
        snprintf(name, sizeof name, "%.*s.%s", (int)(dot - w->other), w->other, old[k][1]);
        t = safetensors_find(file, name);
    }
    return t;
}
