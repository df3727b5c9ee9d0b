/* convnext.c - ConvNeXt-T, -S, -B, -L (Liu et al. 2022), with torchvision's names and shapes.
 *
 * A stem of 4x4 patches, four stages of blocks with 2x2 convolutions of stride 2 between them, mean
 * over the image, a layer norm, one linear layer. A block: 7x7 of each channel, layer norm, a
 * linear layer over the channels to four times as many, GELU, one back, a factor for each channel,
 * and the sum with what came in; some images skip it while training. A variant is one row at the
 * end. */
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

typedef struct ConvNextRow {
    int64_t channels[STAGES];
    int blocks[STAGES];
    double stochastic_depth; /* of the last block; linearly less before it */
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

static TensorId add_linear(Graph *g, const char *layer, TensorId x, int64_t channels)
{
    x = graph_linear_positions(g, layer, x, channels);
    set_weight(g, layer);
    return x;
}

/* name: "features.1.0" */
static TensorId add_block(Graph *g, const char *name, TensorId x, int64_t channels, float rate)
{
    char layers[7][LAYER_MAX];
    static const char *const suffixes[] = { "block.0", "block.2", "block.3", "block.4",
                                            "block.5", "drop",    "sum" };
    for (int i = 0; i < 7; i++) snprintf(layers[i], sizeof layers[i], "%s.%s", name, suffixes[i]);
    TensorId y = add_conv(g, layers[0], x, channels, 7, 1, 3, (int)channels);
    y = graph_layernorm(g, layers[1], y, NORM_EPS);
    y = add_linear(g, layers[2], y, EXPANSION * channels);
    y = graph_activation(g, layers[3], y, ACT_GELU);
    y = add_linear(g, layers[4], y, channels);
    y = graph_layer_scale(g, name, "layer_scale", y, INVERSE_OF_SCALES);
    return rate > 0 ? graph_drop(g, layers[5], y, rate, true, x) : graph_add(g, layers[6], y, x);
}

static TensorId add_classifier(Graph *g, TensorId x, const ModelOptions *o)
{
    x = graph_global_avgpool(g, "avgpool", x);
    x = graph_layernorm(g, "classifier.0", x, NORM_EPS);
    if (o->graph.training && o->dropout > 0)
        x = graph_drop(g, "dropout", x, (float)o->dropout, false, TENSOR_NONE);
    x = graph_linear(g, "classifier.2", x, o->graph.classes);
    set_weight(g, "classifier.2");
    graph_set_init(g, "classifier.2.bias", INIT_ZERO, 0, false);
    return x;
}

static Status build_convnext(Graph *g, const ModelDef *def, const ModelOptions *options)
{
    const ConvNextRow *row = def->params;
    ModelOptions o = *options;
    int blocks = 0, index = 0;
    char name[BLOCK_MAX];
    if (o.stochastic_depth < 0) o.stochastic_depth = row->stochastic_depth;
    TensorId x = graph_images(g, &o.graph);
    for (int stage = 0; stage < STAGES; stage++) blocks += row->blocks[stage];
    for (int stage = 0; stage < STAGES; stage++) {
        const int64_t channels = block_scale_channels(row->channels[stage], o.width);
        if (stage == 0) {
            x = add_conv(g, "features.0.0", x, channels, 4, 4, 0, 1);
            x = graph_layernorm(g, "features.0.1", x, NORM_EPS);
        } else {
            snprintf(name, sizeof name, "features.%d.0", 2 * stage);
            x = graph_layernorm(g, name, x, NORM_EPS);
            snprintf(name, sizeof name, "features.%d.1", 2 * stage);
            x = add_conv(g, name, x, channels, 2, 2, 0, 1);
        }
        for (int i = 0; i < row->blocks[stage]; i++) {
            snprintf(name, sizeof name, "features.%d.%d", 2 * stage + 1, i);
            x = add_block(g, name, x, channels, block_drop_rate(&o, index++, blocks));
        }
    }
    graph_softmax_xent(g, add_classifier(g, x, &o));
    return graph_status(g);
}

#define ROW(letter, top1, resize, ...)                                                             \
    {                                                                                              \
        .name = "convnext_" letter, .summary = "ConvNeXt, Liu et al. 2022 (torchvision)",          \
        .build = build_convnext, .params = &(const ConvNextRow){ __VA_ARGS__ },                    \
        .input = { 3, 224 },                                                                       \
        .weights = { WEIGHTS("IMAGENET1K_V1", top1, 224, resize, MODEL_BILINEAR, false) },         \
        .drops = true, .least_size = 32, .apart = true                                             \
    }
static const ModelDef rows[] = {
    ROW("tiny", 82.520, 236, { 96, 192, 384, 768 }, { 3, 3, 9, 3 }, 0.1),
    ROW("small", 83.616, 230, { 96, 192, 384, 768 }, { 3, 3, 27, 3 }, 0.4),
    ROW("base", 84.062, 232, { 128, 256, 512, 1024 }, { 3, 3, 27, 3 }, 0.5),
    ROW("large", 84.414, 232, { 192, 384, 768, 1536 }, { 3, 3, 27, 3 }, 0.5),
};
const ModelFamily convnext_family = MODEL_FAMILY(rows);
