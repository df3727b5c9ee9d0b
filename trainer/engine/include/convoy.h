/* convoy.h - Convoy's engine in a program of your own: train a network, hear of every step.
 *
 * A run is described by the keys of docs/config.md, as on the command line of `convoy train`, and
 * computes the same: same numbers, same checkpoints, same run folder to go on from. What the
 * command adds around it (metrics.jsonl, log.txt, pages, monitors) is left to you: all that a run
 * tells comes through one table of callbacks.
 *
 *     ConvoyRanks *ranks;
 *     ConvoyEngine *engine;
 *     const char *settings[] = { "model.name=resnet18", "data.train=photos", "run.dir=runs/a" };
 *     if (convoy_join(&ranks) == CONVOY_OK) {
 *         int code = convoy_open(&engine, ranks, NULL, settings, 3);
 *         if (code == CONVOY_OK) code = convoy_train(engine, &events);
 *         if (code != CONVOY_OK) fprintf(stderr, "%s\n", convoy_message());
 *         convoy_close(engine);
 *     }
 *     convoy_leave(ranks);
 *
 * examples/train.c is a whole program; its first lines say how to build it.
 *
 * RANKS. Started alone a program is one rank; under mpirun or srun each process is one, and every
 * function marked collective is called by all of them, in the same order. MPI is started by
 * convoy_join() and ended by convoy_leave(), so a process joins once; it may run any number of
 * engines meanwhile, one after the other. A rank that is lost ends the process with exit code 76,
 * as MPI would: peers cannot go on without it.
 *
 * THREADS. All functions but convoy_stop() are called from one thread.
 *
 * Rank 0 prints warnings on stderr. Errors are returned, and printed by nobody. */
#ifndef CONVOY_H
#define CONVOY_H
#ifdef __cplusplus
extern "C" {
#endif

/* What functions return: the exit codes of the program convoy. */
enum {
    CONVOY_OK = 0,
    CONVOY_USAGE = 64,    /* a config file, a key, a value */
    CONVOY_DATA = 65,     /* data or a checkpoint that cannot be used */
    CONVOY_INTERNAL = 70, /* out of memory, or a bug */
    CONVOY_DIVERGED = 71, /* a loss or a weight is not finite */
    CONVOY_IO = 74,       /* cannot write */
    CONVOY_STOPPED =
        75,         /* stopped as asked, checkpoint saved; the same call goes on from it (unless
                              * checkpoint.resume is none) */
    CONVOY_ENV = 78 /* no such device, library or core */
};

/* Why the last function of this thread failed, in one sentence; "" if none has. Yours until the
 * next call. */
const char *convoy_message(void);
const char *convoy_version(void); /* as convoy --version says it; static */

typedef struct ConvoyRanks ConvoyRanks;
/* Collective. CONVOY_ENV, CONVOY_INTERNAL; *out is NULL then. */
int convoy_join(ConvoyRanks **out);
/* Collective. NULL ok. */
void convoy_leave(ConvoyRanks *ranks);
int convoy_rank(const ConvoyRanks *ranks);  /* from 0 */
int convoy_world(const ConvoyRanks *ranks); /* how many there are */

typedef struct ConvoyEngine ConvoyEngine;
/* Collective. Reads a run's description, and nothing else yet. config: a YAML file, or NULL for
 * defaults; settings: "key=value", count of them, which go over it; run.dir must be among them.
 * ranks: borrowed until convoy_close(). CONVOY_USAGE names the file or key; *out is NULL then. */
int convoy_open(ConvoyEngine **out, ConvoyRanks *ranks, const char *config,
                const char *const *settings, int count);
void convoy_close(ConvoyEngine *engine); /* NULL ok */

/* One thing that a run tells, with its fields: the tables of docs/running.md. Borrowed for the
 * duration of the callback. */
typedef struct ConvoyRecord ConvoyRecord;
double convoy_number(const ConvoyRecord *record, const char *field); /* NaN: no such number */
/* NULL: no such text */
const char *convoy_text(const ConvoyRecord *record, const char *field);

/* Callbacks, on the thread that called convoy_train(), on every rank unless it says rank 0. self is
 * handed through. NULL: not called. A result other than 0 asks the run to stop, as convoy_stop()
 * does: after the step that follows. */
typedef struct ConvoyEvents {
    void *self;
    /* the run is open: model, device, classes, parameters, steps ... */
    int (*start)(void *self, const ConvoyRecord *record);
    /* goes on from a checkpoint: step, path; on rank 0 alone */
    int (*resume)(void *self, const ConvoyRecord *record);
    /* every step: step from 1, loss, lr, images_per_s ... */
    int (*step)(void *self, const ConvoyRecord *record);
    /* the end of an epoch: epoch from 0, images, seconds ... */
    int (*epoch)(void *self, const ConvoyRecord *record);
    /* evaluated: loss, top1, top5 or map, of averaged weights ema_loss, ema_top1 ... */
    int (*eval)(void *self, const ConvoyRecord *record);
    /* a checkpoint is on disk: step, path; on rank 0 alone */
    int (*checkpoint)(void *self, const ConvoyRecord *record);
    /* what a part of the run has spent: part, host_seconds ... */
    int (*spent)(void *self, const ConvoyRecord *record);
    /* everything else, by the name of its event: "on_save", "diverged" */
    int (*other)(void *self, const char *event, const ConvoyRecord *record);
} ConvoyEvents;

/* Collective. Trains to the end that the description says, from the newest checkpoint in run.dir
 * unless checkpoint.resume says otherwise; evaluates and saves on the way. events: NULL for none.
 * Any code above; the same on all ranks. */
int convoy_train(ConvoyEngine *engine, const ConvoyEvents *events);

/* Asks the run under way to save a checkpoint and return CONVOY_STOPPED; on any rank, from any
 * thread, or a signal's handler. Nothing happens where no run is under way. */
void convoy_stop(void);

#ifdef __cplusplus
}
#endif
#endif
