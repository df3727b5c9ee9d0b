/* tracing.c - see tracing.h. */
#include "trainer/engine/train/tracing.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

struct Tracing {
    Trace *trace;
    Executor *executor;
    char *path;
    int rank;
    int64_t first, last; /* steps from 0 */
    bool started, written;
    int main_lane, lanes[LANE_COUNT], comm_lane;
    double step_start_s;
    ItemTimes times;
    int times_capacity;
};

static Status fill_tracing(Tracing *t, const char *run_dir)
{
    char name[32];
    snprintf(name, sizeof name, "trace-%d.json", t->rank);
    if (!(t->path = fs_join(run_dir, name))) return ERR_MEMORY;
    TRY(fs_make_dirs(run_dir));
    TRY(trace_create(&t->trace));
    t->main_lane = trace_lane(t->trace, "steps", false);
    for (int i = 0; i < LANE_COUNT; i++) t->lanes[i] = -1;
    t->lanes[LANE_COMPUTE] = trace_lane(t->trace, "compute", false);
    if (executor_lane(t->executor, LANE_WEIGHTS))
        t->lanes[LANE_WEIGHTS] = trace_lane(t->trace, "weights", false);
    t->comm_lane = trace_lane(t->trace, "communication", true);
    t->lanes[LANE_COMM] = t->comm_lane;
    t->lanes[LANE_COPY] = trace_lane(t->trace, "copy", true);
    return OK;
}

Status tracing_create(Tracing **out, const char *steps, const char *run_dir, int rank, Executor *x)
{
    *out = NULL;
    if (steps[0] == '\0') return OK;
    Tracing *t = mem_calloc(1, sizeof *t);
    if (!t) return ERR_MEMORY;
    t->executor = x;
    t->rank = rank;
    Status status = config_parse_trace_steps(steps, &t->first, &t->last);
    t->first--;
    t->last--;
    if (status == OK) status = fill_tracing(t, run_dir);
    if (status != OK) tracing_destroy(t);
    else *out = t;
    return status;
}

void tracing_destroy(Tracing *t)
{
    if (!t) return;
    trace_destroy(t->trace);
    mem_free(t->times.start_s);
    mem_free(t->path);
    mem_free(t);
}

Trace *tracing_trace(Tracing *t)
{
    return t ? t->trace : NULL;
}

bool tracing_has(const Tracing *t, int64_t step)
{
    return t && step >= t->first && step <= t->last;
}

Status tracing_step(Tracing *t, int64_t step)
{
    if (!tracing_has(t, step)) return OK;
    if (!t->started) {
        TRY(executor_time_origin(t->executor));
        trace_start(t->trace);
    }
    t->started = true;
    t->step_start_s = clock_s();
    return OK;
}

Status tracing_step_done(Tracing *t, int64_t step)
{
    if (!tracing_has(t, step) || t->written) return OK;
    tracing_main(t, "step", step + 1, t->step_start_s);
    return step == t->last ? tracing_finish(t) : OK;
}

Status tracing_finish(Tracing *t)
{
    char process[192];
    if (!t || !t->started || t->written) return OK;
    trace_stop(t->trace);
    t->written = true;
    snprintf(process, sizeof process, "rank %d on %s", t->rank, process_host());
    TRY(trace_write(t->trace, t->path, t->rank, process));
    log_info("steps %lld to %lld are traced in %s", (long long)t->first + 1, (long long)t->last + 1,
             t->path);
    return OK;
}

void tracing_main(Tracing *t, const char *name, int64_t number, double start_s)
{
    if (t) trace_add(t->trace, t->main_lane, name, number, start_s, clock_s());
}

void tracing_copy(Tracing *t, const char *name, int64_t number, double start_s)
{
    if (t) trace_add(t->trace, t->lanes[LANE_COPY], name, number, start_s, clock_s());
}

const ItemTimes *tracing_items(Tracing *t, const Program *p, TimelineRun run)
{
    if (!t || !trace_on(t->trace)) return NULL;
    int count = program_timeline(p, run)->count;
    if (count > t->times_capacity) {
        double *times = mem_realloc(t->times.start_s, 2 * (size_t)count * sizeof *times);
        if (!times) return NULL;
        t->times = (ItemTimes){ times, times + count };
        t->times_capacity = count;
    }
    memset(t->times.start_s, 0, 2 * (size_t)t->times_capacity * sizeof(double));
    return &t->times;
}

/* Whether an item takes time: a bucket is only announced to the host. */
static bool takes_time(const Timeline *t, const TimelineItem *item, bool device)
{
    if (item->kind == TIMELINE_SUM && t->sums[item->index].of == SUM_GRADS) return device;
    return item->kind != TIMELINE_RECORD && item->kind != TIMELINE_WAIT;
}

/* Of a bucket, or of a node whose norm is summed. */
static int64_t number_of(const Timeline *t, const TimelineItem *item)
{
    if (item->kind == TIMELINE_SUM || item->kind == TIMELINE_AWAIT)
        return t->sums[item->index].index;
    const bool bucket = item->kind == TIMELINE_OP && step_of_bucket(&t->ops[item->index]);
    return bucket ? t->ops[item->index].bucket : TRACE_NO_NUMBER;
}

Status tracing_add_items(Tracing *t, const Program *p, TimelineRun run, int from, int to)
{
    if (!t || !trace_on(t->trace)) return OK;
    const bool device = executor_backend(t->executor)->v->device != NULL;
    const Timeline *line = program_timeline(p, run);
    for (int i = from; i < to; i++) {
        const TimelineItem *item = &line->items[i];
        if (!takes_time(line, item, device) || t->times.start_s[i] <= 0) continue;
        trace_add(t->trace, t->lanes[item->lane], timeline_item_name(line, program_graph(p), i),
                  number_of(line, item), t->times.start_s[i], t->times.end_s[i]);
    }
    return OK;
}

void tracing_add_jobs(Tracing *t, const Reducer *r)
{
    if (!t || !trace_on(t->trace)) return;
    for (int i = 0; i < reducer_jobs(r); i++) {
        const CommJob *job = reducer_job(r, i);
        if (job->count > 0)
            trace_add(t->trace, t->comm_lane, job->name, TRACE_NO_NUMBER, job->started_s,
                      job->finished_s);
    }
}
