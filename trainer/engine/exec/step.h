/* step.h - what a step does to parameters and states by their gradients: a list of operations.
 *
 * A rule (trainer/engine/rules) makes an operation, says when it has its turn and which of its
 * inputs it changes, and adds it to the list of an executor (executor_add_step()), which finds out
 * from the operation's tensors which memory that is. The rule runs nothing itself: timelines put
 * the list in order (timeline.h), timeline_check() proves that order from what is said here, the
 * executor issues it, and whoever reports on a step reads it. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_STEP_H
#define CONVOY_TRAINER_ENGINE_EXEC_STEP_H
#include "kernels/backend.h"
#include "models/graph/plan.h"

typedef enum TimelineRun { /* TIMELINE_STEP and TIMELINE_SECOND_PASS end a step */
                           TIMELINE_MICRO_BATCH,
                           TIMELINE_STEP,
                           TIMELINE_FIRST_PASS, /* moves parameters instead of updating them */
                           TIMELINE_SECOND_PASS,
                           TIMELINE_RUN_COUNT
} TimelineRun;
enum { /* StepOp.runs */
       STEP_IN_FIRST = 1 << TIMELINE_FIRST_PASS,
       STEP_IN_SECOND = 1 << TIMELINE_SECOND_PASS,
       STEP_IN_LAST = 1 << TIMELINE_STEP | STEP_IN_SECOND
};

/* In this order, and what has its turn at the same time bucket by bucket in that of the list. */
typedef enum StepWhen {
    STEP_FORWARD,    /* running statistics are made, not yet summed */
    STEP_MEASURE,    /* of a bucket, behind its sum; if there is any, nothing below comes before */
    STEP_MOVE,       /* parameters go elsewhere, or come back */
    STEP_PREPARE,    /* before the first update */
    STEP_UPDATE,     /* of a bucket, behind its sum */
    STEP_STATISTICS, /* behind the sum of running statistics */
    STEP_AVERAGE,    /* behind all that changes weights */
    STEP_END,        /* behind all that asks whether the step was one */
    STEP_RESULT      /* a copy to the host */
} StepWhen;

typedef enum StepNeed {
    STEP_NEEDS_HEALTH, /* not where this rank has failed: it takes part in sums alone */
    STEP_NEEDS_FIRST,  /* where the first of two passes has moved parameters */
    STEP_NEEDS_NOTHING
} StepNeed;

typedef enum StepMode { STEP_READS, STEP_WRITES /* anew */, STEP_UPDATES } StepMode;
typedef struct StepUse {
    Slab slab;            /* SLAB_EXTERNAL: memory of the rules' own, or an input of the graph's */
    const char *name;     /* of the input, or of the operation's slot */
    size_t offset, bytes; /* in a slab; of the rules' own: its address */
    StepMode mode;
} StepUse;

enum { STEP_USES_MAX = 10 };
typedef struct StepOp {
    const char *name;
    const void *owner; /* executor_remove_steps() */
    StepWhen when;
    StepNeed need;
    unsigned runs;        /* bits by TimelineRun */
    int64_t every;        /* steps from one turn to the next; 0: each */
    int bucket;           /* STEP_MEASURE, STEP_UPDATE */
    size_t offset, bytes; /* its range, of all that lies as gradients do */
    OpInstance *op;       /* borrowed; NULL: a copy */
    unsigned updates;     /* bits by input that changes in place */
    unsigned unread;      /* bits by input that it is given and never looks at */
    struct {
        void *to;
        const void *from;
        size_t bytes, stride; /* STEP_RESULT: between the places of two results */
    } copy;
    StepUse use[STEP_USES_MAX]; /* behind the last all zero; filled by executor_add_step() */
} StepOp;

bool step_of_bucket(const StepOp *s);
bool step_in_run(const StepOp *s, TimelineRun run);
void step_use(StepOp *s, StepUse use); /* another one; nothing where it has no bytes */
int step_use_count(const StepOp *s);
/* Of memory that it moves by its uses. */
double step_traffic(const StepOp *s);
#endif
