/* steps.h - operations of steps in tests: those that rules have added to an executor, run by hand,
 * and lists such as rules make, for graphs without memory. */
#ifndef CONVOY_TESTS_TOOLS_STEPS_H
#define CONVOY_TESTS_TOOLS_STEPS_H
#include "trainer/engine/exec/executor.h"

/* All operations that have their turn then in such a run; bucket: 0 where they are of none. */
Status steps_run(Executor *x, TimelineRun run, StepWhen when, int bucket);

typedef struct StepsSpec {
    bool loss_scale, norm, averages, statistics; /* statistics: their sum becomes a mean */
} StepsSpec;
/* What an optimizer with a momentum, lookahead and sharpness would add. NULL: no memory; else
 * mem_free. */
StepOp *steps_like(const StepsSpec *spec, const Plan *p, const Bucket *buckets, int bucket_count,
                   int *out_count);
/* A timeline of o with such a list; timeline_destroy(). */
Timeline *steps_timeline(const Graph *g, const Plan *p, const TimelineOptions *o,
                         const StepsSpec *spec);
#endif
