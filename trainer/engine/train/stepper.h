/* stepper.h - one training step. The comment at the head of stepper.c is its life story. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_STEPPER_H
#define CONVOY_TRAINER_ENGINE_TRAIN_STEPPER_H
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/rules/averages.h"
#include "trainer/engine/rules/optimizer.h"
#include "trainer/engine/session/session.h"
#include "trainer/engine/train/reducer.h"
#include "trainer/engine/train/tracing.h"

typedef struct Stepper Stepper;

typedef struct StepResult {
    int64_t step;
    double loss; /* mean over the global batch */
    double lr;
    double seconds, data_wait_s, comm_wait_s; /* of this rank */
    OptimizerResult optimizer;
    /* of networks that read text: of the whole step over all ranks, with <s> and </s>; of those,
     * the words that the loss is of */
    int64_t tokens, masked;
    bool unmasked;    /* not one word is masked: there is no loss, it is NaN */
    int64_t replaced; /* samples of the global batch that could not be decoded and were replaced */
    bool stop;        /* some rank was asked to stop */
    /* The loss of this rank's own images is not finite. Where the host sums, this rank's parameters
     * are still those that gave it. */
    bool diverged_here;
    /* Some rank could not do its part: call comm_agree with own_status. Others may have applied the
     * step; what they hold is not used any more. */
    bool failed;
    Status own_status; /* this rank's */
} StepResult;

/* After session_commit_empty(). Borrows session. */
Status stepper_create(Stepper **out, Session *session);
/* Before the first step. Borrowed until the stepper is destroyed, which must come first. */
Status stepper_set_loader(Stepper *s, Loader *loader);
/* Updates that the optimizer has seen beyond the step number (a resumed run with another global
 * batch). */
void stepper_set_step_offset(Stepper *s, int64_t count);
/* What the schedule's learning rate is multiplied by from the next step on; 1 at first. */
void stepper_set_lr_factor(Stepper *s, double factor);
/* Before the first step; borrowed. NULL: no step is traced. */
void stepper_set_tracing(Stepper *s, Tracing *tracing);
void stepper_destroy(Stepper *s); /* NULL ok */
FREED_BY_POINTER(Stepper, stepper_destroy)
Optimizer *stepper_optimizer(const Stepper *s);
Averages *stepper_averages(const Stepper *s);
const Reducer *stepper_reducer(const Stepper *s);
/* The program of a step's last micro-batch; program_timeline(p, TIMELINE_STEP), or in a step of two
 * passes those of both, is what it does. */
Program *stepper_last_program(const Stepper *s);
/* pending: an error of this rank from outside the step (log or checkpoint could not be written); it
 * makes the step fail everywhere. item_seconds: NULL, or the times of those timelines' items are
 * added, where program_step_items() says (bench). */
StepResult stepper_run(Stepper *s, int64_t step, Status pending, double *item_seconds);
/* The two halves of stepper_run(). Results come in the order of issue. */
void stepper_issue(Stepper *s, int64_t step, Status pending);
StepResult stepper_finish(Stepper *s);
/* a second step may be issued before the first is finished */
bool stepper_runs_ahead(const Stepper *s);
#endif
