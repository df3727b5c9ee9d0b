/* efficientnet.c - EfficientNet-B0 to -B7 (Tan and Le 2019): inverted bottlenecks with depthwise
 * convolutions and squeeze-and-excitation, scaled in width, depth and resolution together.
 *
 * A variant is one row at the end: the two factors, the dropout, its norms, and a FLAVOUR - which
 * published weights it is to take: torchvision's (symmetric padding) or those that timm converted
 * from TensorFlow ("same" padding, which puts the odd pixel behind). The flavours differ in names
 * too; the table below has both. Stochastic depth grows linearly from 0 to 0.2 over the blocks. */
#include "models/blocks.h"
#include "models/families.h"
#include <math.h>
#include <stdio.h>

#define STEM_CHANNELS     32
#define HEAD_CHANNELS     1280
#define SQUEEZE           4
#define STOCHASTIC_DEPTH  0.2
#define CHANNELS_MULTIPLE 8
#define SHORT_NAME_MAX    40 /* of a block: leaves room for a layer behind it */

typedef enum Flavour {
    TORCHVISION,
    TENSORFLOW, /* as timm converted Google's weights: "same" padding */
    FLAVOUR_COUNT
} Flavour;

typedef struct EfficientNetRow {
    Flavour flavour;
    double width, depth, dropout;
    float eps, momentum; /* of the norms */
} EfficientNetRow;

static const struct StageRow {
    int expand, kernel_size, stride;
    int64_t channels; /* of its output */
    int blocks;
} stages[] = {
    { 1, 3, 1, 16, 1 },  { 6, 3, 2, 24, 2 },  { 6, 5, 2, 40, 2 },  { 6, 3, 2, 80, 3 },
    { 6, 5, 1, 112, 3 }, { 6, 5, 2, 192, 4 }, { 6, 3, 1, 320, 1 },
};
enum { STAGE_COUNT = sizeof stages / sizeof stages[0] };

/* The layers of a block, in order; the first exists only where the block expands. */
enum { LAYER_EXPAND, LAYER_DEPTHWISE, LAYER_EXCITE, LAYER_PROJECT, LAYER_COUNT };

/* What follows the block's name. [1]: where the block expands. excite has no norm but two layers:
 * its "conv" squeezes, its "bn" excites. */
typedef struct LayerNames {
    const char *conv, *bn;
} LayerNames;
static const struct FlavourRow {
    const char *stem_conv, *stem_bn, *head_conv, *head_bn, *classifier;
    LayerNames layers[2][LAYER_COUNT];
} flavours[FLAVOUR_COUNT] = {
    [TORCHVISION] = { .stem_conv = "features.0.0",
                      .stem_bn = "features.0.1",
                      .head_conv = "features.8.0",
                      .head_bn = "features.8.1",
                      .classifier = "classifier.1",
                      .layers = { { [LAYER_DEPTHWISE] = { "0.0", "0.1" },
                                    [LAYER_EXCITE] = { "1.fc1", "1.fc2" },
                                    [LAYER_PROJECT] = { "2.0", "2.1" } },
                                  { { "0.0", "0.1" },
                                    { "1.0", "1.1" },
                                    { "2.fc1", "2.fc2" },
                                    { "3.0", "3.1" } } } },
    [TENSORFLOW] = { .stem_conv = "conv_stem",
                     .stem_bn = "bn1",
                     .head_conv = "conv_head",
                     .head_bn = "bn2",
                     .classifier = "classifier",
                     .layers = { { [LAYER_DEPTHWISE] = { "conv_dw", "bn1" },
                                   [LAYER_EXCITE] = { "se.conv_reduce", "se.conv_expand" },
                                   [LAYER_PROJECT] = { "conv_pw", "bn2" } },
                                 { { "conv_pw", "bn1" },
                                   { "conv_dw", "bn2" },
                                   { "se.conv_reduce", "se.conv_expand" },
                                   { "conv_pwl", "bn3" } } } },
};

typedef struct Builder { /* what every layer of a network needs */
    Graph *g;
    const EfficientNetRow *row;
    const struct FlavourRow *names;
    const ModelOptions *options;
    double drop_path; /* of the last block, were there one more */
    int block, blocks;
} Builder;

typedef struct BlockShape {
    char name[SHORT_NAME_MAX];
    int expand, kernel_size, stride;
    int64_t channels;
} BlockShape;

/* channels * factor to the nearest multiple of 8, but never down by more than a tenth; then the
 * width of a narrow test network. */
static int64_t scale_channels(const Builder *b, int64_t channels, double factor)
{
    const double want = (double)channels * factor;
    int64_t scaled =
        (int64_t)(want + CHANNELS_MULTIPLE / 2.0) / CHANNELS_MULTIPLE * CHANNELS_MULTIPLE;
    if (scaled < CHANNELS_MULTIPLE) scaled = CHANNELS_MULTIPLE;
    if ((double)scaled < 0.9 * want) scaled += CHANNELS_MULTIPLE;
    return block_scale_channels(scaled, b->options->width);
}

static int scale_depth(const Builder *b, int blocks)
{
    return (int)ceil((double)blocks * b->row->depth);
}

static ConvBnOptions layer_options(const Builder *b, int64_t filters, int kernel_size, int stride,
                                   ActKind act)
{
    return (ConvBnOptions){ .filters = filters,
                            .kernel_size = kernel_size,
                            .stride = stride,
                            .act = act,
                            .residual = TENSOR_NONE,
                            .same_padding = b->row->flavour == TENSORFLOW,
                            .fan_per_group = b->row->flavour == TENSORFLOW,
                            .eps = b->row->eps,
                            .momentum = b->row->momentum };
}

static TensorId add_layer(const Builder *b, const BlockShape *s, int layer, TensorId x,
                          const ConvBnOptions *o)
{
    const LayerNames *names = &b->names->layers[s->expand > 1][layer];
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "%s.%s", s->name, names->conv);
    snprintf(bn, sizeof bn, "%s.%s", s->name, names->bn);
    return block_conv_bn(b->g, conv, bn, x, o);
}

/* x times a gate for each of its channels, from their means: two layers with squeezed channels
 * between them. */
static TensorId add_excitation(const Builder *b, const BlockShape *s, TensorId x, int64_t squeezed)
{
    const LayerNames *names = &b->names->layers[s->expand > 1][LAYER_EXCITE];
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(b->g, x)->desc.dims[1];
    char name[BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s.avgpool", s->name);
    TensorId gate = graph_global_avgpool(b->g, name, x);
    snprintf(name, sizeof name, "%s.%s", s->name, names->conv);
    gate = graph_linear_1x1(b->g, name, gate, squeezed);
    snprintf(name, sizeof name, "%s.activation", s->name);
    gate = graph_activation(b->g, name, gate, ACT_SILU);
    snprintf(name, sizeof name, "%s.%s", s->name, names->bn);
    gate = graph_linear_1x1(b->g, name, gate, channels);
    snprintf(name, sizeof name, "%s.gate", s->name);
    return graph_gate(b->g, name, x, gate, false);
}

/* MBConv: 1x1 to expand, depthwise, squeeze-and-excitation, 1x1 to project; around it the identity
 * where the shape stays, with the block dropped for some images while training. */
static TensorId add_block(Builder *b, TensorId x, const BlockShape *s)
{
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(b->g, x)->desc.dims[1], inner = channels * s->expand;
    const float rate = (float)(b->drop_path * b->block++ / b->blocks);
    const bool identity = s->stride == 1 && channels == s->channels,
               drops = identity && b->options->graph.training && rate > 0;
    const ConvBnOptions expand = layer_options(b, inner, 1, 1, ACT_SILU);
    ConvBnOptions depthwise = layer_options(b, inner, s->kernel_size, s->stride, ACT_SILU);
    ConvBnOptions project = layer_options(b, s->channels, 1, 1, ACT_NONE);
    depthwise.groups = (int)inner;
    if (identity && !drops) project.residual = x;
    project.zero_gamma = identity && b->options->zero_init_last_gamma;
    TensorId y = s->expand > 1 ? add_layer(b, s, LAYER_EXPAND, x, &expand) : x;
    y = add_layer(b, s, LAYER_DEPTHWISE, y, &depthwise);
    y = add_excitation(b, s, y, channels > SQUEEZE ? channels / SQUEEZE : 1);
    y = add_layer(b, s, LAYER_PROJECT, y, &project);
    char name[BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s.drop", s->name);
    return drops ? graph_drop(b->g, name, y, rate, true, x) : y;
}

static void name_block(const Builder *b, int stage, int index, char out[SHORT_NAME_MAX])
{
    if (b->row->flavour == TORCHVISION)
        snprintf(out, SHORT_NAME_MAX, "features.%d.%d.block", stage + 1, index);
    else snprintf(out, SHORT_NAME_MAX, "blocks.%d.%d", stage, index);
}

static TensorId add_stages(Builder *b, TensorId x)
{
    for (int k = 0; k < STAGE_COUNT; k++) b->blocks += scale_depth(b, stages[k].blocks);
    for (int k = 0; k < STAGE_COUNT; k++) {
        const struct StageRow *stage = &stages[k];
        for (int i = 0; i < scale_depth(b, stage->blocks); i++) {
            BlockShape shape = { .expand = stage->expand,
                                 .kernel_size = stage->kernel_size,
                                 .stride = i == 0 ? stage->stride : 1,
                                 .channels = scale_channels(b, stage->channels, b->row->width) };
            name_block(b, k, i, shape.name);
            x = add_block(b, x, &shape);
        }
    }
    return x;
}

static Status build(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const EfficientNetRow *row = def->params;
    Builder b = { .g = g,
                  .row = row,
                  .names = &flavours[row->flavour],
                  .options = o,
                  .drop_path = o->stochastic_depth >= 0 ? o->stochastic_depth : STOCHASTIC_DEPTH };
    const float dropout = (float)(o->dropout >= 0 ? o->dropout : row->dropout);
    const ConvBnOptions stem = layer_options(&b, scale_channels(&b, STEM_CHANNELS, row->width), 3,
                                             o->stem == STEM_CIFAR ? 1 : 2, ACT_SILU);
    const ConvBnOptions head =
        layer_options(&b, scale_channels(&b, HEAD_CHANNELS, row->width), 1, 1, ACT_SILU);
    TensorId x = graph_images(g, &o->graph);
    x = block_conv_bn(g, b.names->stem_conv, b.names->stem_bn, x, &stem);
    x = add_stages(&b, x);
    x = block_conv_bn(g, b.names->head_conv, b.names->head_bn, x, &head);
    x = graph_global_avgpool(g, "avgpool", x);
    if (o->graph.training && dropout > 0)
        x = graph_drop(g, "dropout", x, dropout, false, TENSOR_NONE);
    graph_softmax_xent(g, graph_linear_fan_out(g, b.names->classifier, x, o->graph.classes));
    return graph_status(g);
}

#define TORCHVISION_SAYS "EfficientNet, Tan and Le 2019, torchvision's names and shapes"
#define TENSORFLOW_SAYS  "EfficientNet with TensorFlow's padding, timm's names and shapes"

/* size of its images, what was published; then width, depth and dropout of the paper, eps and
 * momentum of the norms: torchvision's B5 to B7 keep TensorFlow's eps. Each network has the other
 * flavour's of the same size as its twin. */
#define ROW(flavour, name_of, names_of, twin_of, size, weights_of, ...)                            \
    {                                                                                              \
        .name = name_of, .summary = flavour##_SAYS, .build = build,                                \
        .params = &(const EfficientNetRow){ flavour, __VA_ARGS__ }, .input = { 3, size },          \
        .weights = WEIGHTS weights_of, .drops = true, .names = names_of, .twin = twin_of           \
    }
#define V1(top1, size, resize) WEIGHTS("IMAGENET1K_V1", top1, size, resize, MODEL_BICUBIC, false)
#define B1_V2                  WEIGHTS("IMAGENET1K_V2", 79.838, 240, 255, MODEL_BILINEAR, false)
/* AutoAugment's; Noisy Student's, which saw images of JFT too */
#define AA(top1, size, resize) WEIGHTS("aa_in1k", top1, size, resize, MODEL_BICUBIC, false)
#define NS(top1, size, resize) WEIGHTS("ns_jft_in1k", top1, size, resize, MODEL_BICUBIC, false)
#define TV(b, size, weights, ...)                                                                  \
    ROW(TORCHVISION, "efficientnet_" b, MODEL_NAMES_TORCHVISION, "tf_efficientnet_" b, size,       \
        weights, __VA_ARGS__)
#define TF(b, size, resize, aa, ns, ...)                                                           \
    ROW(TENSORFLOW, "tf_efficientnet_" b, MODEL_NAMES_TIMM, "efficientnet_" b, size,               \
        (AA(aa, size, resize), NS(ns, size, resize)), __VA_ARGS__)
static const ModelDef rows[] = {
    TV("b0", 224, (V1(77.692, 224, 256)), 1.0, 1.0, 0.2, 1e-5F, 0.1F),
    TV("b1", 240, (V1(78.642, 240, 256), B1_V2), 1.0, 1.1, 0.2, 1e-5F, 0.1F),
    TV("b2", 288, (V1(80.608, 288, 288)), 1.1, 1.2, 0.3, 1e-5F, 0.1F),
    TV("b3", 300, (V1(82.008, 300, 320)), 1.2, 1.4, 0.3, 1e-5F, 0.1F),
    TV("b4", 380, (V1(83.384, 380, 384)), 1.4, 1.8, 0.4, 1e-5F, 0.1F),
    TV("b5", 456, (V1(83.444, 456, 456)), 1.6, 2.2, 0.4, 1e-3F, 0.01F),
    TV("b6", 528, (V1(84.008, 528, 528)), 1.8, 2.6, 0.5, 1e-3F, 0.01F),
    TV("b7", 600, (V1(84.122, 600, 600)), 2.0, 3.1, 0.5, 1e-3F, 0.01F),
    TF("b0", 224, 256, 76.882, 78.680, 1.0, 1.0, 0.2, 1e-3F, 0.1F),
    TF("b1", 240, 272, 78.840, 81.388, 1.0, 1.1, 0.2, 1e-3F, 0.1F),
    TF("b2", 260, 292, 80.074, 82.412, 1.1, 1.2, 0.3, 1e-3F, 0.1F),
    TF("b3", 300, 331, 81.648, 84.054, 1.2, 1.4, 0.3, 1e-3F, 0.1F),
    TF("b4", 380, 412, 83.040, 85.156, 1.4, 1.8, 0.4, 1e-3F, 0.1F),
    TF("b5", 456, 488, 83.696, 86.096, 1.6, 2.2, 0.4, 1e-3F, 0.1F),
    TF("b6", 528, 560, 84.124, 86.476, 1.8, 2.6, 0.5, 1e-3F, 0.1F),
    TF("b7", 600, 632, 84.424, 86.850, 2.0, 3.1, 0.5, 1e-3F, 0.1F),
};
const ModelFamily efficientnet_family = MODEL_FAMILY(rows);
