/* step.h - one training step. The comment at the head of step.c is its life story. */
#ifndef CONVOY_TRAINER_STEP_H
#define CONVOY_TRAINER_STEP_H
#include "trainer/optim.h"
#include "trainer/reduce.h"
#include "trainer/schedule.h"
#include "trainer/session.h"

typedef struct Stepper Stepper;

typedef struct StepResult {
    double loss; /* mean over the global batch */
    double lr;
    double seconds, data_wait_s, comm_wait_s; /* of this rank */
    int64_t replaced; /* samples of the global batch that could not be decoded and were replaced */
    bool stop;        /* some rank was asked to stop */
    /* some rank could not do its part: the step was not applied; call comm_agree with own_status */
    bool failed;
    Status own_status; /* this rank's */
} StepResult;

/* After session_commit(). Borrows session. */
Status stepper_create(Stepper **out, Session *session);
void stepper_set_loader(Stepper *s, Loader *loader); /* before the first step; borrowed */
/* Updates that the optimizer has seen beyond the step number (a resumed run with another global batch). */
void stepper_set_earlier_updates(Stepper *s, int64_t count);
void stepper_destroy(Stepper *s); /* NULL ok */
Optimizer *stepper_optimizer(Stepper *s);
const Schedule *stepper_schedule(const Stepper *s);
const Reducer *stepper_reducer(const Stepper *s);
const Bucket *stepper_buckets(const Stepper *s, int *count);
/* pending: an error of this rank from outside the step (log or checkpoint could not be written); it makes the step fail
 * everywhere. node_seconds: NULL, or per-node times of the last micro-batch's program are added (bench). */
StepResult stepper_run(Stepper *s, int64_t step, Status pending, double *node_seconds);
#endif
