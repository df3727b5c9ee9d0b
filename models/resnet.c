/* resnet.c - ResNet-18 to -152 (He et al. 2015), v1.5: the stride of a bottleneck is in its 3x3, as
 * in torchvision, whose names these are.
 *
 * Stem (for 224 px or for 32 px images), four stages of blocks that halve the image and double the
 * width from the second on, mean over the image, one linear layer. A variant is one row: which
 * block, and how many of it in each stage (registry.c). */
#include "models/families.h"
#include <stdio.h>

#define FIRST_PLANES 64

static TensorId add_stem(Graph *g, TensorId x, int64_t filters, Stem stem)
{
    static const struct {
        int kernel_size, stride;
        bool pool;
    } stems[STEM_COUNT] = { [STEM_IMAGENET] = { 7, 2, true }, [STEM_CIFAR] = { 3, 1, false } };
    const ConvBnOptions conv = { .filters = filters,
                                 .kernel_size = stems[stem].kernel_size,
                                 .stride = stems[stem].stride,
                                 .act = ACT_RELU,
                                 .residual = TENSOR_NONE };
    x = block_conv_bn(g, "conv1", "bn1", x, &conv);
    if (!stems[stem].pool) return x;
    const Pool2dAttr pool = { .kind = POOL_MAX,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .stride_h = 2,
                              .stride_w = 2,
                              .pad_h = 1,
                              .pad_w = 1 };
    return graph_pool2d(g, "maxpool", x, &pool);
}

/* The 3x3 of a bottleneck: planes * width_of_64 / 64 channels in each of the groups (ResNeXt; with
 * one group, Wide ResNet). A narrow test network has fewer groups, as wide as published. */
static void set_spatial(const ResNetRow *row, int64_t planes, double width, BlockOptions *block)
{
    if (!row->width_of_64) return;
    const int64_t each = planes * row->width_of_64 / 64,
                  scaled = block_scale_channels(each * row->groups, width);
    block->groups = row->groups == 1 || scaled < each ? 1 : (int)(scaled / each);
    block->spatial = row->groups == 1 ? scaled : block->groups * each;
}

Status resnet_build(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const ResNetRow *row = def->params;
    TensorId x = graph_images(g, &o->graph);
    x = add_stem(g, x, block_scale_channels(FIRST_PLANES, o->width), o->stem);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < row->blocks[stage]; i++) {
            char name[BLOCK_NAME_MAX];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            BlockOptions block = { .name = name,
                                   .planes = block_scale_channels((int64_t)FIRST_PLANES << stage,
                                                                  o->width),
                                   .stride = stage > 0 && i == 0 ? 2 : 1,
                                   .shortcut = SHORTCUT_PROJECTION,
                                   .zero_init_last_gamma = o->zero_init_last_gamma };
            set_spatial(row, (int64_t)FIRST_PLANES << stage, o->width, &block);
            x = row->block(g, x, &block);
        }
    }
    x = graph_global_avgpool(g, "avgpool", x);
    graph_softmax_xent(g, graph_linear(g, "fc", x, o->graph.classes));
    return graph_status(g);
}
