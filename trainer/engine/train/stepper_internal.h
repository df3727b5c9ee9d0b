/* stepper_internal.h - what the files of the stepper share: stepper.c has its life and the end of a
 * step, stepper_issue.c its beginning and what is declared here. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_STEPPER_INTERNAL_H
#define CONVOY_TRAINER_ENGINE_TRAIN_STEPPER_INTERNAL_H
#include "trainer/engine/rules/sharpness.h"
#include "trainer/engine/train/host_reduce.h"
#include "trainer/engine/train/stepper.h"

/* TOTAL_WEIGHT: what the loss is a mean over, images or masked words. */
enum { TOTAL_LOSS_SUM, TOTAL_WEIGHT, TOTAL_REPLACED, TOTAL_STOP, TOTAL_FAILED, TOTAL_COUNT };

enum { FLIGHTS = SESSION_STEPS_MAX };
_Static_assert(FLIGHTS <= OPTIMIZER_RESULTS, "a result for each step under way");

typedef struct Flight { /* a step from issue to finish */
    StepResult result;
    double start_s;
    double totals[TOTAL_COUNT]; /* what is known before the device is done */
    int64_t issued;             /* micro-batches */
    int first_result;           /* of the executor's */
    TimelineRun run;            /* the last one of the step */
    int64_t last_tokens;        /* of a text: in the last micro-batch, the most of any rank */
    Program *last;              /* that of the last micro-batch; NULL: not known yet */
    /* of two passes: the first has been through its sums; it has moved the parameters */
    bool ascended, perturbed;
} Flight;

struct Stepper {
    Session *session;
    Schedule schedule;
    Optimizer *optimizer;
    Sharpness *sharpness; /* NULL without it */
    Averages *averages;
    Tracing *tracing;
    double *item_seconds;
    double totals[TOTAL_COUNT];
    double lr_factor;
    int64_t step_offset; /* updates done beyond the step number: before the global batch changed */
    bool drops;          /* the network draws: every micro-batch at its own address */
    struct {
        Bucket *list;
        int count;
    } buckets;
    struct { /* over ranks */
        TimelineReduce by;
        Sums over_ranks;
        Reducer *reducer; /* totals; where the host sums, buckets and running statistics too */
        Reducer *first;   /* where the host sums: buckets of a first pass; NULL without any */
        Reducer *at_hand; /* one of these two */
        HostReduce *host; /* NULL unless the host sums a device's gradients */
        DType type;       /* the device sums: in this type */
        void *grads;      /* gradients in that type, at the same indices; NULL for f32 */
    } sum;
    int bn_ranks; /* that share statistics of batch norms; 1: none */
    struct {      /* running statistics: sum over ranks -> mean */
        bool wanted;
        OpInstance op;
        ScaleAttr attr;
    } statistics_mean;
    struct {
        Flight list[FLIGHTS];
        int64_t issued, finished; /* steps */
        double finished_s;        /* when the last one was */
    } flights;
    Flight *flight; /* the one at hand */
};

/* Which result of the optimizer's the flight at hand fills. */
int stepper_flight_number(const Stepper *s);
/* Of the last micro-batch of the flight at hand. */
const Timeline *stepper_timeline(const Stepper *s);
/* An error of the device here is this rank's alone and cannot be agreed on any more: it ends the
 * job. */
void stepper_must(Stepper *s, Status status);
/* Sums.start, .await and .agree. */
Status stepper_start_sum(void *stepper, const SumRange *r, const OpTensor *tensor, Stream *stream);
Status stepper_await_sum(void *stepper, const SumRange *r, Stream *stream);
Status stepper_agree_on_recording(void *stepper, Status own);
/* The rest of a run that the host sums for, and its end. */
Status stepper_issue_rest(Stepper *s, TimelineRun run);
/* Where the host sums a device's gradients: buckets go to the communication thread as they come
 * out of the device. */
Status stepper_hand_over(Stepper *s);
/* A traced run is over, on host memory it has come to backward_end. */
Status stepper_trace_run(Stepper *s, const Program *p, TimelineRun run);
#endif
