/* tracing.h - log.trace_steps (docs/watching.md): what this rank's threads and device did in some
 * steps, as a file for trace viewers. On a device a traced step is neither replayed nor given ahead
 * of the one before, so it is a little slower than others. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_TRACING_H
#define CONVOY_TRAINER_ENGINE_TRAIN_TRACING_H
#include "base/trace.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/train/reducer.h"

typedef struct Tracing Tracing;
/* steps as config_parse_trace_steps() takes them, "": *out is NULL, which every function takes.
 * Borrows x. The file is run_dir/trace-RANK.json. */
Status tracing_create(Tracing **out, const char *steps, const char *run_dir, int rank, Executor *x);
void tracing_destroy(Tracing *t); /* NULL ok */
Trace *tracing_trace(Tracing *t); /* NULL for NULL */
/* Whether this step (from 0) is traced. */
bool tracing_has(const Tracing *t, int64_t step);
/* Before a step is issued. Starts at the first. ERR_* of the device. */
Status tracing_step(Tracing *t, int64_t step);
/* After it is finished, or the run ends: behind the last one the file is written. */
Status tracing_step_done(Tracing *t, int64_t step);
Status tracing_finish(Tracing *t);

/* A span of the main thread: from start_s to now. name: static. */
void tracing_main(Tracing *t, const char *name, int64_t number, double start_s);
/* The same for a copy that the main thread makes. */
void tracing_copy(Tracing *t, const char *name, int64_t number, double start_s);
/* Where a run of p may write its items' times: NULL unless a step is traced now. ERR_MEMORY gives
 * NULL too. */
const ItemTimes *tracing_items(Tracing *t, const Program *p, TimelineRun run);
/* Adds items [from, to) of that run; it must be over, or on host memory have come so far. */
Status tracing_add_items(Tracing *t, const Program *p, TimelineRun run, int from, int to);
void tracing_add_jobs(Tracing *t, const Reducer *r);
#endif
