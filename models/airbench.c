/* airbench.c - Keller Jordan's network for CIFAR-10 in seconds (2023; arXiv 2404.00498, section 3),
 * as in his airbench94.
 *
 * A 2x2 convolution whitens patches: its weights are made of the training images and fixed, its
 * bias trains. Three groups follow of convolution, 2x2 max pooling, norm, GELU, convolution, norm,
 * GELU. Norms have no factor of their own (a weight that stays 1), and short memories. Logits are a
 * ninth of what the last layer would make of its features, which has no bias, so it gets a ninth of
 * those. A convolution's bias is the shift of a norm here that does nothing else: its statistics
 * stay 0 and 1. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define WHITEN_KERNEL 2
#define NORM_EPS      1e-12F
#define NORM_MOMENTUM 0.4F /* of what is new */
#define LEAST_SIZE    25   /* a pixel less after whitening, three halvings, and 3 must be left */

static const int64_t group_widths[] = { 64, 256, 256 };

static TensorId max_pool(Graph *g, const char *name, TensorId x, int side)
{
    const Pool2dAttr attr = { POOL_MAX, side, side, side, side, 0, 0 };
    return graph_pool2d(g, name, x, &attr);
}

static TensorId norm(Graph *g, const char *name, TensorId x, bool frozen)
{
    char weight[BLOCK_NAME_MAX + sizeof ".weight"];
    const BnOptions bn = {
        .eps = NORM_EPS, .momentum = NORM_MOMENTUM, .residual = TENSOR_NONE, .frozen = frozen
    };
    x = graph_batchnorm(g, name, x, &bn);
    snprintf(weight, sizeof weight, "%s.weight", name);
    graph_set_init(g, weight, INIT_ONE, 0, true);
    return x;
}

/* A convolution of torch's first values, of which those of as many filters as there are channels
 * hand the channels on. */
static TensorId convolution(Graph *g, const char *name, TensorId x, int64_t filters)
{
    char weight[BLOCK_NAME_MAX + sizeof ".weight"];
    const int64_t channels = x == TENSOR_NONE ? 0 : graph_tensor(g, x)->desc.dims[1];
    snprintf(weight, sizeof weight, "%s.weight", name);
    x = graph_conv2d(g, name, x, filters, 3, 1, 1, 1);
    graph_set_init(g, weight, INIT_IDENTITY, channels * 3 * 3, false);
    return x;
}

static TensorId group(Graph *g, int index, TensorId x, int64_t width)
{
    for (int i = 1; i <= 2; i++) {
        char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX], act[BLOCK_NAME_MAX], pool[BLOCK_NAME_MAX];
        snprintf(conv, sizeof conv, "layer%d.conv%d", index, i);
        snprintf(pool, sizeof pool, "layer%d.pool", index);
        snprintf(bn, sizeof bn, "layer%d.norm%d", index, i);
        snprintf(act, sizeof act, "layer%d.gelu%d", index, i);
        x = convolution(g, conv, x, width);
        if (i == 1) x = max_pool(g, pool, x, 2);
        x = graph_activation(g, act, norm(g, bn, x, false), ACT_GELU);
    }
    return x;
}

static Status build_airbench(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const int64_t patch = o->graph.channels * WHITEN_KERNEL * WHITEN_KERNEL;
    TensorId x = graph_images(g, &o->graph);
    (void)def;
    x = graph_conv2d(g, "whiten", x, 2 * patch, WHITEN_KERNEL, 1, 0, 1);
    graph_set_init(g, "whiten.weight", INIT_WHITEN, patch, true);
    x = graph_activation(g, "gelu", norm(g, "whiten_bias", x, true), ACT_GELU);
    for (int i = 0; i < 3; i++)
        x = group(g, i + 1, x, block_scale_channels(group_widths[i], o->width));
    x = graph_scale(g, "ninth", max_pool(g, "maxpool", x, 3), 1.0F / 9);
    graph_softmax_xent(g, graph_linear_no_bias(g, "fc", x, o->graph.classes));
    return graph_status(g);
}

static const ModelDef rows[] = {
    { .name = "airbench94",
      .summary = "for CIFAR-10 in seconds, Keller Jordan 2023",
      .build = build_airbench,
      .input = { 3, 32 },
      .one_size = true,
      .least_size = LEAST_SIZE },
};
const ModelFamily airbench_family = MODEL_FAMILY(rows);
