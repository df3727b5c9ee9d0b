/* loop_state.h - the state of a run, for loop.c and loop_checkpoint.c. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_LOOP_STATE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_LOOP_STATE_H
#include "trainer/engine/events/run_events.h"
#include "trainer/engine/train/on_save.h"
#include "trainer/engine/train/stepper.h"
#include "trainer/engine/train/train_state.h"

typedef struct LoopRollback { /* of a run that diverged (loop_divergence.h) */
    int64_t count;            /* how often it went back */
    int64_t diverged, to;     /* the last time: the step that showed it, and the checkpoint's */
    double lr_factor;         /* of the learning rate since then; 1 at first */
} LoopRollback;

typedef struct Loop {
    Session *s;
    const RunEvents *events;
    Loader *loader;
    Stepper *stepper;
    Tracing *tracing; /* NULL without log.trace_steps */
    Status pending;   /* this rank's error from outside a step */
    struct {
        char *dir;
        StrBuf class_names;       /* one a line */
        StrBuf words;             /* CheckpointMeta has them */
        StrBuf config_text;       /* resolved YAML */
        CheckpointWriter *writer; /* rank 0 only, as is the next */
        OnSave *on_save;          /* NULL without checkpoint.on_save */
    } checkpoint;
    struct {
        double score;  /* records_score(); -1: none yet */
        int64_t stale; /* evaluations since then */
    } best;
    struct { /* what the run goes on from */
        int64_t step;
        int64_t step_offset; /* updates behind it beyond that number */
        bool resumed;
        bool own; /* ... from a checkpoint of this run folder */
        /* above 0: goes back to one of a step before that, whatever checkpoint.resume says */
        int64_t below;
        bool eval_due; /* the run before was stopped ahead of an evaluation */
    } start;
    struct { /* rank 0: of averages, at a step */
        AverageRest rest[AVERAGE_KIND_COUNT];
        int64_t step;
    } averages;
    LoopRollback rollback;
    struct { /* why the last stretch ended with ERR_DIVERGED */
        int64_t steps;
        double loss;
        const char *symptom; /* what of the step is not finite; NULL: its loss was */
        double value;
        char tensor[STATE_NAME_BYTES]; /* the first bad one; "": all are finite */
    } divergence;
    struct { /* steps that the loader at hand feeds: of one size (progressive.h) and phase */
        int64_t first, end;
        double image_share; /* of the devices' peak a second, one image; 0: not known */
    } stage;
    struct { /* since the last epoch record */
        double seconds;
        int64_t images, tokens;
        Spent spent, waited; /* on its steps; of that, in waits for data */
        LoaderStats input;   /* as it was then */
    } epoch;
    struct { /* whether data keeps up, judged behind the first step of a loader */
        double seconds;
        LoaderStats early; /* as it was then */
        bool warned;
    } input;
    struct { /* since this process started: undecodable ones, and all */
        int64_t replaced, drawn;
    } samples;
    struct { /* loop_spent.h */
        Energy *energy;
        int64_t hosts;
        bool started;
        char source[ENERGY_TEXT_BYTES];
        SpentParts sums;      /* of the run, earlier processes too; rank 0's */
        Spent last;           /* of all hosts, as it was at the last end */
        int64_t step, images; /* steps done; images of those since the last end */
        double wait_s;        /* of this rank, since then */
    } spent;
    double penalty; /* at the parameters of the last step that a row of the table was due for */
} Loop;

static inline bool loop_is_main(const Loop *l)
{
    return l->s->comm->rank == 0;
}
#endif
