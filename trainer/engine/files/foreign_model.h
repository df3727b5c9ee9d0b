/* foreign_model.h - weights that others saved, opened like a checkpoint: which network they are of
 * is said beside them. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_FOREIGN_MODEL_H
#define CONVOY_TRAINER_ENGINE_FILES_FOREIGN_MODEL_H
#include "trainer/engine/files/checkpoint_model.h"

typedef struct ForeignModel {
    const char *option; /* that says model, as messages have it */
    /* a network, and behind a colon the published weights whose images are meant: "resnet50",
     * "resnet50:IMAGENET1K_V2"; without that its first ones */
    const char *model;
    const char *classes;     /* file with one class name per line; NULL: none are known */
    const char *const *sets; /* [set_count] key=value, over what the weights say */
    int set_count;
    const Config *like; /* images where neither model nor the file says any; NULL: published ones */
    WeightsChoice which;
} ForeignModel;

/* ERR_DATA naming path if the file is not a Convoy checkpoint. option: the option or key that says
 * which network other weights are for. */
Status foreign_model_need_own(const char *path, const char *option);

/* As checkpoint_model_open(), for a file of weights (weights.h). The number of classes is the
 * file's. ERR_USAGE for an unknown network or weights; ERR_DATA naming file and reason. */
Status foreign_model_open(CheckpointModel *out, const char *path, const ForeignModel *foreign,
                          int64_t batch);
/* The metadata of an exported file that says how its images are prepared: "data.image_size=224" and
 * so on, one per line, from the configuration. */
#define FOREIGN_MODEL_IMAGES "images"
/* Metadata of exported networks with several labels per image: "multi", and the probability above
 * which a class is a label. */
#define FOREIGN_MODEL_LABELS    "labels"
#define FOREIGN_MODEL_THRESHOLD "threshold"
void foreign_model_add_images(const Config *c, StrBuf *out);
/* A warning where weights from path are given other images than file says; without that (or file),
 * other than any published ones of the network want, unless somebody has chosen another size. */
void foreign_model_tell_images(const Config *c, const ModelDef *def, const SafeFile *file,
                               const char *path);
#endif
