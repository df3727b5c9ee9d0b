/* convnext.c - ConvNeXt-T, -S, -B, -L (Liu et al. 2022), with the names and shapes of torchvision
 * or timm, and ConvNeXt V2-A, -N, -T, -B (Woo et al. 2023) with timm's.
 *
 * A stem of 4x4 patches, four stages of blocks with 2x2 convolutions of stride 2 between them, mean
 * over the image, a layer norm, one linear layer. A block: 7x7 of each channel, layer norm, a
 * linear layer over the channels to four times as many, GELU, one back, a factor for each channel,
 * and the sum with what came in; some images skip it while training. V2 has no factors, but global
 * response normalisation behind GELU. A variant is one row at the end. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define STAGES            4
#define BLOCK_MAX         40 /* a block's name, and a layer's in it: */
#define LAYER_MAX         56 /* each leaves room for what follows */
#define NORM_EPS          1e-6F
#define EXPANSION         4
#define FAN_OF_DEVIATION  5000    /* INIT_HE_FAN_OUT: normal with deviation 0.02 */
#define INVERSE_OF_SCALES 1000000 /* factors of blocks start at 1e-6 */

/* What libraries call the same. */
typedef struct Naming {
    const char *depthwise, *norm, *wide, *act, *grn, *narrow, *scale; /* in a block */
    const char *stem, *stem_norm, *head_norm, *head;
} Naming;
static const Naming namings[] = {
    [MODEL_NAMES_TORCHVISION] = { "block.0", "block.2", "block.3", "block.4", "", "block.5",
                                  "layer_scale", "features.0.0", "features.0.1", "classifier.0",
                                  "classifier.2" },
    [MODEL_NAMES_TIMM] = { "conv_dw", "norm", "mlp.fc1", "mlp.act", "mlp.grn", "mlp.fc2", "gamma",
                           "stem.0", "stem.1", "head.norm", "head.fc" },
};

typedef struct ConvNextRow {
    int64_t channels[STAGES];
    int blocks[STAGES];
    double stochastic_depth; /* of the last block; linearly less before it */
    bool version2;
    bool convolutions; /* linear layers of blocks are 1x1 convolutions, [K,C,1,1] */
} ConvNextRow;

/* Weights of any layer start as truncated normal numbers with deviation 0.02: the cut, at 100
 * deviations, is never met. */
static void set_weight(Graph *g, const char *layer)
{
    char name[BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s.weight", layer);
    graph_set_init(g, name, INIT_HE_FAN_OUT, FAN_OF_DEVIATION, false);
}

static TensorId add_conv(Graph *g, const char *layer, TensorId x, int64_t filters, int kernel_size,
                         int stride, int pad, int groups)
{
    const Conv2dAttr attr = { stride, stride, pad, pad, pad, pad, groups };
    x = graph_conv2d_biased(g, layer, x, filters, kernel_size, &attr);
    set_weight(g, layer);
    return x;
}

static TensorId add_linear(Graph *g, const ConvNextRow *row, const char *layer, TensorId x,
                           int64_t channels)
{
    if (row->convolutions) return add_conv(g, layer, x, channels, 1, 1, 0, 1);
    x = graph_linear_positions(g, layer, x, channels);
    set_weight(g, layer);
    return x;
}

/* name: "features.1.0" */
static TensorId add_block(Graph *g, const ConvNextRow *row, const Naming *n, const char *name,
                          TensorId x, int64_t channels, float rate)
{
    const bool flat = n == &namings[MODEL_NAMES_TIMM];
    enum { DEPTHWISE, NORM, WIDE, ACT, GRN, NARROW, DROP, SUM, LAYERS };
    char layers[LAYERS][LAYER_MAX];
    const char *const suffixes[LAYERS] = { n->depthwise, n->norm,   n->wide, n->act,
                                           n->grn,       n->narrow, "drop",  "sum" };
    for (int i = 0; i < LAYERS; i++)
        snprintf(layers[i], sizeof layers[i], "%s.%s", name, suffixes[i]);
    TensorId y = add_conv(g, layers[DEPTHWISE], x, channels, 7, 1, 3, (int)channels);
    y = graph_layernorm(g, layers[NORM], y, NORM_EPS);
    y = add_linear(g, row, layers[WIDE], y, EXPANSION * channels);
    y = graph_activation(g, layers[ACT], y, ACT_GELU);
    if (row->version2) y = graph_grn(g, layers[GRN], y, NORM_EPS);
    y = add_linear(g, row, layers[NARROW], y, channels);
    if (!row->version2) y = graph_layer_scale(g, name, n->scale, y, flat, INVERSE_OF_SCALES);
    return rate > 0 ? graph_drop(g, layers[DROP], y, rate, true, x)
                    : graph_add(g, layers[SUM], y, x);
}

static TensorId add_classifier(Graph *g, const Naming *n, TensorId x, const ModelOptions *o)
{
    char bias[LAYER_MAX];
    x = graph_global_avgpool(g, "avgpool", x);
    x = graph_layernorm(g, n->head_norm, x, NORM_EPS);
    if (o->graph.training && o->dropout > 0)
        x = graph_drop(g, "dropout", x, (float)o->dropout, false, TENSOR_NONE);
    x = graph_linear(g, n->head, x, o->graph.classes);
    set_weight(g, n->head);
    snprintf(bias, sizeof bias, "%s.bias", n->head);
    graph_set_init(g, bias, INIT_ZERO, 0, false);
    return x;
}

/* Of a stage's block, or of the layers before its blocks. */
static void name_part(char out[BLOCK_MAX], const Naming *n, int stage, bool block, int index)
{
    if (n == &namings[MODEL_NAMES_TIMM])
        snprintf(out, BLOCK_MAX, "stages.%d.%s.%d", stage, block ? "blocks" : "downsample", index);
    else snprintf(out, BLOCK_MAX, "features.%d.%d", 2 * stage + block, index);
}

/* What makes the images of a stage: the stem, or a norm and a convolution. */
static TensorId add_shrink(Graph *g, const Naming *n, TensorId x, int stage, int64_t channels)
{
    char norm[BLOCK_MAX], conv[BLOCK_MAX];
    if (stage == 0) {
        x = add_conv(g, n->stem, x, channels, 4, 4, 0, 1);
        return graph_layernorm(g, n->stem_norm, x, NORM_EPS);
    }
    name_part(norm, n, stage, false, 0);
    name_part(conv, n, stage, false, 1);
    return add_conv(g, conv, graph_layernorm(g, norm, x, NORM_EPS), channels, 2, 2, 0, 1);
}

static Status build_convnext(Graph *g, const ModelDef *def, const ModelOptions *options)
{
    const ConvNextRow *row = def->params;
    const Naming *n = &namings[def->names];
    ModelOptions o = *options;
    int blocks = 0, index = 0;
    char name[BLOCK_MAX];
    if (o.stochastic_depth < 0) o.stochastic_depth = row->stochastic_depth;
    TensorId x = graph_images(g, &o.graph);
    for (int stage = 0; stage < STAGES; stage++) blocks += row->blocks[stage];
    for (int stage = 0; stage < STAGES; stage++) {
        const int64_t channels = block_scale_channels(row->channels[stage], o.width);
        x = add_shrink(g, n, x, stage, channels);
        for (int i = 0; i < row->blocks[stage]; i++) {
            name_part(name, n, stage, true, i);
            x = add_block(g, row, n, name, x, channels, block_drop_rate(&o, index++, blocks));
        }
    }
    graph_softmax_xent(g, add_classifier(g, n, x, &o));
    return graph_status(g);
}

#define ROW(letter, top1, resize, file, timms, ...)                                                \
    {                                                                                              \
        .name = "convnext_" letter, .summary = "ConvNeXt, Liu et al. 2022 (torchvision)",          \
        .build = build_convnext, .params = &(const ConvNextRow){ __VA_ARGS__ },                    \
        .input = { 3, 224 },                                                                       \
        .weights = { WEIGHTS("IMAGENET1K_V1", top1, 224, resize, MODEL_BILINEAR, false, file),     \
                     timms },                                                                      \
        .drops = true, .least_size = 32, .both = true, .timm = "convnext_" letter                  \
    }
#define ROW_V2(letter, weights_of, ...)                                                            \
    {                                                                                              \
        .name = "convnextv2_" letter, .summary = "ConvNeXt V2, Woo et al. 2023 (timm)",            \
        .build = build_convnext, .params = &(const ConvNextRow){ __VA_ARGS__ },                    \
        .input = { 3, 224 }, .weights = WEIGHTS weights_of, .drops = true, .least_size = 32,       \
        .names = MODEL_NAMES_TIMM, .timm = "convnextv2_" letter                                    \
    }
#define FCMAE(tag, top1, resize) TIMM("fcmae_ft_" tag, top1, 288, resize, MODEL_BICUBIC, false)
static const ModelDef rows[] = {
    ROW("tiny", 82.520, 236, "-983f1562",
        TIMM("in12k_ft_in1k", 84.448, 288, 288, MODEL_BICUBIC, false), { 96, 192, 384, 768 },
        { 3, 3, 9, 3 }, 0.1, false, false),
    ROW("small", 83.616, 230, "-0c510722",
        TIMM("in12k_ft_in1k", 85.324, 288, 288, MODEL_BICUBIC, false), { 96, 192, 384, 768 },
        { 3, 3, 27, 3 }, 0.4, false, false),
    ROW("base", 84.062, 232, "-6075fbad",
        TIMM("fb_in22k_ft_in1k", 86.302, 288, 288, MODEL_BICUBIC, false), { 128, 256, 512, 1024 },
        { 3, 3, 27, 3 }, 0.5, false, false),
    ROW("large", 84.414, 232, "-ea097f82",
        TIMM("fb_in22k_ft_in1k", 87.012, 288, 288, MODEL_BICUBIC, false), { 192, 384, 768, 1536 },
        { 3, 3, 27, 3 }, 0.5, false, false),
    ROW_V2("atto", (FCMAE("in1k", 77.794, 303)), { 40, 80, 160, 320 }, { 2, 2, 6, 2 }, 0.1, true,
           true),
    ROW_V2("nano", (FCMAE("in22k_in1k", 82.666, 288), FCMAE("in1k", 82.490, 288)),
           { 80, 160, 320, 640 }, { 2, 2, 8, 2 }, 0.1, true, true),
    ROW_V2("tiny", (FCMAE("in22k_in1k", 84.428, 288), FCMAE("in1k", 83.478, 288)),
           { 96, 192, 384, 768 }, { 3, 3, 9, 3 }, 0.2, true, false),
    ROW_V2("base", (FCMAE("in22k_in1k", 86.994, 288), FCMAE("in1k", 85.490, 288)),
           { 128, 256, 512, 1024 }, { 3, 3, 27, 3 }, 0.1, true, false),
};
const ModelFamily convnext_family = MODEL_FAMILY(rows);
