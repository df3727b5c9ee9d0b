/* loop_internal.h - what loop.c and loop_checkpoint.c share: the state of a run, and saving and
 * resuming it. */
#ifndef CONVOY_TRAINER_TRAIN_LOOP_INTERNAL_H
#define CONVOY_TRAINER_TRAIN_LOOP_INTERNAL_H
#include "trainer/train/loop.h"
#include "trainer/train/stepper.h"
#include "trainer/train/train_state.h"

typedef struct Loop Loop;
struct Loop {
    Session *s;
    RunLog *log;
    Monitor *monitor; /* NULL ok */
    char *checkpoint_dir;
    StrBuf class_names; /* one a line */
    Loader *loader;
    Stepper *stepper;
    Tracing *tracing;         /* NULL without log.trace_steps */
    CheckpointWriter *writer; /* rank 0 only, as is the next */
    OnSave *on_save;          /* NULL without checkpoint.on_save */
    StrBuf config_text;       /* resolved YAML, for checkpoints */
    int64_t first_step;
    int64_t step_offset;    /* updates that a resumed run has behind it beyond first_step */
    bool resumed, eval_due; /* eval_due: the run was stopped before an evaluation */
    /* samples that could not be decoded, and all samples, since this process started */
    int64_t replaced, drawn;
    double best_top1;
    Status pending; /* this rank's error from outside a step */
    double epoch_seconds, progress_s, seconds_per_step;
    int64_t epoch_images;
    LoaderStats epoch_start, early_start; /* of the loader; early: behind its first step */
    double run_seconds;                   /* with this loader, without its first step */
    int64_t stage_start, stage_end;       /* steps that this loader feeds (progressive.h) */
    bool warned;                          /* that the input limits training */
    double recent_seconds;                /* since the last recorded step, as the next */
    int64_t recent_steps;
    double penalty; /* at the parameters of the last step that a row of the table was due for */
};

static inline bool loop_is_main(const Loop *l)
{
    return l->s->comm->rank == 0;
}

/* Collective: a checkpoint after steps steps. wait: return only when the file is on disk. */
Status loop_save(Loop *l, int64_t steps, bool best, bool eval_due, bool wait);
/* Records a checkpoint once it is on disk, and a failed write as this rank's pending error. */
Status loop_poll_writer(const Loop *l);
/* Collective: waits for checkpoint.on_save, at the end of a run. */
Status loop_finish_on_save(Loop *l);
/* Collective: the state that checkpoint.resume or model.init name, and where the run goes on from
 * it. */
Status loop_resume(Loop *l);
#endif
