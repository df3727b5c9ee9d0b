/* mobilenet.c - MobileNetV2 (Sandler et al. 2018) and MobileNetV3-Large and -Small (Howard et al.
 * 2019), with torchvision's names: inverted bottlenecks, each a row of its own.
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
    int index; /* of "features" */
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
                            .eps = version3 ? 1e-3F : 0,
                            .momentum = version3 ? 0.01F : 0 };
}

/* The first and the last layer of "features". */
static TensorId add_end(Builder *b, TensorId x, int64_t filters, int kernel_size, int stride)
{
    const ConvBnOptions o = layer_options(b, filters, kernel_size, stride, true);
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "features.%d.0", b->index);
    snprintf(bn, sizeof bn, "features.%d.1", b->index++);
    return block_conv_bn(b->g, conv, bn, x, &o);
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
        .bare_project = !b->row->version3,
        .inner = inner,
        .channels = block_scale_channels(r->channels, o->width),
        .squeezed = r->excites ? inverted_round_channels((double)(inner / SQUEEZE)) : 0,
        .squeezed_act = ACT_RELU,
        .hard_gate = true,
        .layer = layer_options(b, 0, r->kernel_size, stride, r->hard),
        .zero_init_last_gamma = o->zero_init_last_gamma,
    };
    snprintf(name, sizeof name, "features.%d.%s", b->index++, b->row->version3 ? "block" : "conv");
    return inverted_block(b->g, x, &block);
}

static TensorId add_classifier(const Builder *b, TensorId x)
{
    const MobileNetRow *row = b->row;
    const ModelOptions *o = b->options;
    const float dropout = (float)(o->dropout >= 0 ? o->dropout : DROPOUT);
    const char *last = row->version3 ? "classifier.3" : "classifier.1";
    x = graph_global_avgpool(b->g, "avgpool", x);
    if (row->version3) {
        x = graph_linear(b->g, "classifier.0", x, block_scale_channels(row->hidden, o->width));
        block_small_linear(b->g, "classifier.0");
        x = graph_activation(b->g, "classifier.1", x, ACT_HARD_SWISH);
    }
    if (o->graph.training && dropout > 0)
        x = graph_drop(b->g, "dropout", x, dropout, false, TENSOR_NONE);
    x = graph_linear(b->g, last, x, o->graph.classes);
    block_small_linear(b->g, last);
    return x;
}

static Status build_mobilenet(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const MobileNetRow *row = def->params;
    Builder b = { .g = g, .row = row, .options = o };
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
 * blocks */
#define ROW(name_of, summary_of, weights_of, ...)                                                  \
    {                                                                                              \
        .name = name_of, .summary = summary_of " (torchvision)", .build = build_mobilenet,         \
        .drops = true, .stems = true, .params = &(const MobileNetRow){ __VA_ARGS__ },              \
        .input = { 3, 224 }, .weights = WEIGHTS weights_of, .apart = true                          \
    }
static const ModelDef rows[] = {
    ROW("mobilenet_v2", "MobileNetV2, Sandler et al. 2018",
        (WEIGHTS_V1(71.878), WEIGHTS_V2(72.154)), false, 32, 1280, 0, BLOCKS(version2)),
    ROW("mobilenet_v3_large", "MobileNetV3, Howard et al. 2019",
        (WEIGHTS_V1(74.042), WEIGHTS_V2(75.274)), true, 16, 960, 1280, BLOCKS(large)),
    ROW("mobilenet_v3_small", "MobileNetV3, Howard et al. 2019", (WEIGHTS_V1(67.668)), true, 16,
        576, 1024, BLOCKS(small)),
};
const ModelFamily mobilenet_family = MODEL_FAMILY(rows);
