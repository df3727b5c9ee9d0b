/* checkpoint.h - checkpoints of a run: written behind the training's back, found again, verified.
 *
 * WRITING. The writer owns staging memory for all tensors, allocated once. The training thread
 * copies its state in between two steps (checkpoint_staging), hands it over (checkpoint_submit) and
 * trains on; the writer thread writes DIR/step-00001234.safetensors to a temporary name, fsyncs,
 * renames, moves the symlinks latest and (where asked) best, and deletes all but the newest keep
 * files, never those that latest and best name. Only rank 0 writes. READING. checkpoint_find()
 * names the newest file that verifies: a corrupt one is passed over with a warning that names
 * it. Of another version of convoy no file is read, and none is passed over: a run must not go back
 * for having been continued by another program. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_CHECKPOINT_H
#define CONVOY_TRAINER_ENGINE_FILES_CHECKPOINT_H
#include "base/status.h"
#include "trainer/engine/files/safetensors.h"
#include <stdbool.h>
#include <stdint.h>

/* everything besides tensors; strings are borrowed for the call (submit copies), or live as long as
 * the SafeFile */
typedef struct CheckpointMeta {
    int64_t step;     /* updates done */
    int64_t run_step; /* ... of them by the count of a run that had this global batch from step 0 */
    int64_t images;   /* position in the training stream: images consumed in all */
    int64_t epoch;    /* whole epochs done */
    int64_t seed;
    int64_t global_batch, dataset_images;
    int64_t norm_images; /* that shared the statistics of batch norms in groups of ranks, else 0 */
    double best_score;   /* records_score() of the best evaluation so far, -1 if none */
    int64_t stale;       /* evaluations since then */
    int64_t val_print;   /* of the set that they were of (session.h); 0: not known */
    /* 1: stopped before an evaluation that was due: the resumed run begins with it */
    int64_t eval_due;
    /* of a run that diverged and went back: the factor of its learning rate since; how often; the
     * last time the step at which it diverged, and that of the checkpoint that it went back to */
    double lr_factor;
    int64_t rollbacks, diverged, rolled_to;
    /* of lookahead's and EMA's copies (averaging.h): the share that is what it was at the position
     * average_images; -1: there is no such copy */
    double average_rest[2];
    int64_t average_images[2];
    const char *model;       /* model.name */
    const char *config;      /* resolved YAML */
    const char *class_names; /* one a line, in the order of labels */
    /* of a network that classifies text, its dictionary, one word a line in the order of ids; "":
     * class_names are that, or it reads images */
    const char *words;
    int64_t named_classes; /* 1: they are of folders or texts, not the numbers of labels */
    int64_t teacher;       /* Teacher.print of what it learns from; 0: there is none */
    int64_t pairs;         /* 1: the network classifies pairs of texts */
    const char *spent;     /* of cost_write() */
    const char *writer;    /* its version of convoy, as it calls itself; NULL: not told */
} CheckpointMeta;

typedef struct CheckpointWriter CheckpointWriter;
/* dir must exist. tensors: names and descs (data ignored), copied. keep >= 1. */
Status checkpoint_writer_create(CheckpointWriter **out, const char *dir, const SafeTensor *tensors,
                                int count, int64_t keep);
/* Files of steps for which needed() says true are not deleted while it does. Before the first
 * submit; needed() runs on the writer's thread. */
void checkpoint_writer_spare(CheckpointWriter *w, bool (*needed)(void *cookie, int64_t step),
                             void *cookie);
/* Waits until the file before this one is on disk; returns its error, if it had one. */
Status checkpoint_wait(CheckpointWriter *w);
/* Then lends the staging memory of tensor index, which train/train_state.c fills. */
void *checkpoint_staging(CheckpointWriter *w, int index);
Status checkpoint_submit(CheckpointWriter *w, const CheckpointMeta *meta, bool best);
/* Waits for the last submitted file; returns its error if checkpoint_poll has not already. */
Status checkpoint_flush(CheckpointWriter *w);
/* Never waits. *done: a file reached the disk since the last poll; then *step and *path say which
 * (borrowed until the next poll). A failed write is returned once, here or by stage or flush,
 * whichever comes first. */
Status checkpoint_poll(CheckpointWriter *w, bool *done, int64_t *step, const char **path);
void checkpoint_writer_destroy(CheckpointWriter *w); /* flushes; NULL ok */

/* Opens and verifies a named file; what its tensors hold is not looked at. ERR_DATA naming path:
 * damaged, not a checkpoint, or one of another version. */
Status checkpoint_open(SafeFile **out, CheckpointMeta *meta, const char *path);
/* ERR_DATA naming path, whose checksums are right: it was written by another version. why: what is
 * not as this version writes it. */
Status checkpoint_fail_version(const char *path, const char *writer, const char *why);
/* The newest good checkpoint in dir, whose tensors are all finite, of a step before below
 * (INT64_MAX: any), by step number (not by the latest link, which may be torn): *out NULL and OK if
 * there is none at all. If files exist and none is good: ERR_DATA naming the newest; and where one
 * of another version is met first. path (may be NULL): mem_free. Does not log where dir does not
 * exist. */
Status checkpoint_find(SafeFile **out, CheckpointMeta *meta, const char *dir, int64_t below,
                       char **path);
#endif
