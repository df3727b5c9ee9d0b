/* families.h - between the network files and registry.c: each family's builder and the rows it accepts as
 * ModelDef.params. */
#ifndef CONVOY_MODELS_FAMILIES_H
#define CONVOY_MODELS_FAMILIES_H
#include "models/blocks.h"
#include "models/models.h"

typedef struct ResNetRow { /* resnet.c */
    BlockBuilder block;
    int blocks[4];
} ResNetRow;
Status resnet_build(Graph *g, const ModelDef *def, const ModelOptions *o);

typedef struct CifarResNetRow { /* resnet_cifar.c; depth = 6 * blocks + 2 */
    int blocks;
} CifarResNetRow;
Status resnet_cifar_build(Graph *g, const ModelDef *def, const ModelOptions *o);

#define MLP_MAX_HIDDEN 4
typedef struct MlpRow { /* mlp.c */
    int hidden_count;
    int64_t hidden[MLP_MAX_HIDDEN];
} MlpRow;
Status mlp_build(Graph *g, const ModelDef *def, const ModelOptions *o);
#endif
