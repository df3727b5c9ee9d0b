/* checkpoint_model.h - a checkpoint as what it holds: a network with its configuration, opened
 * without any dataset. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_CHECKPOINT_MODEL_H
#define CONVOY_TRAINER_ENGINE_FILES_CHECKPOINT_MODEL_H
#include "models/models.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/checkpoint.h"
#include "trainer/engine/files/weights.h"

typedef struct CheckpointModel {
    SafeFile *file;
    CheckpointMeta meta; /* strings live as long as file */
    Config *config;      /* as the run had it */
    const ModelDef *def;
    int64_t classes;
    int64_t words;     /* of the table in the file; 0: it reads images */
    Graph *graph;      /* for evaluation, of the batch it was opened with */
    bool ema;          /* averaged weights were chosen */
    double threshold;  /* data.labels multi: a probability above it makes the class a label */
    bool foreign;      /* opened by foreign_model_open(): of meta only class_names count */
    char *class_names; /* what meta's then point to, where they are of a text file */
} CheckpointModel;

/* ERR_DATA naming path: no checkpoint, a damaged configuration in it, an unknown network, tensors
 * that are not the network's or hold what is no finite number. */
Status checkpoint_model_open(CheckpointModel *out, const char *path, int64_t batch);
#define CHECKPOINT_MODEL_THRESHOLD 0.5 /* where nobody says one */
/* ERR_USAGE naming path and the option --threshold: images have one label each. */
Status checkpoint_model_set_threshold(CheckpointModel *m, double threshold, const char *path);
/* Which weights safetensors_find() finds in file from here on; raw ones until then. ERR_DATA naming
 * path, as checkpoint_model_open(), or where there are none such. */
Status checkpoint_model_choose(CheckpointModel *m, WeightsChoice which, const char *path);
/* The network of m's configuration for inference on images of this size, or on text in a canvas of
 * so many places, 0: the configuration's; returns to caller (graph_destroy). */
Status checkpoint_model_graph(Graph **out, const CheckpointModel *m, int64_t classes, int64_t batch,
                              int64_t size);
/* The configuration that a checkpoint holds; returns to caller (config_destroy). ERR_DATA naming
 * path. */
Status checkpoint_model_config(Config **out, const CheckpointMeta *meta, const char *path);
/* The dictionary of a network that reads text; returns to caller (dictionary_destroy). ERR_DATA
 * where the file has another number of words than the network, or none. */
Status checkpoint_model_dictionary(Dictionary **out, const CheckpointModel *m, const char *path);
void checkpoint_model_close(CheckpointModel *m); /* NULL inside is fine */
/* Whether ImageNet's names stand in: for third-party weights of 1,000 classes without names. A run
 * of our own with 1,000 numbered classes may be of any data. */
bool checkpoint_model_borrows_names(const CheckpointModel *m);
/* Copies the name of a class to out: that of its folder, or its number where the checkpoint does
 * not know names and borrows none. */
void checkpoint_model_class_name(const CheckpointModel *m, int64_t label, char *out, size_t bytes);
#endif
