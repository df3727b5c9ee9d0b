/* blocks.c - conv-bn-act, the basic block and the bottleneck, with torchvision's names for what is
 * in them.
 *
 * The residual sum and the last activation belong to the block's last batch norm (y = act(bn(x) +
 * residual)), so a block ends in one pass over memory. The shortcut is appended just before that
 * batch norm: its output then lives as briefly as it can, and backward meets it first, while the
 * gradient that it needs is still warm. */
#include "models/blocks.h"
#include <math.h>
#include <stdio.h>

#define BN_EPS               1e-5F
#define BN_MOMENTUM          0.1F
#define BOTTLENECK_EXPANSION 4
#define EXCITED_SQUEEZE      16
#define BLUR_CHANNELS_MIN    16 /* of a convolution that FFCV and Composer blur */

/* Padding of one axis. */
static void pad(int64_t size, const ConvBnOptions *o, int *before, int *after)
{
    const int64_t positions = (size + o->stride - 1) / o->stride;
    const int64_t missing = (positions - 1) * o->stride + o->kernel_size - size;
    const int both = o->same_padding ? (missing > 0 ? (int)missing : 0) : o->kernel_size / 2 * 2;
    *before = both / 2;
    *after = both - *before;
}

static TensorId conv_bn(Graph *g, const char *conv_name, const char *bn_name, TensorId x,
                        const ConvBnOptions *o)
{
    const int64_t *size = &graph_tensor(g, x)->desc.dims[2];
    Conv2dAttr attr = { .stride_h = o->stride,
                        .stride_w = o->stride,
                        .groups = o->groups ? o->groups : 1 };
    pad(size[0], o, &attr.pad_top, &attr.pad_bottom);
    pad(size[1], o, &attr.pad_left, &attr.pad_right);
    x = graph_conv2d_attr(g, conv_name, x, o->filters, o->kernel_size, &attr, o->fan_per_group);
    const BnOptions bn = { .eps = o->eps > 0 ? o->eps : BN_EPS,
                           .momentum = o->momentum > 0 ? o->momentum : BN_MOMENTUM,
                           .act = o->act,
                           .residual = o->residual,
                           .zero_gamma = o->zero_gamma };
    return graph_batchnorm(g, bn_name, x, &bn);
}

TensorId block_conv_bn(Graph *g, const char *conv_name, const char *bn_name, TensorId x,
                       const ConvBnOptions *o)
{
    if (x == TENSOR_NONE) return x;
    if (o->stride == 1 || o->blurpool == BLURPOOL_NONE) return conv_bn(g, conv_name, bn_name, x, o);
    char blur[BLOCK_NAME_MAX + 8];
    snprintf(blur, sizeof blur, "%s.blur", conv_name);
    if (o->blurpool == BLURPOOL_TIMM) {
        ConvBnOptions whole = *o;
        whole.stride = 1;
        return graph_blur(g, blur, conv_bn(g, conv_name, bn_name, x, &whole), o->stride, true);
    }
    if (graph_tensor(g, x)->desc.dims[1] >= BLUR_CHANNELS_MIN) x = graph_blur(g, blur, x, 1, false);
    return x == TENSOR_NONE ? x : conv_bn(g, conv_name, bn_name, x, o);
}

/* Convolution and batch norm number index inside a block: name.conv1 and name.bn1. */
static TensorId add_layer(Graph *g, const char *block, int index, TensorId x,
                          const ConvBnOptions *o)
{
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "%s.conv%d", block, index);
    snprintf(bn, sizeof bn, "%s.bn%d", block, index);
    return block_conv_bn(g, conv, bn, x, o);
}

BlurPool block_blur_before(BlurPool blurpool)
{
    return blurpool == BLURPOOL_TIMM ? BLURPOOL_NONE : blurpool;
}

static TensorId add_shortcut(Graph *g, TensorId x, int64_t out_channels, const BlockOptions *o)
{
    if (x == TENSOR_NONE) return x;
    if (o->stride == 1 && graph_tensor(g, x)->desc.dims[1] == out_channels) return x;
    char first[BLOCK_NAME_MAX], second[BLOCK_NAME_MAX];
    if (o->shortcut == SHORTCUT_SUBSAMPLE) {
        snprintf(first, sizeof first, "%s.shortcut", o->name);
        return graph_subsample(g, first, x, o->stride, out_channels);
    }
    const int at = o->shortcut == SHORTCUT_AVERAGE;
    snprintf(first, sizeof first, "%s.downsample.%d", o->name, at);
    snprintf(second, sizeof second, "%s.downsample.%d", o->name, at + 1);
    const ConvBnOptions projection = { .filters = out_channels,
                                       .kernel_size = 1,
                                       .stride = at ? 1 : o->stride,
                                       .residual = TENSOR_NONE,
                                       .blurpool = block_blur_before(o->blurpool) };
    if (at && o->stride > 1) {
        char average[BLOCK_NAME_MAX];
        const Pool2dAttr tiles = {
            POOL_AVG_TILES, o->stride, o->stride, o->stride, o->stride, 0, 0
        };
        snprintf(average, sizeof average, "%s.downsample.0", o->name);
        x = graph_pool2d(g, average, x, &tiles);
    }
    return block_conv_bn(g, first, second, x, &projection);
}

/* y of timm's "se", with a sixteenth of the channels between its layers. */
static TensorId excite(Graph *g, TensorId x, const BlockOptions *o)
{
    char squeeze[BLOCK_NAME_MAX], gates[BLOCK_NAME_MAX];
    if (x == TENSOR_NONE) return x;
    const ExciteOptions e = { .name = o->name,
                              .squeeze = squeeze,
                              .excite = gates,
                              .squeezed = block_scale_channels(graph_tensor(g, x)->desc.dims[1],
                                                               1.0 / EXCITED_SQUEEZE),
                              .act = ACT_RELU,
                              .uniform_biases = true };
    snprintf(squeeze, sizeof squeeze, "%s.se.fc1", o->name);
    snprintf(gates, sizeof gates, "%s.se.fc2", o->name);
    return block_excite(g, x, &e);
}

/* The same where the block is dropped for some images, or excites: y = act(drop(excite(bn(x))) +
 * residual). */
static TensorId add_apart(Graph *g, const char *bn_name, TensorId x, const BnOptions *last,
                          const BlockOptions *o)
{
    char name[BLOCK_NAME_MAX];
    const BnOptions bn = { .eps = last->eps,
                           .momentum = last->momentum,
                           .act = ACT_NONE,
                           .residual = TENSOR_NONE,
                           .zero_gamma = last->zero_gamma };
    x = graph_batchnorm(g, bn_name, x, &bn);
    if (o->excites) x = excite(g, x, o);
    snprintf(name, sizeof name, "%s.%s", o->name, o->drop_rate > 0 ? "drop" : "sum");
    x = o->drop_rate > 0 ? graph_drop(g, name, x, o->drop_rate, true, last->residual)
                         : graph_add(g, name, x, last->residual);
    snprintf(name, sizeof name, "%s.act", o->name);
    return graph_activation(g, name, x, last->act);
}

/* Last layer of a block: its batch norm comes after the shortcut in the graph, so the two halves
 * are written out. */
static TensorId add_last_layer(Graph *g, int index, TensorId x, TensorId block_input,
                               int64_t filters, int kernel_size, const BlockOptions *o)
{
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "%s.conv%d", o->name, index);
    snprintf(bn, sizeof bn, "%s.bn%d", o->name, index);
    x = graph_conv2d(g, conv, x, filters, kernel_size, 1, kernel_size / 2, 1);
    const BnOptions last = { .eps = BN_EPS,
                             .momentum = BN_MOMENTUM,
                             .act = ACT_RELU,
                             .residual = add_shortcut(g, block_input, filters, o),
                             .zero_gamma = o->zero_init_last_gamma };
    if (o->drop_rate > 0 || o->excites) return add_apart(g, bn, x, &last, o);
    return graph_batchnorm(g, bn, x, &last);
}

TensorId block_basic(Graph *g, TensorId x, const BlockOptions *o)
{
    const ConvBnOptions first = { .filters = o->planes,
                                  .kernel_size = 3,
                                  .stride = o->stride,
                                  .act = ACT_RELU,
                                  .residual = TENSOR_NONE,
                                  .blurpool = o->blurpool };
    TensorId y = add_layer(g, o->name, 1, x, &first);
    return add_last_layer(g, 2, y, x, o->planes, 3, o);
}

TensorId block_bottleneck(Graph *g, TensorId x, const BlockOptions *o)
{
    const int64_t width = o->spatial ? o->spatial : o->planes;
    const ConvBnOptions reduce = {
        .filters = width, .kernel_size = 1, .stride = 1, .act = ACT_RELU, .residual = TENSOR_NONE
    };
    const ConvBnOptions spatial = { .filters = width,
                                    .kernel_size = 3,
                                    .stride = o->stride,
                                    .act = ACT_RELU,
                                    .residual = TENSOR_NONE,
                                    .groups = o->groups,
                                    .blurpool = o->blurpool };
    TensorId y = add_layer(g, o->name, 1, x, &reduce);
    y = add_layer(g, o->name, 2, y, &spatial);
    return add_last_layer(g, 3, y, x, o->planes * BOTTLENECK_EXPANSION, 1, o);
}

static void set_uniform_bias(Graph *g, const char *layer, int64_t fan_in)
{
    char bias[BLOCK_NAME_MAX + sizeof ".bias"];
    snprintf(bias, sizeof bias, "%s.bias", layer);
    graph_set_init(g, bias, INIT_UNIFORM_FAN, fan_in, false);
}

TensorId block_excite(Graph *g, TensorId x, const ExciteOptions *o)
{
    char name[BLOCK_NAME_MAX];
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(g, x)->desc.dims[1];
    snprintf(name, sizeof name, "%s.avgpool", o->name);
    TensorId gate = graph_global_avgpool(g, name, x);
    gate = graph_linear_1x1(g, o->squeeze, gate, o->squeezed);
    snprintf(name, sizeof name, "%s.activation", o->name);
    gate = graph_activation(g, name, gate, o->act);
    gate = graph_linear_1x1(g, o->excite, gate, channels);
    if (o->uniform_biases) {
        set_uniform_bias(g, o->squeeze, channels);
        set_uniform_bias(g, o->excite, o->squeezed);
    }
    snprintf(name, sizeof name, "%s.gate", o->name);
    return graph_gate(g, name, x, gate, o->hard);
}

void block_small_linear(Graph *g, const char *name)
{
    char parameter[BLOCK_NAME_MAX];
    snprintf(parameter, sizeof parameter, "%s.weight", name);
    graph_set_init(g, parameter, INIT_NORMAL, 100, false);
    snprintf(parameter, sizeof parameter, "%s.bias", name);
    graph_set_init(g, parameter, INIT_ZERO, 0, false);
}

TensorId block_excited_bottleneck(Graph *g, TensorId x, const BlockOptions *o)
{
    BlockOptions excited = *o;
    excited.excites = true;
    return block_bottleneck(g, x, &excited);
}

float block_drop_rate(const ModelOptions *o, int block, int blocks)
{
    if (!o->graph.training || o->stochastic_depth <= 0 || blocks < 2) return 0;
    return (float)(o->stochastic_depth * block / (blocks - 1));
}

void block_classifier(Graph *g, const char *name, TensorId x, const ModelOptions *o)
{
    x = graph_global_avgpool(g, "avgpool", x);
    if (o->graph.training && o->dropout > 0)
        x = graph_drop(g, "dropout", x, (float)o->dropout, false, TENSOR_NONE);
    graph_softmax_xent(g, graph_linear(g, name, x, o->graph.classes));
}

int64_t block_scale_channels(int64_t channels, double width)
{
    const int64_t scaled = 8 * (int64_t)llround((double)channels * width / 8);
    return scaled < 8 ? 8 : scaled;
}
