/* efficientnet.c - EfficientNet-B0 to -B7 (Tan and Le 2019): inverted bottlenecks with depthwise
 * convolutions and squeeze-and-excitation, scaled in width, depth and resolution together; and
 * EfficientNetV2-S, -M and -L (Tan and Le 2021), whose first stages are fused and without
 * excitation, each with stages of its own.
 *
 * A variant is one row at the end: its stages, the factors, the dropout, its norms, and a FLAVOUR -
 * which published weights it is to take: torchvision's (symmetric padding) or those that timm
 * converted from TensorFlow ("same" padding, which puts the odd pixel behind). The flavours differ
 * in names too. Stochastic depth grows linearly from 0 to 0.2 over the
 * blocks. */
#include "models/families.h"
#include "models/inverted.h"
#include <math.h>
#include <stdio.h>

#define HEAD_CHANNELS    1280
#define SQUEEZE          4
#define STOCHASTIC_DEPTH 0.2

typedef enum Flavour {
    TORCHVISION,
    TENSORFLOW, /* as timm converted Google's weights: "same" padding */
} Flavour;

typedef struct Stage {
    int expand, kernel_size, stride;
    int64_t channels; /* of its output */
    int blocks;
    bool fused;
} Stage;
enum { STAGES_MAX = 7 };
typedef struct Stages {
    int64_t stem;           /* channels */
    Stage rows[STAGES_MAX]; /* without blocks behind the last one */
} Stages;

typedef struct EfficientNetRow {
    Flavour flavour;
    const Stages *stages;
    double width, depth, dropout;
    float eps, momentum; /* of the norms */
} EfficientNetRow;

static const Stages version1 = { 32,
                                 { { 1, 3, 1, 16, 1, false },
                                   { 6, 3, 2, 24, 2, false },
                                   { 6, 5, 2, 40, 2, false },
                                   { 6, 3, 2, 80, 3, false },
                                   { 6, 5, 1, 112, 3, false },
                                   { 6, 5, 2, 192, 4, false },
                                   { 6, 3, 1, 320, 1, false } } };
static const Stages version2_s = { 24,
                                   { { 1, 3, 1, 24, 2, true },
                                     { 4, 3, 2, 48, 4, true },
                                     { 4, 3, 2, 64, 4, true },
                                     { 4, 3, 2, 128, 6, false },
                                     { 6, 3, 1, 160, 9, false },
                                     { 6, 3, 2, 256, 15, false } } };
static const Stages version2_m = { 24,
                                   { { 1, 3, 1, 24, 3, true },
                                     { 4, 3, 2, 48, 5, true },
                                     { 4, 3, 2, 80, 5, true },
                                     { 4, 3, 2, 160, 7, false },
                                     { 6, 3, 1, 176, 14, false },
                                     { 6, 3, 2, 304, 18, false },
                                     { 6, 3, 1, 512, 5, false } } };
static const Stages version2_l = { 32,
                                   { { 1, 3, 1, 32, 4, true },
                                     { 4, 3, 2, 64, 7, true },
                                     { 4, 3, 2, 96, 7, true },
                                     { 4, 3, 2, 192, 10, false },
                                     { 6, 3, 1, 224, 19, false },
                                     { 6, 3, 2, 384, 25, false },
                                     { 6, 3, 1, 640, 7, false } } };

typedef struct Builder { /* what every layer of a network needs */
    Graph *g;
    const EfficientNetRow *row;
    const ModelOptions *options;
    int blocks, stages;
} Builder;

/* The paper's, then the width of a narrow test network. */
static int64_t scale_channels(const Builder *b, int64_t channels)
{
    return block_scale_channels(inverted_round_channels((double)channels * b->row->width),
                                b->options->width);
}

static int scale_depth(const Builder *b, int blocks)
{
    return (int)ceil((double)blocks * b->row->depth);
}

static ConvBnOptions layer_options(const Builder *b, int64_t filters, int kernel_size, int stride)
{
    return (ConvBnOptions){ .filters = filters,
                            .kernel_size = kernel_size,
                            .stride = stride,
                            .act = ACT_SILU,
                            .residual = TENSOR_NONE,
                            .same_padding = b->row->flavour == TENSORFLOW,
                            .fan_per_group = b->row->flavour == TENSORFLOW,
                            .eps = b->row->eps,
                            .momentum = b->row->momentum };
}

/* Block number index of stage k; before: blocks of the stages before. */
static TensorId add_block(const Builder *b, TensorId x, int k, int index, int before)
{
    const Stage *stage = &b->row->stages->rows[k];
    const ModelOptions *o = b->options;
    const double depth = o->stochastic_depth >= 0 ? o->stochastic_depth : STOCHASTIC_DEPTH;
    char name[BLOCK_NAME_MAX];
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(b->g, x)->desc.dims[1];
    InvertedOptions block = {
        .name = name,
        .names = b->row->flavour == TENSORFLOW ? inverted_timm_names[stage->expand > 1] : NULL,
        .fused = stage->fused,
        .inner = channels * stage->expand,
        .channels = scale_channels(b, stage->channels),
        .squeezed = stage->fused         ? 0
                    : channels > SQUEEZE ? channels / SQUEEZE
                                         : 1,
        .squeezed_act = ACT_SILU,
        .layer = layer_options(b, 0, stage->kernel_size, index == 0 ? stage->stride : 1),
        .zero_init_last_gamma = o->zero_init_last_gamma,
        .drop_rate = o->graph.training ? (float)(depth * (before + index) / b->blocks) : 0
    };
    if (b->row->flavour == TORCHVISION)
        snprintf(name, sizeof name, "features.%d.%d.block", k + 1, index);
    else snprintf(name, sizeof name, "blocks.%d.%d", k, index);
    return inverted_block(b->g, x, &block);
}

static TensorId add_stages(Builder *b, TensorId x)
{
    int before = 0;
    for (int k = 0; k < STAGES_MAX; k++) {
        const int blocks = scale_depth(b, b->row->stages->rows[k].blocks);
        b->blocks += blocks;
        b->stages += blocks > 0;
    }
    for (int k = 0; k < b->stages; k++) {
        const int blocks = scale_depth(b, b->row->stages->rows[k].blocks);
        for (int i = 0; i < blocks; i++) x = add_block(b, x, k, i, before);
        before += blocks;
    }
    return x;
}

static TensorId add_head(const Builder *b, TensorId x)
{
    const bool timm = b->row->flavour == TENSORFLOW;
    const ConvBnOptions head = layer_options(b, scale_channels(b, HEAD_CHANNELS), 1, 1);
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "features.%d.0", b->stages + 1);
    snprintf(bn, sizeof bn, "features.%d.1", b->stages + 1);
    return block_conv_bn(b->g, timm ? "conv_head" : conv, timm ? "bn2" : bn, x, &head);
}

static Status build_efficientnet(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const EfficientNetRow *row = def->params;
    const bool timm = row->flavour == TENSORFLOW;
    Builder b = { .g = g, .row = row, .options = o };
    const float dropout = (float)(o->dropout >= 0 ? o->dropout : row->dropout);
    const ConvBnOptions stem =
        layer_options(&b, scale_channels(&b, row->stages->stem), 3, o->stem == STEM_CIFAR ? 1 : 2);
    TensorId x = graph_images(g, &o->graph);
    x = block_conv_bn(g, timm ? "conv_stem" : "features.0.0", timm ? "bn1" : "features.0.1", x,
                      &stem);
    x = add_head(&b, add_stages(&b, x));
    x = graph_global_avgpool(g, "avgpool", x);
    if (o->graph.training && dropout > 0)
        x = graph_drop(g, "dropout", x, dropout, false, TENSOR_NONE);
    x = graph_linear_fan_out(g, timm ? "classifier" : "classifier.1", x, o->graph.classes);
    graph_softmax_xent(g, x);
    return graph_status(g);
}

#define TORCHVISION_SAYS "EfficientNet, Tan and Le 2019 (torchvision)"
#define VERSION2_SAYS    "EfficientNetV2, Tan and Le 2021 (torchvision)"
#define TENSORFLOW_SAYS  "EfficientNet with TensorFlow's padding (timm)"

/* size of its images, what was published; then stages, width, depth and dropout of the paper, eps
 * and momentum of the norms: torchvision's B5 to B7 keep TensorFlow's eps. */
#define ROW(flavour, name_of, says, size, weights_of, ...)                                         \
    .name = name_of, .summary = says, .build = build_efficientnet,                                 \
    .params = &(const EfficientNetRow){ flavour, __VA_ARGS__ }, .input = { 3, size },              \
    .weights = WEIGHTS weights_of, .drops = true, .stems = true
#define V1(top1, size, resize, file)                                                               \
    WEIGHTS("IMAGENET1K_V1", top1, size, resize, MODEL_BICUBIC, false, file)
#define B1_V2 WEIGHTS("IMAGENET1K_V2", 79.838, 240, 255, MODEL_BILINEAR, false, "-c27df63c")
/* AutoAugment's; Noisy Student's, which saw images of JFT too */
#define AA(top1, size, resize) TIMM("aa_in1k", top1, size, resize, MODEL_BICUBIC, false)
#define NS(top1, size, resize) TIMM("ns_jft_in1k", top1, size, resize, MODEL_BICUBIC, false)
/* Each of these has the other flavour's of the same size as its twin. timms: where timm divides by
 * the same epsilon */
#define TV(b, size, timms, weights, ...)                                                           \
    {                                                                                              \
        ROW(TORCHVISION, "efficientnet_" b, TORCHVISION_SAYS, size, weights, &version1,            \
            __VA_ARGS__),                                                                          \
            .twin = "tf_efficientnet_" b, .timm = timms                                            \
    }
#define TF(b, size, resize, aa, ns, ...)                                                           \
    {                                                                                              \
        ROW(TENSORFLOW, "tf_efficientnet_" b, TENSORFLOW_SAYS, size,                               \
            (AA(aa, size, resize), NS(ns, size, resize)), &version1, __VA_ARGS__),                 \
            .names = MODEL_NAMES_TIMM, .twin = "efficientnet_" b, .timm = "tf_efficientnet_" b     \
    }
#define V2(s, size, top1, interpolation, halves, file, dropout)                                    \
    {                                                                                              \
        ROW(TORCHVISION, "efficientnet_v2_" #s, VERSION2_SAYS, size,                               \
            (WEIGHTS("IMAGENET1K_V1", top1, size, size, interpolation, halves, file)),             \
            &version2_##s, 1.0, 1.0, dropout, 1e-3F, 0.1F),                                        \
            .apart = true                                                                          \
    }
static const ModelDef rows[] = {
    TV("b0", 224, "efficientnet_b0",
       (V1(77.692, 224, 256, "_rwightman-7f5810bc"),
        TIMM("ra_in1k", 77.698, 224, 256, MODEL_BICUBIC, false)),
       1.0, 1.0, 0.2, 1e-5F, 0.1F),
    TV("b1", 240, "efficientnet_b1",
       (V1(78.642, 240, 256, "_rwightman-bac287d4"), B1_V2,
        TIMM("ra4_e3600_r240_in1k", 81.444, 288, 288, MODEL_BICUBIC, true)),
       1.0, 1.1, 0.2, 1e-5F, 0.1F),
    TV("b2", 288, "efficientnet_b2",
       (V1(80.608, 288, 288, "_rwightman-c35c1473"),
        TIMM("ra_in1k", 80.612, 288, 288, MODEL_BICUBIC, false)),
       1.1, 1.2, 0.3, 1e-5F, 0.1F),
    TV("b3", 300, "efficientnet_b3",
       (V1(82.008, 300, 320, "_rwightman-b3899882"),
        TIMM("ra2_in1k", 82.296, 320, 320, MODEL_BICUBIC, false)),
       1.2, 1.4, 0.3, 1e-5F, 0.1F),
    TV("b4", 380, "efficientnet_b4",
       (V1(83.384, 380, 384, "_rwightman-23ab8bcd"),
        TIMM("ra2_in1k", 83.468, 384, 384, MODEL_BICUBIC, false)),
       1.4, 1.8, 0.4, 1e-5F, 0.1F),
    TV("b5", 456, NULL, (V1(83.444, 456, 456, "_lukemelas-1a07897c")), 1.6, 2.2, 0.4, 1e-3F, 0.01F),
    TV("b6", 528, NULL, (V1(84.008, 528, 528, "_lukemelas-24a108a5")), 1.8, 2.6, 0.5, 1e-3F, 0.01F),
    TV("b7", 600, NULL, (V1(84.122, 600, 600, "_lukemelas-c5b4e57e")), 2.0, 3.1, 0.5, 1e-3F, 0.01F),
    TF("b0", 224, 256, 76.882, 78.680, 1.0, 1.0, 0.2, 1e-3F, 0.1F),
    TF("b1", 240, 272, 78.840, 81.388, 1.0, 1.1, 0.2, 1e-3F, 0.1F),
    TF("b2", 260, 292, 80.074, 82.412, 1.1, 1.2, 0.3, 1e-3F, 0.1F),
    TF("b3", 300, 331, 81.648, 84.054, 1.2, 1.4, 0.3, 1e-3F, 0.1F),
    TF("b4", 380, 412, 83.040, 85.156, 1.4, 1.8, 0.4, 1e-3F, 0.1F),
    TF("b5", 456, 488, 83.696, 86.096, 1.6, 2.2, 0.4, 1e-3F, 0.1F),
    TF("b6", 528, 560, 84.124, 86.476, 1.8, 2.6, 0.5, 1e-3F, 0.1F),
    TF("b7", 600, 632, 84.424, 86.850, 2.0, 3.1, 0.5, 1e-3F, 0.1F),
    V2(s, 384, 84.228, MODEL_BILINEAR, false, "-dd5fe13b", 0.2),
    V2(m, 480, 85.112, MODEL_BILINEAR, false, "-dc08266a", 0.3),
    V2(l, 480, 85.808, MODEL_BICUBIC, true, "-59c71312", 0.4),
};
const ModelFamily efficientnet_family = MODEL_FAMILY(rows);
