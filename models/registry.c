/* registry.c - all networks by name: one table row a variant. A new network of a known family is a
 * new row, nothing else. */
#include "base/str.h"
#include "models/families.h"
#include <stdio.h>
#include <string.h>

#define RESNET  "ResNet v1.5, torchvision's names and shapes"
#define RESNEXT "ResNeXt, Xie et al. 2017, torchvision's names and shapes"
#define WIDE    "Wide ResNet, Zagoruyko and Komodakis 2016, torchvision's names and shapes"
#define CIFAR   "ResNet for 32 px images, He et al. 2015 section 4.2"
#define MLP     "perceptron with two hidden layers of 512"
#define EFF     "EfficientNet, Tan and Le 2019, torchvision's names and shapes"
#define TF_EFF  "EfficientNet with TensorFlow's padding, timm's names and shapes"

static const ResNetRow resnet18 = { block_basic, { 2, 2, 2, 2 }, 1, 0 };
static const ResNetRow resnet34 = { block_basic, { 3, 4, 6, 3 }, 1, 0 };
static const ResNetRow resnet50 = { block_bottleneck, { 3, 4, 6, 3 }, 1, 0 };
static const ResNetRow resnet101 = { block_bottleneck, { 3, 4, 23, 3 }, 1, 0 };
static const ResNetRow resnet152 = { block_bottleneck, { 3, 8, 36, 3 }, 1, 0 };
static const ResNetRow resnext50_32x4d = { block_bottleneck, { 3, 4, 6, 3 }, 32, 4 };
static const ResNetRow resnext101_32x8d = { block_bottleneck, { 3, 4, 23, 3 }, 32, 8 };
static const ResNetRow resnext101_64x4d = { block_bottleneck, { 3, 4, 23, 3 }, 64, 4 };
static const ResNetRow wide_resnet50_2 = { block_bottleneck, { 3, 4, 6, 3 }, 1, 128 };
static const ResNetRow wide_resnet101_2 = { block_bottleneck, { 3, 4, 23, 3 }, 1, 128 };
static const CifarResNetRow resnet20 = { 3 }, resnet32 = { 5 }, resnet44 = { 7 }, resnet56 = { 9 },
                            resnet110 = { 18 };
static const MlpRow mlp = { 2, { 512, 512 } };

/* width, depth and dropout of the paper; torchvision's B5 to B7 keep TensorFlow's norms */
static const EfficientNetRow efficientnet[] = {
    { EFFICIENTNET_TORCHVISION, 1.0, 1.0, 0.2, 1e-5F, 0.1F },
    { EFFICIENTNET_TORCHVISION, 1.0, 1.1, 0.2, 1e-5F, 0.1F },
    { EFFICIENTNET_TORCHVISION, 1.1, 1.2, 0.3, 1e-5F, 0.1F },
    { EFFICIENTNET_TORCHVISION, 1.2, 1.4, 0.3, 1e-5F, 0.1F },
    { EFFICIENTNET_TORCHVISION, 1.4, 1.8, 0.4, 1e-5F, 0.1F },
    { EFFICIENTNET_TORCHVISION, 1.6, 2.2, 0.4, 1e-3F, 0.01F },
    { EFFICIENTNET_TORCHVISION, 1.8, 2.6, 0.5, 1e-3F, 0.01F },
    { EFFICIENTNET_TORCHVISION, 2.0, 3.1, 0.5, 1e-3F, 0.01F },
};
static const EfficientNetRow tf_efficientnet[] = {
    { EFFICIENTNET_TENSORFLOW, 1.0, 1.0, 0.2, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.0, 1.1, 0.2, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.1, 1.2, 0.3, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.2, 1.4, 0.3, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.4, 1.8, 0.4, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.6, 2.2, 0.4, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 1.8, 2.6, 0.5, 1e-3F, 0.1F },
    { EFFICIENTNET_TENSORFLOW, 2.0, 3.1, 0.5, 1e-3F, 0.1F },
};

#define BILINEAR_224                                                                               \
    {                                                                                              \
        3, 224, 256, MODEL_BILINEAR                                                                \
    }
#define BICUBIC(size, resize)                                                                      \
    {                                                                                              \
        3, size, resize, MODEL_BICUBIC                                                             \
    }

static const ModelDef models[] = {
    { "resnet18", RESNET, resnet_build, &resnet18, BILINEAR_224, false },
    { "resnet34", RESNET, resnet_build, &resnet34, BILINEAR_224, false },
    { "resnet50", RESNET, resnet_build, &resnet50, BILINEAR_224, false },
    { "resnet101", RESNET, resnet_build, &resnet101, BILINEAR_224, false },
    { "resnet152", RESNET, resnet_build, &resnet152, BILINEAR_224, false },
    { "resnext50_32x4d", RESNEXT, resnet_build, &resnext50_32x4d, BILINEAR_224, false },
    { "resnext101_32x8d", RESNEXT, resnet_build, &resnext101_32x8d, BILINEAR_224, false },
    { "resnext101_64x4d",
      RESNEXT,
      resnet_build,
      &resnext101_64x4d,
      { 3, 224, 232, MODEL_BILINEAR },
      false },
    { "wide_resnet50_2", WIDE, resnet_build, &wide_resnet50_2, BILINEAR_224, false },
    { "wide_resnet101_2", WIDE, resnet_build, &wide_resnet101_2, BILINEAR_224, false },
    { "resnet20", CIFAR, resnet_cifar_build, &resnet20, { 3, 32, 32, MODEL_BILINEAR }, false },
    { "resnet32", CIFAR, resnet_cifar_build, &resnet32, { 3, 32, 32, MODEL_BILINEAR }, false },
    { "resnet44", CIFAR, resnet_cifar_build, &resnet44, { 3, 32, 32, MODEL_BILINEAR }, false },
    { "resnet56", CIFAR, resnet_cifar_build, &resnet56, { 3, 32, 32, MODEL_BILINEAR }, false },
    { "resnet110", CIFAR, resnet_cifar_build, &resnet110, { 3, 32, 32, MODEL_BILINEAR }, false },
    { "efficientnet_b0", EFF, efficientnet_build, &efficientnet[0], BICUBIC(224, 256), true },
    { "efficientnet_b1", EFF, efficientnet_build, &efficientnet[1], BICUBIC(240, 256), true },
    { "efficientnet_b2", EFF, efficientnet_build, &efficientnet[2], BICUBIC(288, 288), true },
    { "efficientnet_b3", EFF, efficientnet_build, &efficientnet[3], BICUBIC(300, 320), true },
    { "efficientnet_b4", EFF, efficientnet_build, &efficientnet[4], BICUBIC(380, 384), true },
    { "efficientnet_b5", EFF, efficientnet_build, &efficientnet[5], BICUBIC(456, 456), true },
    { "efficientnet_b6", EFF, efficientnet_build, &efficientnet[6], BICUBIC(528, 528), true },
    { "efficientnet_b7", EFF, efficientnet_build, &efficientnet[7], BICUBIC(600, 600), true },
    { "tf_efficientnet_b0", TF_EFF, efficientnet_build, &tf_efficientnet[0], BICUBIC(224, 256),
      true },
    { "tf_efficientnet_b1", TF_EFF, efficientnet_build, &tf_efficientnet[1], BICUBIC(240, 272),
      true },
    { "tf_efficientnet_b2", TF_EFF, efficientnet_build, &tf_efficientnet[2], BICUBIC(260, 292),
      true },
    { "tf_efficientnet_b3", TF_EFF, efficientnet_build, &tf_efficientnet[3], BICUBIC(300, 331),
      true },
    { "tf_efficientnet_b4", TF_EFF, efficientnet_build, &tf_efficientnet[4], BICUBIC(380, 412),
      true },
    { "tf_efficientnet_b5", TF_EFF, efficientnet_build, &tf_efficientnet[5], BICUBIC(456, 488),
      true },
    { "tf_efficientnet_b6", TF_EFF, efficientnet_build, &tf_efficientnet[6], BICUBIC(528, 560),
      true },
    { "tf_efficientnet_b7", TF_EFF, efficientnet_build, &tf_efficientnet[7], BICUBIC(600, 632),
      true },
    { "mlp", MLP, mlp_build, &mlp, { 1, 28, 28, MODEL_BILINEAR }, false },
};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

int model_count(void)
{
    return MODEL_COUNT;
}

const ModelDef *model_at(int index)
{
    ASSERT(index >= 0 && index < MODEL_COUNT);
    return &models[index];
}

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < MODEL_COUNT; i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

void model_suggest(const char *name, char *out, size_t bytes)
{
    const char *names[MODEL_COUNT], *nearest[MODEL_SUGGESTIONS];
    int left = MODEL_COUNT, found = 0;
    for (int i = 0; i < MODEL_COUNT; i++) names[i] = models[i].name;
    while (found < MODEL_SUGGESTIONS && (nearest[found] = str_nearest(name, names, left))) {
        int at = 0;
        while (names[at] != nearest[found]) at++;
        for (left--; at < left; at++) names[at] = names[at + 1];
        found++;
    }
    snprintf(out, bytes, "%s",
             found ? " (did you mean " : " (convoy inspect model --help lists all)");
    for (int i = 0; i < found; i++) {
        const char *after = i + 1 == found ? "?)" : i + 2 == found ? " or " : ", ";
        const size_t length = strlen(out);
        snprintf(out + length, bytes - length, "%s%s", nearest[i], after);
    }
}

const ModelDef *model_named(const ModelDef *def, ModelNames names)
{
    static const EfficientNetFlavour flavour[MODEL_NAMES_COUNT] = { [MODEL_NAMES_TORCHVISION] =
                                                                        EFFICIENTNET_TORCHVISION,
                                                                    [MODEL_NAMES_TIMM] =
                                                                        EFFICIENTNET_TENSORFLOW };
    const EfficientNetRow *row = def->params;
    if (def->build != efficientnet_build || row->flavour == flavour[names]) return def;
    const EfficientNetRow *from =
        row->flavour == EFFICIENTNET_TORCHVISION ? efficientnet : tf_efficientnet;
    const EfficientNetRow *to =
        row->flavour == EFFICIENTNET_TORCHVISION ? tf_efficientnet : efficientnet;
    for (int i = 0; i < MODEL_COUNT; i++)
        if (models[i].params == to + (row - from)) return &models[i];
    return def;
}

const char *model_interpolation_name(ModelInterpolation interpolation)
{
    static const char *const names[MODEL_INTERPOLATION_COUNT] = {
        [MODEL_BILINEAR] = "bilinear", [MODEL_BICUBIC] = "bicubic"
    };
    return names[interpolation];
}

static Status check_options(const ModelDef *def, const ModelOptions *o)
{
    if (!def->drops && (o->stochastic_depth > 0 || o->dropout > 0))
        return fail(ERR_USAGE, "this network has neither stochastic depth nor dropout");
    if (o->stochastic_depth >= 1 || o->dropout >= 1)
        return fail(ERR_USAGE, "stochastic depth and dropout must stay below 1");
    const GraphOptions *g = &o->graph;
    if (g->batch < 1 || g->height < 1 || g->width < 1)
        return fail(ERR_USAGE, "batch and image size must be at least 1");
    if (g->classes < 1) return fail(ERR_USAGE, "a network needs at least one class");
    if (!(o->width > 0)) return fail(ERR_USAGE, "the width multiplier must be positive");
    if ((int)o->stem < 0 || o->stem >= STEM_COUNT)
        return fail(ERR_INTERNAL, "stem %d does not exist", (int)o->stem);
    return OK;
}

Status model_build(Graph **out, const ModelDef *def, const ModelOptions *o)
{
    *out = NULL;
    TRY(check_options(def, o));
    Graph *g = NULL;
    TRY(graph_create(&g));
    graph_set_options(g, &o->graph);
    Status status = def->build(g, def, o);
    if (status == OK && o->graph.training) status = graph_append_backward(g);
    if (status != OK) {
        graph_destroy(g);
        return fail_note(status, "%s", def->name);
    }
    *out = g;
    return OK;
}
