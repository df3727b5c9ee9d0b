/* families.h - between the network files and registry.c: each family's builder and the rows it
 * accepts as ModelDef.params. */
#ifndef CONVOY_MODELS_FAMILIES_H
#define CONVOY_MODELS_FAMILIES_H
#include "models/blocks.h"
#include "models/models.h"

typedef struct ResNetRow { /* resnet.c */
    BlockBuilder block;
    int blocks[4];
    int groups;      /* of a bottleneck's 3x3; 0: 1 */
    int width_of_64; /* channels of a group of the 3x3 where the block has 64; 0: 64 */
} ResNetRow;
Status resnet_build(Graph *g, const ModelDef *def, const ModelOptions *o);

typedef struct CifarResNetRow { /* resnet_cifar.c; depth = 6 * blocks + 2 */
    int blocks;
} CifarResNetRow;
Status resnet_cifar_build(Graph *g, const ModelDef *def, const ModelOptions *o);

typedef enum EfficientNetFlavour {
    EFFICIENTNET_TORCHVISION,
    EFFICIENTNET_TENSORFLOW, /* as timm converted Google's weights: "same" padding */
    EFFICIENTNET_FLAVOUR_COUNT
} EfficientNetFlavour;
typedef struct EfficientNetRow { /* efficientnet.c */
    EfficientNetFlavour flavour;
    double width, depth, dropout;
    float eps, momentum; /* of the norms */
} EfficientNetRow;
Status efficientnet_build(Graph *g, const ModelDef *def, const ModelOptions *o);

#define MLP_MAX_HIDDEN 4
typedef struct MlpRow { /* mlp.c */
    int hidden_count;
    int64_t hidden[MLP_MAX_HIDDEN];
} MlpRow;
Status mlp_build(Graph *g, const ModelDef *def, const ModelOptions *o);
#endif
