/* resnet.c - ResNet-18 to -152 (He et al. 2015), v1.5: the stride of a bottleneck is in its 3x3, as
 * in torchvision, whose names these are.
 *
 * Stem (for 224 px or for 32 px images), four stages of blocks that halve the image and double the
 * width from the second on, mean over the image, one linear layer. A variant is one row at the end
 * of this file: which block, and how many of it in each stage. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define FIRST_PLANES 64

typedef struct ResNetRow {
    bool deep; /* three 3x3 in place of the 7x7, means in shortcuts: ResNet-D, He et al. 2019 */
    BlockBuilder block;
    int blocks[4];
    int groups;      /* of a bottleneck's 3x3; 0: 1 */
    int width_of_64; /* channels of a group of the 3x3 where the block has 64; 0: 64 */
} ResNetRow;

/* Three 3x3, the first of stride 2, the last of twice as many filters; timm's names. */
static TensorId add_deep_stem(Graph *g, TensorId x, int64_t filters)
{
    static const struct {
        const char *conv, *bn;
        int share, stride;
    } layers[] = { { "conv1.0", "conv1.1", 2, 2 },
                   { "conv1.3", "conv1.4", 2, 1 },
                   { "conv1.6", "bn1", 1, 1 } };
    for (int i = 0; i < 3; i++) {
        const ConvBnOptions conv = { .filters =
                                         block_scale_channels(filters, 1.0 / layers[i].share),
                                     .kernel_size = 3,
                                     .stride = layers[i].stride,
                                     .act = ACT_RELU,
                                     .residual = TENSOR_NONE };
        x = block_conv_bn(g, layers[i].conv, layers[i].bn, x, &conv);
    }
    return x;
}

static TensorId add_stem(Graph *g, TensorId x, int64_t filters, bool deep, const ModelOptions *o)
{
    const Stem stem = o->stem;
    const bool blurs = o->blurpool == BLURPOOL_COMPOSER || o->blurpool == BLURPOOL_TIMM;
    static const struct {
        int kernel_size, stride;
        bool pool;
    } stems[STEM_COUNT] = { [STEM_IMAGENET] = { 7, 2, true }, [STEM_CIFAR] = { 3, 1, false } };
    const ConvBnOptions conv = { .filters = filters,
                                 .kernel_size = stems[stem].kernel_size,
                                 .stride = stems[stem].stride,
                                 .act = ACT_RELU,
                                 .residual = TENSOR_NONE,
                                 .blurpool = block_blur_before(o->blurpool) };
    x = deep && stem == STEM_IMAGENET ? add_deep_stem(g, x, filters)
                                      : block_conv_bn(g, "conv1", "bn1", x, &conv);
    if (!stems[stem].pool) return x;
    const Pool2dAttr pool = { .kind = POOL_MAX,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .stride_h = blurs ? 1 : 2,
                              .stride_w = blurs ? 1 : 2,
                              .pad_h = 1,
                              .pad_w = 1 };
    x = graph_pool2d(g, "maxpool", x, &pool);
    return blurs ? graph_blur(g, "maxpool.blur", x, 2, o->blurpool == BLURPOOL_TIMM) : x;
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

static Status build_resnet(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const ResNetRow *row = def->params;
    TensorId x = graph_images(g, &o->graph);
    int blocks = 0, index = 0;
    x = add_stem(g, x, block_scale_channels(FIRST_PLANES, o->width), row->deep, o);
    for (int stage = 0; stage < 4; stage++) blocks += row->blocks[stage];
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < row->blocks[stage]; i++) {
            char name[BLOCK_NAME_MAX];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            BlockOptions block = { .name = name,
                                   .planes = block_scale_channels((int64_t)FIRST_PLANES << stage,
                                                                  o->width),
                                   .stride = stage > 0 && i == 0 ? 2 : 1,
                                   .shortcut = row->deep ? SHORTCUT_AVERAGE : SHORTCUT_PROJECTION,
                                   .zero_init_last_gamma = o->zero_init_last_gamma,
                                   .blurpool = o->blurpool,
                                   .drop_rate = block_drop_rate(o, index++, blocks) };
            set_spatial(row, (int64_t)FIRST_PLANES << stage, o->width, &block);
            x = row->block(g, x, &block);
        }
    }
    block_classifier(g, "fc", x, o);
    return graph_status(g);
}

#define RESNET  "ResNet v1.5 (torchvision)"
#define RESNEXT "ResNeXt, Xie et al. 2017 (torchvision)"
#define RESNETD "ResNet-D, He et al. 2019 (timm)"
#define SE      "SE-ResNet, Hu et al. 2018 (timm)"
#define WIDE    "Wide ResNet, Zagoruyko 2016 (torchvision)"

/* published weights; then block, blocks of each stage, groups, width_of_64 */
#define ROW_OF(deep, name_of, summary_of, weights_of, ...)                                         \
    {                                                                                              \
        .name = name_of, .summary = summary_of, .build = build_resnet, .drops = true,              \
        .stems = true, .blurs = true, .params = &(const ResNetRow){ deep, __VA_ARGS__ },           \
        .input = { 3, 224 }, .weights = WEIGHTS weights_of, .timm = name_of                        \
    }
#define ROW(...)   ROW_OF(false, __VA_ARGS__)
#define ROW_D(...) ROW_OF(true, __VA_ARGS__)
static const ModelDef rows[] = {
    ROW("resnet18", RESNET,
        (WEIGHTS_V1(69.758, "-f37072fd"), TIMM("a1_in1k", 73.164, 288, 288, MODEL_BICUBIC, false)),
        block_basic, { 2, 2, 2, 2 }, 1, 0),
    ROW("resnet34", RESNET,
        (WEIGHTS_V1(73.314, "-b627a593"), TIMM("a1_in1k", 77.930, 288, 288, MODEL_BICUBIC, false)),
        block_basic, { 3, 4, 6, 3 }, 1, 0),
    ROW("resnet50", RESNET,
        (WEIGHTS_V1(76.130, "-0676ba61"), WEIGHTS_V2(80.858, "-11ad3fa6"),
         TIMM("a1_in1k", 81.240, 288, 288, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 4, 6, 3 }, 1, 0),
    ROW("resnet101", RESNET,
        (WEIGHTS_V1(77.374, "-63fe2227"), WEIGHTS_V2(81.886, "-cd907fc2"),
         TIMM("a1h_in1k", 82.796, 288, 288, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 4, 23, 3 }, 1, 0),
    ROW("resnet152", RESNET,
        (WEIGHTS_V1(78.312, "-394f9c45"), WEIGHTS_V2(82.284, "-f82ba261"),
         TIMM("a1h_in1k", 83.494, 288, 288, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 8, 36, 3 }, 1, 0),
    ROW("resnext50_32x4d", RESNEXT,
        (WEIGHTS_V1(77.618, "-7cdf4587"), WEIGHTS_V2(81.198, "-1a0047aa"),
         TIMM("a1h_in1k", 82.016, 288, 288, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 4, 6, 3 }, 32, 4),
    ROW("resnext101_32x8d", RESNEXT,
        (WEIGHTS_V1(79.312, "-8ba56ff5"), WEIGHTS_V2(82.834, "-110c445d"),
         TIMM("tv_in1k", 79.308, 224, 256, MODEL_BILINEAR, false)),
        block_bottleneck, { 3, 4, 23, 3 }, 32, 8),
    ROW("resnext101_64x4d", RESNEXT,
        (WEIGHTS("IMAGENET1K_V1", 83.246, 224, 232, MODEL_BILINEAR, false, "-173b62eb"),
         TIMM("c1_in1k", 83.158, 288, 288, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 4, 23, 3 }, 64, 4),
    ROW("wide_resnet50_2", WIDE,
        (WEIGHTS_V1(78.468, "-95faca4d"), WEIGHTS_V2(81.602, "-9ba9bcbe"),
         TIMM("racm_in1k", 82.260, 288, 303, MODEL_BICUBIC, false)),
        block_bottleneck, { 3, 4, 6, 3 }, 1, 128),
    ROW("wide_resnet101_2", WIDE,
        (WEIGHTS_V1(78.848, "-32ee1156"), WEIGHTS_V2(82.510, "-d733dc28"),
         TIMM("tv_in1k", 78.862, 224, 256, MODEL_BILINEAR, false)),
        block_bottleneck, { 3, 4, 23, 3 }, 1, 128),
    ROW("seresnet50", SE,
        (TIMM("a1_in1k", 81.114, 288, 288, MODEL_BICUBIC, false),
         TIMM("ra2_in1k", 81.288, 288, 303, MODEL_BICUBIC, false)),
        block_excited_bottleneck, { 3, 4, 6, 3 }, 1, 0),
    ROW_D("resnet50d", RESNETD,
          (TIMM("a1_in1k", 81.466, 288, 288, MODEL_BICUBIC, false),
           TIMM("ra2_in1k", 81.354, 288, 303, MODEL_BICUBIC, false),
           TIMM("ra4_e3600_r224_in1k", 81.840, 288, 288, MODEL_BICUBIC, true)),
          block_bottleneck, { 3, 4, 6, 3 }, 1, 0),
};
const ModelFamily resnet_family = MODEL_FAMILY(rows);
