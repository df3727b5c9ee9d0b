/* regnet.c - RegNetX and RegNetY from 400 MFLOPs to 32 GFLOPs (Radosavovic et al. 2020), with
 * torchvision's names: bottlenecks as wide inside as outside, whose 3x3 is grouped; Y has
 * squeeze-and-excitation behind that.
 *
 * A variant is one row: its published weights, and blocks and widths of the four stages, which the
 * paper's linear rule gives, and the width of a group. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define STEM_CHANNELS 32
#define SQUEEZE       4 /* of a block's input */

typedef struct RegNetRow {
    bool excites;
    int blocks[4];
    int64_t widths[4];
    int64_t group[4]; /* channels of a group */
} RegNetRow;

/* Convolution and batch norm name.part.0 and name.part.1. */
static TensorId add_layer(Graph *g, const char *name, const char *part, TensorId x,
                          const ConvBnOptions *o)
{
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    snprintf(conv, sizeof conv, "%s.%s.0", name, part);
    snprintf(bn, sizeof bn, "%s.%s.1", name, part);
    return block_conv_bn(g, conv, bn, x, o);
}

static TensorId add_excitation(Graph *g, const char *name, TensorId x, int64_t squeezed)
{
    char squeeze[BLOCK_NAME_MAX + 16], excite[BLOCK_NAME_MAX + 16];
    const ExciteOptions o = { .name = name,
                              .squeeze = squeeze,
                              .excite = excite,
                              .squeezed = squeezed,
                              .act = ACT_RELU,
                              .uniform_biases = true };
    snprintf(squeeze, sizeof squeeze, "%s.f.se.fc1", name);
    snprintf(excite, sizeof excite, "%s.f.se.fc2", name);
    return block_excite(g, x, &o);
}

/* o: of the 3x3 */
static TensorId add_block(Graph *g, const char *name, TensorId x, const ConvBnOptions *o,
                          bool excites, bool zero_gamma)
{
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(g, x)->desc.dims[1];
    ConvBnOptions one = *o, shortcut = *o;
    one.kernel_size = shortcut.kernel_size = one.stride = one.groups = shortcut.groups = 1;
    shortcut.act = ACT_NONE;
    TensorId y = add_layer(g, name, "f.a", x, &one);
    y = add_layer(g, name, "f.b", y, o);
    if (excites) y = add_excitation(g, name, y, channels / SQUEEZE);
    const bool projects = o->stride > 1 || channels != o->filters;
    one.residual = projects ? add_layer(g, name, "proj", x, &shortcut) : x;
    one.zero_gamma = zero_gamma;
    return add_layer(g, name, "f.c", y, &one);
}

/* Whole groups, as wide as published, of which a narrow test network has fewer, or one. */
static ConvBnOptions spatial(int64_t width, int64_t group, double narrow, int stride)
{
    const int64_t groups = (int64_t)((double)width * narrow / (double)group + 0.5);
    return (ConvBnOptions){ .filters =
                                groups > 1 ? groups * group : block_scale_channels(width, narrow),
                            .kernel_size = 3,
                            .stride = stride,
                            .act = ACT_RELU,
                            .residual = TENSOR_NONE,
                            .groups = groups > 1 ? (int)groups : 1 };
}

static Status build_regnet(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const RegNetRow *row = def->params;
    const ConvBnOptions stem = { .filters = block_scale_channels(STEM_CHANNELS, o->width),
                                 .kernel_size = 3,
                                 .stride = o->stem == STEM_CIFAR ? 1 : 2,
                                 .act = ACT_RELU,
                                 .residual = TENSOR_NONE };
    if (o->stochastic_depth > 0)
        return fail(ERR_USAGE, "model.stochastic_depth is not supported by RegNets");
    TensorId x = block_conv_bn(g, "stem.0", "stem.1", graph_images(g, &o->graph), &stem);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < row->blocks[k]; i++) {
            const ConvBnOptions middle =
                spatial(row->widths[k], row->group[k], o->width, i == 0 ? 2 : 1);
            char name[BLOCK_NAME_MAX];
            snprintf(name, sizeof name, "trunk_output.block%d.block%d-%d", k + 1, k + 1, i);
            x = add_block(g, name, x, &middle, row->excites, o->zero_init_last_gamma);
        }
    block_classifier(g, x, o);
    block_small_linear(g, "fc");
    return graph_status(g);
}

#define X "RegNetX, Radosavovic et al. 2020 (torchvision)"
#define Y "RegNetY, Radosavovic et al. 2020 (torchvision)"
/* Weights of Singh et al. 2022: all of the network tuned, or its last layer alone. */
#define SWAG(whole, last)                                                                          \
    WEIGHTS("IMAGENET1K_SWAG_E2E_V1", whole, 384, 384, MODEL_BICUBIC, false),                      \
        WEIGHTS("IMAGENET1K_SWAG_LINEAR_V1", last, 224, 224, MODEL_BICUBIC, false)

#define ROW(name_of, xy, excites, weights_of, ...)                                                 \
    {                                                                                              \
        .name = name_of, .summary = xy, .build = build_regnet, .drops = true, .stems = true,       \
        .params = &(const RegNetRow){ excites, __VA_ARGS__ }, .input = { 3, 224 },                 \
        .weights = WEIGHTS weights_of, .apart = true                                               \
    }
#define ROW_X(size, v1, v2, ...)                                                                   \
    ROW("regnet_x_" size, X, false, (WEIGHTS_V1(v1), WEIGHTS_V2(v2)), __VA_ARGS__)
#define ROW_Y(size, v1, v2, ...)                                                                   \
    ROW("regnet_y_" size, Y, true, (WEIGHTS_V1(v1), WEIGHTS_V2(v2)), __VA_ARGS__)
#define ROW_Y_SWAG(size, v1, v2, whole, last, ...)                                                 \
    ROW("regnet_y_" size, Y, true, (WEIGHTS_V1(v1), WEIGHTS_V2(v2), SWAG(whole, last)), __VA_ARGS__)
#define ALL(group)                                                                                 \
    {                                                                                              \
        group, group, group, group                                                                 \
    }
static const ModelDef rows[] = {
    ROW_X("400mf", 72.834, 74.864, { 1, 2, 7, 12 }, { 32, 64, 160, 400 }, ALL(16)),
    ROW_X("800mf", 75.212, 77.522, { 1, 3, 7, 5 }, { 64, 128, 288, 672 }, ALL(16)),
    ROW_X("1_6gf", 77.040, 79.668, { 2, 4, 10, 2 }, { 72, 168, 408, 912 }, ALL(24)),
    ROW_X("3_2gf", 78.364, 81.196, { 2, 6, 15, 2 }, { 96, 192, 432, 1008 }, ALL(48)),
    ROW_X("8gf", 79.344, 81.682, { 2, 5, 15, 1 }, { 80, 240, 720, 1920 }, { 80, 120, 120, 120 }),
    ROW_X("16gf", 80.058, 82.716, { 2, 6, 13, 1 }, { 256, 512, 896, 2048 }, ALL(128)),
    ROW_X("32gf", 80.622, 83.014, { 2, 7, 13, 1 }, { 336, 672, 1344, 2520 }, ALL(168)),
    ROW_Y("400mf", 74.046, 75.804, { 1, 3, 6, 6 }, { 48, 104, 208, 440 }, ALL(8)),
    ROW_Y("800mf", 76.420, 78.828, { 1, 3, 8, 2 }, { 64, 144, 320, 784 }, ALL(16)),
    ROW_Y("1_6gf", 77.950, 80.876, { 2, 6, 17, 2 }, { 48, 120, 336, 888 }, ALL(24)),
    ROW_Y("3_2gf", 78.948, 81.982, { 2, 5, 13, 1 }, { 72, 216, 576, 1512 }, ALL(24)),
    ROW_Y("8gf", 80.032, 82.828, { 2, 4, 10, 1 }, { 224, 448, 896, 2016 }, ALL(56)),
    ROW_Y_SWAG("16gf", 80.424, 82.886, 86.012, 83.976, { 2, 4, 11, 1 }, { 224, 448, 1232, 3024 },
               ALL(112)),
    ROW_Y_SWAG("32gf", 80.878, 83.368, 86.838, 84.622, { 2, 5, 12, 1 }, { 232, 696, 1392, 3712 },
               ALL(232)),
};
const ModelFamily regnet_family = MODEL_FAMILY(rows);
