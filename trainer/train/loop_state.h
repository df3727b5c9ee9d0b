/* loop_state.h - the state of a run, for loop.c and loop_checkpoint.c. */
#ifndef CONVOY_TRAINER_TRAIN_LOOP_STATE_H
#define CONVOY_TRAINER_TRAIN_LOOP_STATE_H
#include "trainer/files/on_save.h"
#include "trainer/log/runlog.h"
#include "trainer/monitor/monitor.h"
#include "trainer/train/stepper.h"
#include "trainer/train/train_state.h"

typedef struct Loop {
    Session *s;
    RunLog *log;
    Monitor *monitor; /* NULL ok */
    Loader *loader;
    Stepper *stepper;
    Tracing *tracing; /* NULL without log.trace_steps */
    Status pending;   /* this rank's error from outside a step */
    struct {
        char *dir;
        StrBuf class_names;       /* one a line */
        StrBuf config_text;       /* resolved YAML */
        CheckpointWriter *writer; /* rank 0 only, as is the next */
        OnSave *on_save;          /* NULL without checkpoint.on_save */
        double best_top1;
    } checkpoint;
    struct { /* what the run goes on from */
        int64_t step;
        int64_t step_offset; /* updates behind it beyond that number */
        bool resumed;
        bool eval_due; /* the run before was stopped ahead of an evaluation */
    } start;
    struct { /* steps that the loader at hand feeds (progressive.h) */
        int64_t first, end;
    } stage;
    struct { /* since the last epoch record */
        double seconds;
        int64_t images;
        LoaderStats input; /* as it was then */
    } epoch;
    struct { /* since the last step record */
        double seconds;
        int64_t steps;
    } recent;
    struct { /* the line on the console */
        double shown_s, seconds_per_step;
    } progress;
    struct { /* whether data keeps up, judged behind the first step of a loader */
        double seconds;
        LoaderStats early; /* as it was then */
        bool warned;
    } input;
    struct { /* since this process started: undecodable ones, and all */
        int64_t replaced, drawn;
    } samples;
    double penalty; /* at the parameters of the last step that a row of the table was due for */
} Loop;

static inline bool loop_is_main(const Loop *l)
{
    return l->s->comm->rank == 0;
}
#endif
