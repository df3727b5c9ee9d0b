/* regnet.c - RegNetX and RegNetY from 400 MFLOPs to 32 GFLOPs (Radosavovic et al. 2020), with the
 * names of torchvision or timm: bottlenecks as wide inside as outside, whose 3x3 is grouped; Y has
 * squeeze-and-excitation behind that.
 *
 * A variant is one row: its published weights, and blocks and widths of the four stages, which the
 * paper's linear rule gives, and the width of a group. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define STEM_CHANNELS 32
#define SQUEEZE       4 /* of a block's input */

/* What libraries call the same. */
typedef struct Naming {
    const char *conv, *bn;                                             /* behind a layer's name */
    const char *narrow, *spatial, *squeeze, *excite, *wide, *shortcut; /* in a block */
    const char *head;
} Naming;
static const Naming namings[] = {
    [MODEL_NAMES_TORCHVISION] = { "0", "1", "f.a", "f.b", "f.se.fc1", "f.se.fc2", "f.c", "proj",
                                  "fc" },
    [MODEL_NAMES_TIMM] = { "conv", "bn", "conv1", "conv2", "se.fc1", "se.fc2", "conv3",
                           "downsample", "head.fc" },
};

typedef struct RegNetRow {
    bool excites;
    int blocks[4];
    int64_t widths[4];
    int64_t group[4]; /* channels of a group */
} RegNetRow;

/* Convolution and batch norm of name.part, or of name where part is "". */
static TensorId add_layer(Graph *g, const Naming *n, const char *name, const char *part, TensorId x,
                          const ConvBnOptions *o)
{
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    const char *dot = part[0] ? "." : "";
    snprintf(conv, sizeof conv, "%s%s%s.%s", name, dot, part, n->conv);
    snprintf(bn, sizeof bn, "%s%s%s.%s", name, dot, part, n->bn);
    return block_conv_bn(g, conv, bn, x, o);
}

static TensorId add_excitation(Graph *g, const Naming *n, const char *name, TensorId x,
                               int64_t squeezed)
{
    char squeeze[BLOCK_NAME_MAX + 16], excite[BLOCK_NAME_MAX + 16];
    const ExciteOptions o = { .name = name,
                              .squeeze = squeeze,
                              .excite = excite,
                              .squeezed = squeezed,
                              .act = ACT_RELU,
                              .uniform_biases = true };
    snprintf(squeeze, sizeof squeeze, "%s.%s", name, n->squeeze);
    snprintf(excite, sizeof excite, "%s.%s", name, n->excite);
    return block_excite(g, x, &o);
}

/* o: of the 3x3 */
static TensorId add_block(Graph *g, const Naming *n, const char *name, TensorId x,
                          const ConvBnOptions *o, bool excites, bool zero_gamma)
{
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(g, x)->desc.dims[1];
    ConvBnOptions one = *o, shortcut = *o;
    one.kernel_size = shortcut.kernel_size = one.stride = one.groups = shortcut.groups = 1;
    shortcut.act = ACT_NONE;
    TensorId y = add_layer(g, n, name, n->narrow, x, &one);
    y = add_layer(g, n, name, n->spatial, y, o);
    if (excites) y = add_excitation(g, n, name, y, channels / SQUEEZE);
    const bool projects = o->stride > 1 || channels != o->filters;
    one.residual = projects ? add_layer(g, n, name, n->shortcut, x, &shortcut) : x;
    one.zero_gamma = zero_gamma;
    return add_layer(g, n, name, n->wide, y, &one);
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
    const Naming *n = &namings[def->names];
    const ConvBnOptions stem = { .filters = block_scale_channels(STEM_CHANNELS, o->width),
                                 .kernel_size = 3,
                                 .stride = o->stem == STEM_CIFAR ? 1 : 2,
                                 .act = ACT_RELU,
                                 .residual = TENSOR_NONE };
    if (o->stochastic_depth > 0)
        return fail(ERR_USAGE, "model.stochastic_depth is not supported by RegNets");
    TensorId x = add_layer(g, n, "stem", "", graph_images(g, &o->graph), &stem);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < row->blocks[k]; i++) {
            const ConvBnOptions middle =
                spatial(row->widths[k], row->group[k], o->width, i == 0 ? 2 : 1);
            char name[BLOCK_NAME_MAX];
            if (def->names == MODEL_NAMES_TIMM)
                snprintf(name, sizeof name, "s%d.b%d", k + 1, i + 1);
            else snprintf(name, sizeof name, "trunk_output.block%d.block%d-%d", k + 1, k + 1, i);
            x = add_block(g, n, name, x, &middle, row->excites, o->zero_init_last_gamma);
        }
    block_classifier(g, n->head, x, o);
    block_small_linear(g, n->head);
    return graph_status(g);
}

#define X "RegNetX, Radosavovic et al. 2020 (torchvision)"
#define Y "RegNetY, Radosavovic et al. 2020 (torchvision)"
/* Weights of Singh et al. 2022: all of the network tuned, or its last layer alone. */
#define SWAG(whole, file, last, file_of_last)                                                      \
    WEIGHTS("IMAGENET1K_SWAG_E2E_V1", whole, 384, 384, MODEL_BICUBIC, false, file),                \
        WEIGHTS("IMAGENET1K_SWAG_LINEAR_V1", last, 224, 224, MODEL_BICUBIC, false, file_of_last)
/* timm's copy of torchvision's second set */
#define TV2(top1) TIMM("tv2_in1k", top1, 224, 232, MODEL_BICUBIC, false)

/* timm's name, published weights */
#define ROW(name_of, xy, excites, timm_of, weights_of, ...)                                        \
    {                                                                                              \
        .name = name_of, .summary = xy, .build = build_regnet, .drops = true, .stems = true,       \
        .params = &(const RegNetRow){ excites, __VA_ARGS__ }, .input = { 3, 224 },                 \
        .weights = WEIGHTS weights_of, .both = true, .timm = timm_of                               \
    }
#define ROW_X(size, ...) ROW("regnet_x_" size, X, false, __VA_ARGS__)
#define ROW_Y(size, ...) ROW("regnet_y_" size, Y, true, __VA_ARGS__)
#define ALL(group)                                                                                 \
    {                                                                                              \
        group, group, group, group                                                                 \
    }
static const ModelDef rows[] = {
    ROW_X("400mf", "regnetx_004_tv",
          (WEIGHTS_V1(72.834, "-adf1edd5"), WEIGHTS_V2(74.864, "-62229a5f"), TV2(74.596)),
          { 1, 2, 7, 12 }, { 32, 64, 160, 400 }, ALL(16)),
    ROW_X("800mf", "regnetx_008",
          (WEIGHTS_V1(75.212, "-ad17e45c"), WEIGHTS_V2(77.522, "-94a99ebd"), TV2(77.294)),
          { 1, 3, 7, 5 }, { 64, 128, 288, 672 }, ALL(16)),
    ROW_X("1_6gf", "regnetx_016",
          (WEIGHTS_V1(77.040, "-e3633e7f"), WEIGHTS_V2(79.668, "-a12f2b72"), TV2(79.440)),
          { 2, 4, 10, 2 }, { 72, 168, 408, 912 }, ALL(24)),
    ROW_X("3_2gf", "regnetx_032",
          (WEIGHTS_V1(78.364, "-f342aeae"), WEIGHTS_V2(81.196, "-7071aa85"), TV2(80.916)),
          { 2, 6, 15, 2 }, { 96, 192, 432, 1008 }, ALL(48)),
    ROW_X("8gf", "regnetx_080",
          (WEIGHTS_V1(79.344, "-03ceed89"), WEIGHTS_V2(81.682, "-2b70d774"), TV2(81.552)),
          { 2, 5, 15, 1 }, { 80, 240, 720, 1920 }, { 80, 120, 120, 120 }),
    ROW_X("16gf", "regnetx_160",
          (WEIGHTS_V1(80.058, "-2007eb11"), WEIGHTS_V2(82.716, "-ba3796d7"), TV2(82.574)),
          { 2, 6, 13, 1 }, { 256, 512, 896, 2048 }, ALL(128)),
    ROW_X("32gf", "regnetx_320",
          (WEIGHTS_V1(80.622, "-9d47f8d0"), WEIGHTS_V2(83.014, "-6eb8fdc6"), TV2(82.824)),
          { 2, 7, 13, 1 }, { 336, 672, 1344, 2520 }, ALL(168)),
    ROW_Y("400mf", "regnety_004",
          (WEIGHTS_V1(74.046, "-c65dace8"), WEIGHTS_V2(75.804, "-e6988f5f"), TV2(75.594)),
          { 1, 3, 6, 6 }, { 48, 104, 208, 440 }, ALL(8)),
    ROW_Y("800mf", "regnety_008_tv",
          (WEIGHTS_V1(76.420, "-1b27b58c"), WEIGHTS_V2(78.828, "-58fc7688"), TV2(78.672)),
          { 1, 3, 8, 2 }, { 64, 144, 320, 784 }, ALL(16)),
    ROW_Y("1_6gf", "regnety_016",
          (WEIGHTS_V1(77.950, "-b11a554e"), WEIGHTS_V2(80.876, "-0d7bc02a"), TV2(80.668)),
          { 2, 6, 17, 2 }, { 48, 120, 336, 888 }, ALL(24)),
    ROW_Y("3_2gf", "regnety_032",
          (WEIGHTS_V1(78.948, "-b5a9779c"), WEIGHTS_V2(81.982, "-9180c971"),
           TIMM("ra_in1k", 82.724, 288, 288, MODEL_BICUBIC, false)),
          { 2, 5, 13, 1 }, { 72, 216, 576, 1512 }, ALL(24)),
    ROW_Y("8gf", "regnety_080_tv",
          (WEIGHTS_V1(80.032, "-d0d0e4a8"), WEIGHTS_V2(82.828, "-dc2b1b54"), TV2(82.580)),
          { 2, 4, 10, 1 }, { 224, 448, 896, 2016 }, ALL(56)),
    ROW_Y("16gf", "regnety_160",
          (WEIGHTS_V1(80.424, "-9e6ed7dd"), WEIGHTS_V2(82.886, "-3e4a00f9"),
           SWAG(86.012, "_swag-43afe44d", 83.976, "_lc_swag-f3ec0043"),
           TIMM("sw_in12k_ft_in1k", 86.028, 288, 288, MODEL_BICUBIC, false)),
          { 2, 4, 11, 1 }, { 224, 448, 1232, 3024 }, ALL(112)),
    ROW_Y("32gf", "regnety_320",
          (WEIGHTS_V1(80.878, "-4dee3f7a"), WEIGHTS_V2(83.368, "-8db6d4b5"),
           SWAG(86.838, "_swag-04fdfa75", 84.622, "_lc_swag-e1583746"), TV2(83.170)),
          { 2, 5, 12, 1 }, { 232, 696, 1392, 3712 }, ALL(232)),
};
const ModelFamily regnet_family = MODEL_FAMILY(rows);
