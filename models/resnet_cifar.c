/* resnet_cifar.c - the CIFAR ResNets of He et al. 2015, section 4.2: 3x3 stem, three stages of 16,
 * 32 and 64 filters, basic blocks.
 *
 * Shortcuts are option A: where the shape changes, every second pixel and zeros for the new
 * channels, so they have no parameters. A variant is one number: blocks in a stage (depth = 6 n +
 * 2). */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define FIRST_PLANES 16

typedef struct CifarResNetRow {
    int blocks; /* of a stage */
} CifarResNetRow;

static Status build_resnet_cifar(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const CifarResNetRow *row = def->params;
    const ConvBnOptions stem = { .filters = block_scale_channels(FIRST_PLANES, o->width),
                                 .kernel_size = 3,
                                 .stride = 1,
                                 .act = ACT_RELU,
                                 .residual = TENSOR_NONE };
    TensorId x = graph_images(g, &o->graph);
    x = block_conv_bn(g, "conv1", "bn1", x, &stem);
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < row->blocks; i++) {
            char name[BLOCK_NAME_MAX];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            const BlockOptions block = {
                .name = name,
                .planes = block_scale_channels((int64_t)FIRST_PLANES << stage, o->width),
                .stride = stage > 0 && i == 0 ? 2 : 1,
                .shortcut = SHORTCUT_SUBSAMPLE,
                .zero_init_last_gamma = o->zero_init_last_gamma,
                .blurpool = o->blurpool,
                .drop_rate = block_drop_rate(o, stage * row->blocks + i, 3 * row->blocks)
            };
            x = block_basic(g, x, &block);
        }
    }
    block_classifier(g, "fc", x, o);
    return graph_status(g);
}

#define ROW(name_of, blocks_of)                                                                    \
    {                                                                                              \
        .name = name_of, .summary = "ResNet for 32x32 images, He et al. 2015",                     \
        .build = build_resnet_cifar, .drops = true, .stems = true, .blurs = true,                  \
        .params = &(const CifarResNetRow){ blocks_of }, .input = {                                 \
            3,                                                                                     \
            32                                                                                     \
        }                                                                                          \
    }
static const ModelDef rows[] = {
    ROW("resnet20", 3), ROW("resnet32", 5),   ROW("resnet44", 7),
    ROW("resnet56", 9), ROW("resnet110", 18),
};
const ModelFamily resnet_cifar_family = MODEL_FAMILY(rows);
