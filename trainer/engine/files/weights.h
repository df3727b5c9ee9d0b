/* weights.h - parameters and statistics in files of the Python world: safetensors and PyTorch's own
 * format, saved by torchvision, timm or transformers.
 *
 * A network's tensors have the names of torchvision or timm; a file may have either's. Those of
 * transformers are the network's but for the packed projection of queries, keys and values, of
 * which a file has three tensors, and for the decoder's copies of what it shares with the words'
 * table. Which names a file uses is told by its tensors. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_WEIGHTS_H
#define CONVOY_TRAINER_ENGINE_FILES_WEIGHTS_H
#include "base/arena.h"
#include "base/str.h"
#include "models/models.h"
#include "models/positions.h"
#include "trainer/engine/config/choices.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/files/safetensors.h"

/* What a file's tensor is of the graph's: */
typedef enum WeightKind {
    WEIGHT_WHOLE,
    WEIGHT_PART,  /* some of its rows, from element `from` on */
    WEIGHT_COPY,  /* the same again, which a file may lack */
    WEIGHT_FOLDED /* RoBERTa's one row of segments, which is added to positions; may be missing */
} WeightKind;
typedef struct Weight {
    const char *name;  /* in the graph */
    const char *other; /* under the other names */
    TensorDesc desc;   /* of the file's */
    WeightKind kind;
    int64_t from;
    bool head;         /* has one row for each class, or word */
    bool tied;         /* and the words' table is the last layer's */
    bool above;        /* of a head, or beside it: another task may not have it */
    bool spare;        /* not trained, and may be missing: BERT's first task's */
    bool rows;         /* one for each position: of a longer table the first ones are taken */
    bool first;        /* filters of the images themselves */
    PositionGrid grid; /* what positions of patches are of */
} Weight;
typedef struct WeightList {
    Weight *items;
    int count;
    Graph *named; /* owns the other names, or: */
    Arena *arena;
} WeightList;
enum { WEIGHTS_NAME_BYTES = 128 };
/* The parameters and buffers of g, which was built by def, in the order of the graph, with the
 * names of `names`. Borrows g. */
Status weights_list(WeightList *out, const Graph *g, const ModelDef *def, ModelNames names);
void weights_free(WeightList *list); /* NULL inside is fine */
/* The file's tensor, also where its name is that of an old version (LayerNorm.gamma); NULL. */
const SafeTensor *weights_find(const SafeFile *file, const Weight *w);
/* Whether a tensor of a network that reads words belongs to a head. */
bool weights_above_encoder(const char *name);

/* Whether the network that has def's tensors under these names computes something else from them:
 * torchvision's EfficientNet has the tensors of TensorFlow's, but pads in another way and divides
 * by another epsilon. (timm has both.) Such files are refused. */
bool weights_change_meaning(const ModelDef *def, ModelNames names);

/* ERR_DATA naming path and the tensor that holds what is no finite number. states: the optimizer's
 * are looked at too. */
Status weights_check_finite(const SafeFile *file, bool states, const char *path);

/* Before the names of averaged weights, in checkpoints and in files of torch_file.h. */
#define WEIGHTS_EMA_PREFIX "ema."
/* Makes safetensors_find() find those of the choice. best: ema.best of the run. *ema: it is the
 * averaged ones. ERR_DATA naming path where they are asked for and there are none. */
Status weights_choose(SafeFile *file, WeightsChoice which, bool best, const char *path, bool *ema);

/* Opens a file of weights of either format (safetensors.h, torch_file.h). */
Status weights_open(SafeFile **out, const char *path);
/* Leaves in a file the tensors of one network, named as the network names them: takes off what
 * training programs put around names, and chooses where there are trained and averaged weights;
 * without a choice the averaged ones, but of a checkpoint of ours the trained ones. The log says
 * what was chosen and what is left out. g: the network with any number of classes. ERR_DATA naming
 * path where the choice is not there, or two networks are. */
Status weights_narrow(SafeFile *file, const Graph *g, const ModelDef *def, WeightsChoice which,
                      const char *path);
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
    StrBuf fresh; /* layers that the file lacks, as it would name them; owned */
} HeadRows;
/* Copies a file's tensors into x. Numbers of other float types are converted. rows NULL: those of
 * the last layer as they are there, and another number of classes, or none, is an error. Positions
 * of a square of patches are made to fit (models/positions.h), and filters of colour to grey images
 * (the sum over the channels, as timm) or of grey to colour (each an equal share), which the log
 * says. A table of more positions gives its first ones; heads of another task are left out, and one
 * without a row of the last layer may be missing whole. ERR_DATA naming path and the first tensors
 * that are missing, have another shape, are not the network's, or hold what is no finite number;
 * nothing is changed then. */
Status weights_restore(Executor *x, const Graph *g, const ModelDef *def, const SafeFile *file,
                       const char *path, HeadRows *rows);
#endif
