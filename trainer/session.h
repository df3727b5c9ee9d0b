/* session.h - what a command that computes needs: datasets, threads, backend, programs; opened from a Config on all
 * ranks together.
 *
 * Every error is agreed: all ranks return the same status, with the message of the lowest rank that failed. */
#ifndef CONVOY_TRAINER_SESSION_H
#define CONVOY_TRAINER_SESSION_H
#include "data/data.h"
#include "models/models.h"
#include "trainer/comm/comm.h"
#include "trainer/config.h"
#include "trainer/exec/executor.h"
#include "trainer/runplan.h"
#include "trainer/threads.h"

typedef enum SessionUse {
    SESSION_TRAIN, /* training programs; evaluation too where data.val is set */
    SESSION_EVAL   /* the evaluation program alone */
} SessionUse;

typedef struct Session {
    const Config *config; /* borrowed */
    Comm *comm;           /* borrowed */
    ThreadPlan threads;
    Dataset *train, *val; /* NULL where unused */
    int64_t classes;
    RunPlan plan;
    Backend *backend;
    Executor *executor;
    Program *first, *more; /* first micro-batch of a step; the following ones (accumulating), NULL if there are none */
    Program *eval;         /* NULL without data.val */
} Session;

/* Opens datasets, makes the run plan, creates the backend and prepares the programs. Allocates no slab yet. */
Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use);
/* Only the training set, the run plan and the threads: for benchmarks of the input. */
Status session_open_data(Session *s, const Config *c, Comm *comm);
/* Allocates the slabs, fills parameters by their init rules on rank 0 and broadcasts them. */
Status session_commit(Session *s);
/* Parameters and buffers of rank 0 to all ranks. */
void session_broadcast(Session *s);
void session_close(Session *s);

/* The loader options that train, evaluation and bench share. */
LoaderOptions session_loader_options(const Session *s, DataRole role);
#endif
