/* weights.h - parameters and statistics in files of the Python world: safetensors saved by
 * torchvision or timm.
 *
 * A network's tensors have torchvision's names; those of EfficientNet exist under timm's too. Which
 * of the two a file uses is told by its tensors. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_WEIGHTS_H
#define CONVOY_TRAINER_ENGINE_FILES_WEIGHTS_H
#include "models/models.h"
#include "models/positions.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/files/safetensors.h"

typedef struct Weight {
    const char *name;  /* in the graph */
    const char *other; /* under the other names */
    TensorDesc desc;
    bool head;         /* has one row for each class */
    bool first;        /* filters of the images themselves */
    PositionGrid grid; /* what positions of patches are of */
} Weight;
typedef struct WeightList {
    Weight *items;
    int count;
    Graph *named; /* owns the other names */
} WeightList;
/* The parameters and buffers of g, which was built by def, in the order of the graph, with the
 * names of `names`. Borrows g. */
Status weights_list(WeightList *out, const Graph *g, const ModelDef *def, ModelNames names);
void weights_free(WeightList *list); /* NULL inside is fine */

/* Whether a network that takes tensors under these names computes something else from them:
 * torchvision's EfficientNet has the tensors of TensorFlow's, but pads in another way and divides
 * by another epsilon. (timm has both.) */
bool weights_change_meaning(const ModelDef *def, ModelNames names);

/* ERR_DATA naming path and the tensor that holds what is no finite number. states: the optimizer's
 * are looked at too. */
Status weights_check_finite(const SafeFile *file, bool states, const char *path);

/* Which weights of a checkpoint are meant. */
typedef enum WeightsChoice {
    WEIGHTS_OF_BEST, /* the averaged ones where there are some and they chose the best */
    WEIGHTS_RAW,
    WEIGHTS_EMA
} WeightsChoice;
/* Makes safetensors_find() find those of the choice. best: ema.best of the run. *ema: it is the
 * averaged ones. ERR_DATA naming path where they are asked for and there are none. */
Status weights_choose(SafeFile *file, WeightsChoice which, bool best, const char *path, bool *ema);

/* Whether a file is one of ours: a checkpoint, with all that a run needs. */
bool weights_are_checkpoint(const SafeFile *file);

/* How many classes the last layer in the file has; g: the network with any number. ERR_DATA naming
 * path where there is no such layer. */
Status weights_classes(int64_t *out, const Graph *g, const ModelDef *def, const SafeFile *file,
                       const char *path);
/* Which rows of the last layer are wanted. */
typedef struct HeadRows {
    int *from;  /* [classes here] the row there of each class, -1: it stays as it is */
    bool known; /* else all or, where there is another number of classes, none */
    int taken;  /* set by weights_restore(), which sets those that are not there to -1 */
    int64_t there;
} HeadRows;
/* Copies a file's tensors into x. Numbers of other float types are converted. rows NULL: those of
 * the last layer as they are there, and another number of classes, or none, is an error. Positions
 * of a square of patches are made to fit (models/positions.h), and filters of colour to grey images
 * (the sum over the channels, as timm) or of grey to colour (each an equal share), which the log
 * says. ERR_DATA naming path and the first tensors that are missing, have another shape, are not
 * the network's, or hold what is no finite number; nothing is changed then. */
Status weights_restore(Executor *x, const Graph *g, const ModelDef *def, const SafeFile *file,
                       const char *path, HeadRows *rows);
#endif
