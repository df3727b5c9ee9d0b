/* vit.c - vision transformers: ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), with
 * the names of torchvision or timm, and what either starts weights from; DINOv2's (Oquab et al.
 * 2023), with a factor for each channel behind attention and the two layers.
 *
 * A convolution cuts the image into patches, which are the positions of a sequence behind a class
 * token; each has a position added that is learned. A block: layer norm, attention, the sum with
 * what came in; layer norm, a linear layer to four times as many channels, GELU, one back, the sum.
 * The classifier reads the class token alone, so the last norm is of that. Sequences are [N,C,L,1].
 *
 * Positions belong to one image size, which patches divide. A variant is one row at the end. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define NORM_EPS   1e-6F
#define EXPANSION  4
#define HEAD_WIDTH 64
/* INIT_HE_FAN_OUT's for normal numbers with deviation 0.02 (which libraries truncate where none
 * ever is), and 1e-6 */
#define FAN_OF_2E2 5000
#define FAN_OF_1E6 2000000000000

/* What libraries call the same. */
typedef struct Naming {
    const char *patches, *first, *positions, *blocks, *norm1, *packed, *project, *norm2, *mlp1,
        *mlp2, *norm, *head, *scale1, *scale2;
    bool timm; /* and start them from */
} Naming;
static const Naming torchvision = {
    .patches = "conv_proj",
    .first = "class_token",
    .positions = "encoder.pos_embedding",
    .blocks = "encoder.layers.encoder_layer_",
    .norm1 = "ln_1",
    .packed = "self_attention",
    .project = "self_attention.out_proj",
    .norm2 = "ln_2",
    .mlp1 = "mlp.0",
    .mlp2 = "mlp.3",
    .norm = "encoder.ln",
    .head = "heads.head",
    .scale1 = "",
    .scale2 = "",
};
static const Naming timm = {
    .patches = "patch_embed.proj",
    .first = "cls_token",
    .positions = "pos_embed",
    .blocks = "blocks.",
    .norm1 = "norm1",
    .packed = "attn.qkv",
    .project = "attn.proj",
    .norm2 = "norm2",
    .mlp1 = "mlp.fc1",
    .mlp2 = "mlp.fc2",
    .norm = "norm",
    .head = "head",
    .scale1 = "ls1",
    .scale2 = "ls2",
    .timm = true,
};

typedef struct VitRow {
    int patch, heads, blocks;
    int64_t scales;      /* factors behind attention and layers, which start at 1 / this; 0: none */
    const Naming *names; /* set while it is built */
} VitRow;

static void set_first(Graph *g, const char *layer, const char *suffix, InitKind init, int64_t fan)
{
    char name[2 * BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", layer, suffix);
    graph_set_init(g, name, init, fan, false);
}

/* fan: inputs + outputs; deviation: of torchvision's biases. */
static void set_linear(Graph *g, const VitRow *row, const char *layer, int64_t fan)
{
    const bool xavier = !row->names->timm;
    set_first(g, layer, ".weight", xavier ? INIT_XAVIER : INIT_HE_FAN_OUT,
              xavier ? fan : FAN_OF_2E2);
    if (xavier) set_first(g, layer, ".bias", INIT_HE_FAN_OUT, FAN_OF_1E6);
}

static TensorId add_sequence(Graph *g, const VitRow *row, TensorId x, int64_t channels,
                             int64_t image_channels)
{
    const Naming *n = row->names;
    const Conv2dAttr attr = { .stride_h = row->patch, .stride_w = row->patch, .groups = 1 };
    const int64_t fan = image_channels * row->patch * row->patch;
    x = graph_conv2d_biased(g, n->patches, x, channels, row->patch, &attr);
    set_first(g, n->patches, ".weight", n->timm ? INIT_UNIFORM_FAN : INIT_HE_FAN_OUT,
              n->timm ? fan : 2 * fan);
    if (n->timm) set_first(g, n->patches, ".bias", INIT_UNIFORM_FAN, fan);
    x = graph_tokens(g, "tokens", x, n->first, n->positions);
    set_first(g, n->positions, "", INIT_HE_FAN_OUT, FAN_OF_2E2);
    if (n->timm) set_first(g, n->first, "", INIT_HE_FAN_OUT, FAN_OF_1E6);
    return x;
}

static TensorId add_attention(Graph *g, const VitRow *row, const char *packed, const char *project,
                              TensorId x, int64_t channels, float rate)
{
    char name[2 * BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s.heads", packed);
    if (row->names->timm) {
        x = graph_linear_positions(g, packed, x, 3 * channels);
        set_linear(g, row, packed, 0);
    } else {
        x = graph_linear_packed(g, packed, x, 3 * channels);
    }
    x = graph_attention(g, name, x, row->heads, rate);
    x = graph_linear_positions(g, project, x, channels);
    if (row->names->timm) set_linear(g, row, project, 0);
    else set_first(g, project, ".weight", INIT_UNIFORM_FAN, channels);
    return x;
}

static TensorId add_residual(Graph *g, const char *name, TensorId y, TensorId x, float rate)
{
    return rate > 0 ? graph_drop(g, name, y, rate, true, x) : graph_add(g, name, y, x);
}

static TensorId add_block(Graph *g, const VitRow *row, int index, TensorId x, int64_t channels,
                          const ModelOptions *o)
{
    const float rate = block_drop_rate(o, index, row->blocks);
    enum { NORM1, PACKED, PROJECT, SCALE1, SUM1, NORM2, MLP1, ACT, MLP2, SCALE2, SUM2, LAYERS };
    const Naming *n = row->names;
    const char *const suffixes[LAYERS] = { n->norm1, n->packed, n->project, n->scale1,
                                           "sum1",   n->norm2,  n->mlp1,    "act",
                                           n->mlp2,  n->scale2, "sum2" };
    char layers[LAYERS][BLOCK_NAME_MAX];
    for (int i = 0; i < LAYERS; i++)
        snprintf(layers[i], sizeof layers[i], "%s%d.%s", n->blocks, index, suffixes[i]);
    const int64_t hidden = EXPANSION * channels;
    TensorId y = graph_layernorm(g, layers[NORM1], x, NORM_EPS);
    y = add_attention(g, row, layers[PACKED], layers[PROJECT], y, channels,
                      (float)o->attention_dropout);
    if (row->scales) y = graph_layer_scale(g, layers[SCALE1], "gamma", y, true, row->scales);
    x = add_residual(g, layers[SUM1], y, x, rate);
    y = graph_layernorm(g, layers[NORM2], x, NORM_EPS);
    y = graph_linear_positions(g, layers[MLP1], y, hidden);
    set_linear(g, row, layers[MLP1], channels + hidden);
    y = graph_activation(g, layers[ACT], y, ACT_GELU);
    y = graph_linear_positions(g, layers[MLP2], y, channels);
    set_linear(g, row, layers[MLP2], channels + hidden);
    if (row->scales) y = graph_layer_scale(g, layers[SCALE2], "gamma", y, true, row->scales);
    return add_residual(g, layers[SUM2], y, x, rate);
}

/* Of the class token, which is every L-th position of a sequence of L. */
static TensorId add_classifier(Graph *g, const VitRow *row, TensorId x, int64_t channels,
                               int length, const ModelOptions *o)
{
    const Naming *n = row->names;
    x = graph_subsample(g, "token", x, length, channels);
    x = graph_layernorm(g, n->norm, x, NORM_EPS);
    if (o->graph.training && o->dropout > 0)
        x = graph_drop(g, "dropout", graph_global_avgpool(g, "rows", x), (float)o->dropout, false,
                       TENSOR_NONE);
    x = graph_linear(g, n->head, x, o->graph.classes);
    set_first(g, n->head, ".weight", n->timm ? INIT_HE_FAN_OUT : INIT_ZERO, FAN_OF_2E2);
    set_first(g, n->head, ".bias", INIT_ZERO, 0);
    return x;
}

static Status check_sizes(const VitRow *row, const GraphOptions *o, int64_t head_width)
{
    if (o->height % row->patch || o->width % row->patch)
        return fail(ERR_USAGE,
                    "data.image_size: images of %lld x %lld pixels do not divide into patches of "
                    "%d",
                    (long long)o->height, (long long)o->width, row->patch);
    if (head_width > ATTENTION_MAX_WIDTH)
        return fail(ERR_USAGE, "heads have at most %d channels, not %lld", ATTENTION_MAX_WIDTH,
                    (long long)head_width);
    return OK;
}

static Status build_vit(Graph *g, const ModelDef *def, const ModelOptions *options)
{
    VitRow own = *(const VitRow *)def->params;
    const VitRow *row = &own;
    const GraphOptions *size = &options->graph;
    const int64_t head_width = block_scale_channels(HEAD_WIDTH, options->width),
                  channels = row->heads * head_width;
    ModelOptions o = *options;
    own.names = def->names == MODEL_NAMES_TIMM ? &timm : &torchvision;
    TRY(check_sizes(row, size, head_width));
    if (o.stochastic_depth < 0) o.stochastic_depth = 0;
    TensorId x = graph_images(g, size);
    x = add_sequence(g, row, x, channels, size->channels);
    for (int i = 0; i < row->blocks; i++) x = add_block(g, row, i, x, channels, &o);
    const int64_t length = (size->height / row->patch) * (size->width / row->patch) + 1;
    graph_softmax_xent(g, add_classifier(g, row, x, channels, (int)length, &o));
    return graph_status(g);
}

#define ROW(id, size, patch, heads, blocks, scales, text, ...)                                     \
    .name = id, .summary = text, .build = build_vit,                                               \
    .params = &(const VitRow){ patch, heads, blocks, scales, NULL }, .input = { 3, size },         \
    .weights = { __VA_ARGS__ }, .drops = true, .one_size = true, .least_size = patch
#define VIT(id, timm_of, patch, heads, blocks, ...)                                                \
    {                                                                                              \
        ROW(id, 224, patch, heads, blocks, 0, "ViT, Dosovitskiy et al. 2021 (torchvision)",        \
            __VA_ARGS__),                                                                          \
            .both = true, .timm = timm_of                                                          \
    }
/* timm's */
#define VIT_TIMM(size, heads, blocks, ...)                                                         \
    {                                                                                              \
        ROW("vit_" size "_patch16_224", 224, 16, heads, blocks, 0,                                 \
            "ViT, Dosovitskiy et al. 2021 (timm)", __VA_ARGS__),                                   \
            .names = MODEL_NAMES_TIMM, .both = true, .timm = "vit_" size "_patch16_224"            \
    }
#define DEIT(size, heads, top1)                                                                    \
    {                                                                                              \
        ROW("deit_" size "_patch16_224", 224, 16, heads, 12, 0,                                    \
            "DeiT, Touvron et al. 2021 (timm)",                                                    \
            TIMM("fb_in1k", top1, 224, 248, MODEL_BICUBIC, false)),                                \
            .names = MODEL_NAMES_TIMM, .both = true, .timm = "deit_" size "_patch16_224"           \
    }
#define DINOV2(size, heads)                                                                        \
    {                                                                                              \
        ROW("vit_" size "_patch14_dinov2", 518, 14, heads, 12, 100000,                             \
            "DINOv2, Oquab et al. 2023 (timm)",                                                    \
            TIMM("lvd142m", 0, 518, 518, MODEL_BICUBIC, false)),                                   \
            .names = MODEL_NAMES_TIMM, .timm = "vit_" size "_patch14_dinov2"                       \
    }
#define AUGREG(tag, top1) TIMM(tag, top1, 224, 248, MODEL_BICUBIC, true)
static const ModelDef rows[] = {
    VIT("vit_b_16", "vit_base_patch16_224", 16, 12, 12, WEIGHTS_V1(81.072, "-c867db91"),
        WEIGHTS("IMAGENET1K_SWAG_E2E_V1", 85.304, 384, 384, MODEL_BICUBIC, false, "_swag-9ac1b537"),
        WEIGHTS("IMAGENET1K_SWAG_LINEAR_V1", 81.886, 224, 224, MODEL_BICUBIC, false,
                "_lc_swag-4e70ced5")),
    VIT("vit_b_32", "vit_base_patch32_224", 32, 12, 12, WEIGHTS_V1(75.912, "-d86f8d99"),
        AUGREG("augreg_in21k_ft_in1k", 80.732)),
    VIT("vit_l_16", "vit_large_patch16_224", 16, 16, 24,
        WEIGHTS("IMAGENET1K_V1", 79.662, 224, 242, MODEL_BILINEAR, false, "-852ce7e3"),
        WEIGHTS("IMAGENET1K_SWAG_E2E_V1", 88.064, 512, 512, MODEL_BICUBIC, false, "_swag-4f3808c9"),
        WEIGHTS("IMAGENET1K_SWAG_LINEAR_V1", 85.146, 224, 224, MODEL_BICUBIC, false,
                "_lc_swag-4d563306")),
    DEIT("tiny", 3, 72.172),
    DEIT("small", 6, 79.844),
    DEIT("base", 12, 81.980),
    VIT_TIMM("tiny", 3, 12, AUGREG("augreg_in21k_ft_in1k", 75.452)),
    VIT_TIMM("small", 6, 12, AUGREG("augreg_in21k_ft_in1k", 81.402), AUGREG("augreg_in1k", 78.842)),
    VIT_TIMM("base", 12, 12, AUGREG("augreg2_in21k_ft_in1k", 85.108),
             AUGREG("augreg_in21k_ft_in1k", 84.534), AUGREG("augreg_in1k", 79.154),
             AUGREG("orig_in21k_ft_in1k", 81.782)),
    VIT_TIMM("large", 16, 24, AUGREG("augreg_in21k_ft_in1k", 85.856)),
    DINOV2("small", 6),
    DINOV2("base", 12),
};
const ModelFamily vit_family = MODEL_FAMILY(rows);
