/* session.h - what a command that computes needs: datasets, threads, backend, programs; opened by
 * session_open.h.
 *
 * Every error is agreed: all ranks return the same status, with the message of the lowest rank that
 * failed. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_SESSION_H
#define CONVOY_TRAINER_ENGINE_SESSION_SESSION_H
#include "data/data.h"
#include "models/models.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/comm/device_comm.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/plan/progressive.h"
#include "trainer/engine/plan/train_plan.h"
#include "trainer/engine/session/cache_share.h"
#include "trainer/engine/session/canvas.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/session/prefetch.h"
#include "trainer/engine/session/teacher.h"
#include "trainer/engine/session/thread_plan.h"

#define SESSION_STAGES_MAX                                                                         \
    (CANVAS_MAX > PROGRESSIVE_STAGES_MAX ? CANVAS_MAX : PROGRESSIVE_STAGES_MAX)
#define SESSION_STEPS_MAX 2 /* training steps that are under way on a device at once */

typedef enum SessionUse {
    SESSION_TRAIN, /* training programs; evaluation too where data.val is set */
    SESSION_EVAL   /* the evaluation program alone */
} SessionUse;

typedef struct Session {
    const Config *config; /* borrowed */
    Comm *comm;           /* borrowed */
    SessionUse use;
    ThreadPlan threads;
    Dataset *train, *val; /* NULL where unused */
    SampleCache *cache;   /* of both; NULL without data.cache: ram */
    Recompute recompute;  /* train.recompute, where no other is tried */
    int64_t classes;
    int64_t words;      /* of the dictionary, with <mask>; 0: images */
    uint32_t val_print; /* of val's images and labels, the same wherever it lies; training only */
    double data_s, plans_s; /* that opening the datasets took; preparing the programs */
    float *class_weights;   /* [classes], owned; NULL: none (class_weights.h) */
    Teacher teacher;        /* training only */
    TrainPlan plan;
    DeviceChoice device;
    Backend *backend;
    Executor *executor;
    /* the stage (progressive.h) that first and more are of; the last one unless set otherwise */
    int stage;
    /* first micro-batch of a step; the following ones (accumulating), NULL if there are none */
    Program *first, *more;
    Program *eval; /* NULL without data.val */
    /* Of all stages of training; of text, of all numbers of places that a micro-batch may have,
     * ascending (canvas.h). */
    int stages;
    int64_t places[SESSION_STAGES_MAX]; /* 0 of images */
    Program *stage_first[SESSION_STAGES_MAX], *stage_more[SESSION_STAGES_MAX],
        *stage_eval[SESSION_STAGES_MAX]; /* of images the last one alone */
    /* after session_commit_empty() */
    Prefetch *train_input, *eval_input; /* NULL without the programs */
    DeviceComm *device_comm;            /* NULL on host memory */
    /* pinned, for broadcasts of device memory; NULL without need */
    void *staging;
} Session;

/* Ranks whose batches a batch norm in training takes its statistics from, by model.bn and
 * model.bn_group; 1: its own alone. */
int session_bn_ranks(const Session *s);
/* Which of a kind of programs (stages[s->stages]) computes a micro-batch: of text, the smallest
 * that holds its tokens, else one. */
Program *session_program(Program *const stages[], const Session *s, Program *one, int64_t tokens);
/* Prepares the programs on the backend and sets the last stage. Allocates no slab yet. */
Status session_add_programs(Session *s);
/* Makes first and more those of a stage. No step may be under way. */
void session_set_stage(Session *s, int stage);
/* The same programs for micro-batches of another size, prepared and planned but not bound: for
 * their sizes. */
Status session_try_batch(const Session *s, int64_t batch, Executor **out);
/* Joins the ranks' devices and allocates the slabs. Parameters hold nothing yet, but the teacher's
 * do. */
Status session_commit_empty(Session *s);
/* Fills this rank's parameters by their init rules. Not agreed. */
Status session_draw(Session *s);
/* The two, the second on rank 0, which broadcasts what it has drawn. */
Status session_commit(Session *s);
/* In which type gradients are summed over ranks, and the memory that takes beside the gradients (of
 * that many bytes). */
DType session_allreduce_dtype(const Session *s);
size_t session_allreduce_bytes(const Session *s, size_t gradient_bytes);
/* Whether what is summed lies in memory of device_comm_alloc(). */
bool session_sums_registered(const Session *s);
/* Parameters and buffers of rank 0 to all ranks. */
Status session_broadcast(Session *s);
/* Memory of the backend from rank 0 to all ranks; collective, agreed. */
Status session_broadcast_memory(Session *s, void *data, size_t bytes, const char *name);
void session_close(Session *s);

/* Bytes of an image as loaders make them; of the largest where their size changes. */
size_t session_image_bytes(const Session *s, DataRole role);
/* Of the largest batch of this many images (BatchLayout). */
size_t session_batch_bytes(const Session *s, DataRole role, int64_t batch);
/* The loader options that train, evaluation and bench share; the training images of the stage at
 * hand. */
LoaderOptions session_loader_options(const Session *s, DataRole role);
#endif
