/* mobilenet.c - MobileNetV2 (Sandler et al. 2018) and MobileNetV3-Large and -Small (Howard et al.
 * 2019), with the names of torchvision or timm: inverted bottlenecks, each a row of its own. Of V3
 * their norms divide by another epsilon, so that each has its own.
 *
 * V2 has ReLU6 and no excitation. V3 has hard swish, in its first half ReLU, gates by a hard
 * sigmoid, and a linear layer more at its end. */
#include "models/families.h"
#include "models/inverted.h"
#include <stdio.h>

#define DROPOUT 0.2
#define SQUEEZE 4

typedef struct BlockRow {
    int kernel_size;
    int64_t inner, channels; /* width inside; of the output */
    bool excites, hard;      /* hard: hard swish in place of ReLU */
    int stride, times;       /* so often, the others with stride 1; 0 counts as 1 */
} BlockRow;
typedef struct MobileNetRow {
    bool version3;
    int64_t stem, last, hidden; /* channels; hidden: of V3's linear layer */
    const BlockRow *blocks;
    int count;
    float eps, momentum; /* of the norms; 0: as ConvBnOptions has them */
} MobileNetRow;

/* V2: inner is a factor here */
static const BlockRow version2[] = {
    { 3, 1, 16, false, false, 1, 1 },  { 3, 6, 24, false, false, 2, 2 },
    { 3, 6, 32, false, false, 2, 3 },  { 3, 6, 64, false, false, 2, 4 },
    { 3, 6, 96, false, false, 1, 3 },  { 3, 6, 160, false, false, 2, 3 },
    { 3, 6, 320, false, false, 1, 1 },
};
static const BlockRow large[] = {
    { 3, 16, 16, false, false, 1, 1 }, { 3, 64, 24, false, false, 2, 1 },
    { 3, 72, 24, false, false, 1, 1 }, { 5, 72, 40, true, false, 2, 1 },
    { 5, 120, 40, true, false, 1, 2 }, { 3, 240, 80, false, true, 2, 1 },
    { 3, 200, 80, false, true, 1, 1 }, { 3, 184, 80, false, true, 1, 2 },
    { 3, 480, 112, true, true, 1, 1 }, { 3, 672, 112, true, true, 1, 1 },
    { 5, 672, 160, true, true, 2, 1 }, { 5, 960, 160, true, true, 1, 2 },
};
static const BlockRow small[] = {
    { 3, 16, 16, true, false, 2, 1 },  { 3, 72, 24, false, false, 2, 1 },
    { 3, 88, 24, false, false, 1, 1 }, { 5, 96, 40, true, true, 2, 1 },
    { 5, 240, 40, true, true, 1, 2 },  { 5, 120, 48, true, true, 1, 1 },
    { 5, 144, 48, true, true, 1, 1 },  { 5, 288, 96, true, true, 2, 1 },
    { 5, 576, 96, true, true, 1, 2 },
};

typedef struct Builder {
    Graph *g;
    const MobileNetRow *row;
    const ModelOptions *options;
    bool timm;         /* its names, and what weights start from */
    int index;         /* of "features" */
    int stage, within; /* of "blocks" */
    int64_t channels;  /* of the last row */
} Builder;

static ConvBnOptions layer_options(const Builder *b, int64_t filters, int kernel_size, int stride,
                                   bool hard)
{
    const bool version3 = b->row->version3;
    return (ConvBnOptions){ .filters = filters,
                            .kernel_size = kernel_size,
                            .stride = stride,
                            .act = !version3 ? ACT_RELU6
                                   : hard    ? ACT_HARD_SWISH
                                             : ACT_RELU,
                            .residual = TENSOR_NONE,
                            .fan_per_group = b->timm,
                            .eps = b->row->eps,
                            .momentum = b->row->momentum };
}

/* The first and the last layer of "features". */
static TensorId add_end(Builder *b, TensorId x, int64_t filters, int kernel_size, int stride)
{
    const ConvBnOptions o = layer_options(b, filters, kernel_size, stride, true);
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "features.%d.0", b->index);
    snprintf(bn, sizeof bn, "features.%d.1", b->index);
    if (b->timm && b->index > 0 && b->row->version3) {
        snprintf(conv, sizeof conv, "blocks.%d.0.conv", b->stage + 1);
        snprintf(bn, sizeof bn, "blocks.%d.0.bn1", b->stage + 1);
    } else if (b->timm) {
        snprintf(conv, sizeof conv, "conv_%s", b->index == 0 ? "stem" : "head");
        snprintf(bn, sizeof bn, "bn%d", b->index == 0 ? 1 : 2);
    }
    b->index++;
    return block_conv_bn(b->g, conv, bn, x, &o);
}

/* A stage of timm's ends where the number of channels changes. */
static void name_block(Builder *b, int64_t channels, char out[BLOCK_NAME_MAX])
{
    const bool same = channels == b->channels;
    b->within = same ? b->within + 1 : 0;
    b->stage += !same;
    b->channels = channels;
    if (b->timm) snprintf(out, BLOCK_NAME_MAX, "blocks.%d.%d", b->stage, b->within);
    else
        snprintf(out, BLOCK_NAME_MAX, "features.%d.%s", b->index,
                 b->row->version3 ? "block" : "conv");
    b->index++;
}

static TensorId add_block(Builder *b, TensorId x, const BlockRow *r, int stride)
{
    const ModelOptions *o = b->options;
    char name[BLOCK_NAME_MAX];
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(b->g, x)->desc.dims[1],
                  inner = b->row->version3 ? block_scale_channels(r->inner, o->width)
                                           : channels * r->inner;
    const InvertedOptions block = {
        .name = name,
        .names = b->timm ? inverted_timm_names[inner != channels] : NULL,
        .bare_project = !b->row->version3,
        .inner = inner,
        .channels = block_scale_channels(r->channels, o->width),
        .squeezed = r->excites ? inverted_round_channels((double)(inner / SQUEEZE)) : 0,
        .squeezed_act = ACT_RELU,
        .hard_gate = true,
        .layer = layer_options(b, 0, r->kernel_size, stride, r->hard),
        .zero_init_last_gamma = o->zero_init_last_gamma,
    };
    name_block(b, r->channels, name);
    return inverted_block(b->g, x, &block);
}

static TensorId add_classifier(const Builder *b, TensorId x)
{
    const MobileNetRow *row = b->row;
    const ModelOptions *o = b->options;
    const float dropout = (float)(o->dropout >= 0 ? o->dropout : DROPOUT);
    const char *last = row->version3 ? "classifier.3" : "classifier.1";
    const int64_t hidden = block_scale_channels(row->hidden, o->width);
    x = graph_global_avgpool(b->g, "avgpool", x);
    if (row->version3 && b->timm) {
        x = graph_activation(b->g, "act2", graph_linear_1x1(b->g, "conv_head", x, hidden),
                             ACT_HARD_SWISH);
    } else if (row->version3) {
        x = graph_linear(b->g, "classifier.0", x, hidden);
        block_small_linear(b->g, "classifier.0");
        x = graph_activation(b->g, "classifier.1", x, ACT_HARD_SWISH);
    }
    if (o->graph.training && dropout > 0)
        x = graph_drop(b->g, "dropout", x, dropout, false, TENSOR_NONE);
    if (b->timm) return graph_linear_fan_out(b->g, "classifier", x, o->graph.classes);
    x = graph_linear(b->g, last, x, o->graph.classes);
    block_small_linear(b->g, last);
    return x;
}

static Status build_mobilenet(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const MobileNetRow *row = def->params;
    Builder b = {
        .g = g, .row = row, .options = o, .timm = def->names == MODEL_NAMES_TIMM, .stage = -1
    };
    if (o->stochastic_depth > 0)
        return fail(ERR_USAGE, "model.stochastic_depth is not supported by MobileNets");
    TensorId x = graph_images(g, &o->graph);
    x = add_end(&b, x, block_scale_channels(row->stem, o->width), 3, o->stem == STEM_CIFAR ? 1 : 2);
    for (int i = 0; i < row->count; i++)
        for (int k = 0; k < row->blocks[i].times; k++)
            x = add_block(&b, x, &row->blocks[i], k == 0 ? row->blocks[i].stride : 1);
    x = add_end(&b, x, block_scale_channels(row->last, o->width), 1, 1);
    graph_softmax_xent(g, add_classifier(&b, x));
    return graph_status(g);
}

#define BLOCKS(rows) rows, sizeof rows / sizeof rows[0]
/* published weights; then whether it is V3, channels of stem, last convolution and hidden layer,
 * blocks, eps and momentum of the norms */
#define ROW(name_of, summary_of, weights_of, ...)                                                  \
    .name = name_of, .summary = summary_of, .build = build_mobilenet, .drops = true,               \
    .stems = true, .params = &(const MobileNetRow){ __VA_ARGS__ }, .input = { 3, 224 },            \
    .weights = WEIGHTS weights_of
#define V2 "MobileNetV2, Sandler et al. 2018 "
#define V3 "MobileNetV3, Howard et al. 2019 "
#define ROW_V3(size, weights_of, timms_of, ...)                                                    \
    { ROW("mobilenet_v3_" size, V3 "(torchvision)", weights_of, true, __VA_ARGS__, 1e-3F, 0.01F),  \
      .twin = "mobilenetv3_" size "_100" },                                                        \
    {                                                                                              \
        ROW("mobilenetv3_" size "_100", V3 "(timm)", timms_of, true, __VA_ARGS__, 0, 0),           \
            .names = MODEL_NAMES_TIMM, .twin = "mobilenet_v3_" size,                               \
            .timm = "mobilenetv3_" size "_100"                                                     \
    }
static const ModelDef rows[] = {
    { ROW("mobilenet_v2", V2 "(torchvision)",
          (WEIGHTS_V1(71.878, "-b0353104"), WEIGHTS_V2(72.154, "-7ebf99e0"),
           TIMM("ra_in1k", 72.910, 224, 256, MODEL_BICUBIC, false)),
          false, 32, 1280, 0, BLOCKS(version2), 0, 0),
      .both = true, .timm = "mobilenetv2_100" },
    ROW_V3("large", (WEIGHTS_V1(74.042, "-8738ca79"), WEIGHTS_V2(75.274, "-5c1a4163")),
           (TIMM("ra_in1k", 75.784, 224, 256, MODEL_BICUBIC, false),
            TIMM("ra4_e3600_r224_in1k", 77.182, 256, 256, MODEL_BICUBIC, true)),
           16, 960, 1280, BLOCKS(large)),
    ROW_V3("small", (WEIGHTS_V1(67.668, "-047dcff4")),
           (TIMM("lamb_in1k", 67.636, 224, 256, MODEL_BICUBIC, false)), 16, 576, 1024,
           BLOCKS(small)),
};
const ModelFamily mobilenet_family = MODEL_FAMILY(rows);
