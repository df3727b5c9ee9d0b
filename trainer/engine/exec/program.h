/* program.h - one graph made runnable: its tensors in memory, its nodes as operations of a backend,
 * the order in which they run. executor_add() makes it, the executor owns and runs it. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_PROGRAM_H
#define CONVOY_TRAINER_ENGINE_EXEC_PROGRAM_H
#include "kernels/backend.h"
#include "models/graph/plan.h"
#include "trainer/engine/exec/timeline.h"

typedef struct Program Program;

#define PROGRAM_SLOTS 2 /* input slots on a device */

const Graph *program_graph(const Program *p);
const Plan *program_plan(const Program *p);
/* NULL before executor_plan_step() planned it */
const Timeline *program_timeline(const Program *p, TimelineRun run);
/* Items of the timelines that end a step, those before run: where a list of all has run's. */
int program_step_items(const Program *p, TimelineRun run);
/* Where a tensor of a program lives; after commit. */
const OpTensor *program_tensor(const Program *p, TensorId id);
const char *program_implementation(const Program *p, int node); /* OpInstance.implementation */
/* Bytes that a node moves when it runs (backend_traffic). */
double program_node_traffic(const Program *p, int node, OpTraffic *out);
/* Points an input ("images", "labels", "erase", "mix") at other memory that the backend can read,
 * until the next call. */
Status program_set_input(Program *p, const char *name, const void *data);
/* [STATS_COUNT] of the last run, after executor_wait() */
const double *program_stats(const Program *p);
#endif
