/* families.h - between the network files and registry.c: a family is a file with a builder and the
 * rows of its networks. */
#ifndef CONVOY_MODELS_FAMILIES_H
#define CONVOY_MODELS_FAMILIES_H
#include "models/models.h"

typedef struct ModelFamily {
    const ModelDef *rows;
    int count;
} ModelFamily;
extern const ModelFamily resnet_family, resnet_cifar_family, efficientnet_family, mlp_family,
    airbench_family, convnext_family, mobilenet_family, regnet_family, vit_family, roberta_family;

/* A ModelWeights, or in parentheses the list of a network's; those that torchvision has of most
 * networks, after its first recipe and after that of 2021. */
#define WEIGHTS(...)                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define WEIGHTS_V1(top1, file) WEIGHTS("IMAGENET1K_V1", top1, 224, 256, MODEL_BILINEAR, false, file)
#define WEIGHTS_V2(top1, file) WEIGHTS("IMAGENET1K_V2", top1, 224, 232, MODEL_BILINEAR, false, file)
/* timm's: of a network of torchvision those that timm takes by default */
#define TIMM(...) WEIGHTS(__VA_ARGS__, NULL)

/* The definition of such a family out of the array of its rows. */
#define MODEL_FAMILY(rows)                                                                         \
    {                                                                                              \
        rows, sizeof rows / sizeof rows[0]                                                         \
    }
#endif
