/* executor_run.c - runs: walking a timeline, or launching a capture of it.
 *
 * CAPTURE holds what a run enqueues up to Timeline.replayable. What changes from run to run stays
 * outside of it and is enqueued around it: records before, the copy of the results behind.
 * The addresses of the inputs are part of it, so there is one capture for each input slot. Where it
 * fails (a library's engine allocates, the device has no room for the graph) the run that was to be
 * captured is walked, and so is every later one of the program: with the same results. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/exec/executor_internal.h"
#include <stdio.h>
#include <string.h>

static const DeviceVTable *device_of(const Executor *x)
{
    return x->backend->v->device;
}

/* ---- items ---- */

static Status run_node(Executor *x, Program *p, int node, Stream *lane)
{
    OpInstance *op = &p->nodes[node];
    Status status = x->backend->v->ops[op->kind]->run(op, lane);
    return status == OK ? OK : fail_note(status, "%s", graph_node(p->graph, node)->name);
}

/* Behind what the compute lane was given so far. */
static Status copy_to_host(Executor *x, void *host, const void *data, size_t bytes)
{
    const DeviceVTable *d = device_of(x);
    if (d) return d->copy_out(x->backend, host, data, bytes, x->lanes[LANE_COMPUTE]);
    memcpy(host, data, bytes);
    return OK;
}

Status executor_copy(Executor *x, void *to, const void *from, size_t bytes, Stream *stream)
{
    const DeviceVTable *d = device_of(x);
    if (d && bytes > 0)
        return d->cast(x->backend, from, DTYPE_F32, to, DTYPE_F32, (int64_t)(bytes / sizeof(float)),
                       stream);
    if (bytes > 0) memcpy(to, from, bytes);
    return OK;
}

Status executor_run_step(Executor *x, const StepOp *op, int result, Stream *stream)
{
    const DeviceVTable *d = device_of(x);
    if (op->op) return x->backend->v->ops[op->op->kind]->run(op->op, stream);
    if (op->when == STEP_RESULT)
        return copy_to_host(x, (char *)op->copy.to + (size_t)result * op->copy.stride,
                            op->copy.from, op->copy.bytes);
    TRY(executor_copy(x, op->copy.to, op->copy.from, op->copy.bytes, stream));
    return d && op->copy.to == x->slabs[SLAB_PARAM] ? d->params_changed(x->backend, stream) : OK;
}

static bool has_turn(const StepOp *op, const RunOptions *o)
{
    const bool by_need[] = {
        [STEP_NEEDS_HEALTH] = !o->failed, [STEP_NEEDS_FIRST] = o->moved, [STEP_NEEDS_NOTHING] = true
    };
    return by_need[op->need];
}

static Status start_sum(const Program *p, const SumRange *r, Stream *lane, const Sums *sums)
{
    const OpTensor *tensor = r->tensor == TENSOR_NONE ? NULL : program_tensor(p, r->tensor);
    ASSERT(sums);
    return sums->start(sums->cookie, r, tensor, lane);
}

static Status copy_result(Executor *x, Program *p, const RunOptions *o)
{
    p->result = x->results[o->result];
    if (o->step == TIMELINE_SECOND_PASS) return OK;
    return copy_to_host(x, x->results[o->result], p->stats, sizeof *x->results);
}

static Status run_item(Executor *x, Program *p, const Timeline *t, int index, Stream *lane,
                       const RunOptions *o)
{
    const DeviceVTable *d = device_of(x);
    const TimelineItem *item = &t->items[index];
    switch (item->kind) {
    case TIMELINE_NODE:
        return run_node(x, p, item->index, lane);
    case TIMELINE_OP:
        return has_turn(&t->ops[item->index], o)
                   ? executor_run_step(x, &t->ops[item->index], o->step_result, lane)
                   : OK;
    case TIMELINE_RECORD:
        return d ? d->event_record(x->backend, x->events.list[item->index], lane) : OK;
    case TIMELINE_WAIT:
        return d ? d->event_wait(x->backend, x->events.list[item->index], lane) : OK;
    case TIMELINE_SUM:
        return start_sum(p, &t->sums[item->index], lane, o->sums);
    case TIMELINE_AWAIT:
        return o->sums->await(o->sums->cookie, &t->sums[item->index], lane);
    case TIMELINE_RESULT:
        break;
    }
    return copy_result(x, p, o);
}

/* ---- times ---- */

Status executor_reserve(Executor *x, EventList *l, int count,
                        Status (*create)(Backend *b, Event **out))
{
    if (count <= l->count) return OK;
    Event **list = mem_realloc(l->list, (size_t)count * sizeof *list);
    if (!list) return ERR_MEMORY;
    for (l->list = list; l->count < count; l->count++) TRY(create(x->backend, &l->list[l->count]));
    return OK;
}

static bool wants_times(const RunOptions *o)
{
    return o->item_seconds || o->item_times;
}

static bool has_times(const Executor *x)
{
    return x->timed_into || x->timed_when.start_s;
}

/* Times of the run before are read before its timers are used again. */
static Status begin_times(Executor *x, const Timeline *t, int from, const RunOptions *o)
{
    if (has_times(x)) TRY(executor_wait(x));
    if (!wants_times(o) || !device_of(x)) return OK;
    TRY(executor_reserve(x, &x->timers, 2 * t->count, device_of(x)->timer_create));
    x->timed_into = o->item_seconds;
    if (o->item_times) x->timed_when = *o->item_times;
    x->timed_from = x->timed_items = from;
    return OK;
}

Status executor_time_origin(Executor *x)
{
    const DeviceVTable *d = device_of(x);
    if (!d) return OK;
    if (!x->origin) TRY(d->timer_create(x->backend, &x->origin));
    TRY(executor_wait(x));
    TRY(d->event_record(x->backend, x->origin, x->lanes[LANE_COMPUTE]));
    TRY(executor_wait(x));
    x->origin_s = clock_s();
    return OK;
}

Status executor_event_time(Executor *x, Event *event, double *time_s)
{
    double seconds = 0;
    TRY(device_of(x)->timer_seconds(x->backend, x->origin, event, &seconds));
    *time_s = x->origin_s + seconds;
    return OK;
}

/* What the host has to wait for by itself (copies of buckets that it sums) runs on lanes that no
 * event joins. */
static Status wait_for_all_lanes(Executor *x)
{
    for (int l = 0; l < LANE_COUNT; l++)
        if (x->lanes[l]) TRY(x->backend->v->stream_wait(x->backend, x->lanes[l]));
    return OK;
}

static Status read_times(Executor *x)
{
    double seconds = 0;
    if (has_times(x)) TRY(wait_for_all_lanes(x));
    for (int i = x->timed_from; has_times(x) && i < x->timed_items; i++) {
        Event *start = x->timers.list[2 * i], *end = x->timers.list[2 * i + 1];
        if (x->timed_into) {
            TRY(device_of(x)->timer_seconds(x->backend, start, end, &seconds));
            x->timed_into[i] += seconds;
        } else {
            TRY(executor_event_time(x, start, &x->timed_when.start_s[i]));
            TRY(executor_event_time(x, end, &x->timed_when.end_s[i]));
        }
    }
    x->timed_into = NULL;
    x->timed_when = (ItemTimes){ NULL, NULL };
    return OK;
}

static Status time_item(Executor *x, Program *p, const Timeline *t, int index, Stream *lane,
                        const RunOptions *o)
{
    const DeviceVTable *d = device_of(x);
    double start = clock_s();
    const TimelineItem *item = &t->items[index];
    if (d) TRY(d->event_record(x->backend, x->timers.list[2 * index], lane));
    if (d) d->range(item->kind == TIMELINE_NODE ? graph_node(p->graph, item->index)->name : "step");
    const Status status = run_item(x, p, t, index, lane, o);
    if (d) d->range(NULL);
    TRY(status);
    x->timed_items = index + 1;
    if (d) return d->event_record(x->backend, x->timers.list[2 * index + 1], lane);
    double end = clock_s();
    if (o->item_seconds) o->item_seconds[index] += end - start;
    if (o->item_times) o->item_times->start_s[index] = start;
    if (o->item_times) o->item_times->end_s[index] = end;
    return OK;
}

static Status walk(Executor *x, Program *p, const Timeline *t, int from, int to,
                   const RunOptions *o)
{
    for (int i = from; i < to; i++) {
        Lane lane = t->items[i].lane;
        /* side by side, each would be timed with the other in its way */
        if (o->item_seconds && lane == LANE_WEIGHTS) lane = LANE_COMPUTE;
        if (wants_times(o)) TRY(time_item(x, p, t, i, x->lanes[lane], o));
        else TRY(run_item(x, p, t, i, x->lanes[lane], o));
    }
    return OK;
}

/* ---- captures ---- */

/* Where this run may be replayed from; NULL: it is walked. */
static Recording *recording_of(const Executor *x, Program *p, const Timeline *t,
                               const RunOptions *o)
{
    bool possible = device_of(x) && x->options.replay && !p->unrecordable[o->step] &&
                    t->replayable > 0 && o->block && !wants_times(o);
    return possible ? &p->recordings[o->slot][o->step] : NULL;
}

/* The walk of a capture, or of its rehearsal, which leaves out sums over ranks. What spoils it is
 * found behind each item: the next may be a sum of the communication library, which does not
 * survive an error. */
static Status walk_captured(Executor *x, Program *p, const Timeline *t, const RunOptions *o,
                            bool rehearsal)
{
    for (int i = 0; i < t->replayable; i++) {
        const TimelineItem *item = &t->items[i];
        if (rehearsal && item->kind == TIMELINE_SUM) continue;
        TRY(run_item(x, p, t, i, x->lanes[item->lane], o));
        const Status st = device_of(x)->capture_check(x->backend, x->lanes[LANE_COMPUTE]);
        if (st == OK) continue;
        return fail_note(st, "%s", timeline_item_name(t, p->graph, i));
    }
    return OK;
}

/* A capture that was begun must be ended, whatever happened in between. */
static Status capture(Executor *x, Program *p, const Timeline *t, const RunOptions *o,
                      bool rehearsal, Recording *r)
{
    const DeviceVTable *d = device_of(x);
    char sentence[1024];
    TRY(d->capture_begin(x->backend, x->lanes[LANE_COMPUTE]));
    Status walked = walk_captured(x, p, t, o, rehearsal);
    /* the first error counts: ending a broken capture may fail too, with a sentence of its own */
    snprintf(sentence, sizeof sentence, "%s", status_message());
    Status ended = d->capture_end(x->backend, x->lanes[LANE_COMPUTE], &r->replay);
    if (walked != OK) return fail(walked, "%s", sentence);
    r->block = o->block;
    return ended;
}

static void drop_replay(Executor *x, Recording *r)
{
    if (r->replay) device_of(x)->replay_destroy(x->backend, r->replay);
    r->replay = NULL;
}

/* Sums may wait for the other ranks while they are captured (NCCL registers memory with them), so
 * no rank begins that before all have captured the rest. */
static Status capture_agreed(Executor *x, Program *p, const Timeline *t, const RunOptions *o,
                             Recording *r)
{
    const Sums *sums = o->sums;
    Status st = sums->agree(sums->cookie, capture(x, p, t, o, true, r));
    drop_replay(x, r);
    return st == OK ? sums->agree(sums->cookie, capture(x, p, t, o, false, r)) : st;
}

/* Leaves r->replay NULL, and runs of this kind to be walked, where this one cannot be recorded.
 * What all ranks agreed on is said once. */
static void record(Executor *x, Program *p, const Timeline *t, const RunOptions *o, Recording *r)
{
    const bool agree = o->sums && o->sums->agree && timeline_has_sums(t);
    const Status st = agree ? capture_agreed(x, p, t, o, r) : capture(x, p, t, o, false, r);
    if (st == OK) return;
    (agree ? log_warning
           : log_warning_here)("%s cannot be recorded as a CUDA graph (device.cuda_graph), so its "
                               "kernels are launched one by one: %s",
                               o->step ? "a training step" : "a batch", status_message());
    drop_replay(x, r);
    p->unrecordable[o->step] = true;
}

void executor_forget_recordings(Program *p)
{
    for (int i = 0; i < PROGRAM_SLOTS * TIMELINE_RUN_COUNT; i++) {
        Recording *r = &p->recordings[i / TIMELINE_RUN_COUNT][i % TIMELINE_RUN_COUNT];
        drop_replay(p->executor, r);
        *r = (Recording){ 0 };
    }
}

/* ---- runs ---- */

bool executor_run_brings(const char *input)
{
    static const char *const brought[] = { "images", "labels", "targets", "erase", "mix",     "ids",
                                           "where",  "starts", "order",   "rows",  "segments" };
    for (size_t i = 0; i < sizeof brought / sizeof brought[0]; i++)
        if (strcmp(brought[i], input) == 0) return true;
    return false;
}

static Status set_inputs(Program *p, const RunOptions *o)
{
    for (int i = 0; o->block && i < o->layout->count; i++) {
        const BatchField *field = &o->layout->fields[i];
        const TensorId id = graph_input(p->graph, field->name);
        if (id == TENSOR_NONE) continue;
        /* of a text the program may read less: places behind are nobody's */
        ASSERT(field->bytes >= tensor_plain_bytes(&p->tensors[id].desc));
        TRY(program_set_input(p, field->name, (const char *)o->block + field->offset));
    }
    return OK;
}

static Status issue_replayable(Executor *x, Program *p, const Timeline *t, const RunOptions *o)
{
    Recording *r = recording_of(x, p, t, o);
    if (!r || !r->replay) TRY(set_inputs(p, o));
    /* The first run is ordinary: libraries load what they need when it is first used. */
    if (r && !r->replay && r->runs++ > 0) record(x, p, t, o, r);
    if (!r || !r->replay) return walk(x, p, t, 0, t->replayable, o);
    ASSERT(r->block == o->block);
    return device_of(x)->replay(x->backend, r->replay, x->lanes[LANE_COMPUTE]);
}

static const RunOptions *options_or_default(const RunOptions *o)
{
    static const RunOptions none = { 0 };
    return o ? o : &none;
}

Status executor_issue(Executor *x, Program *p, const RunOptions *options)
{
    const RunOptions *o = options_or_default(options);
    const Timeline *t = p->timelines[o->step];
    ASSERT(t && o->slot < PROGRAM_SLOTS && o->result < x->options.results);
    TRY(begin_times(x, t, 0, o));
    TRY(issue_replayable(x, p, t, o));
    return walk(x, p, t, t->replayable, t->backward_end, o);
}

Status executor_issue_rest(Executor *x, Program *p, const RunOptions *options)
{
    const RunOptions *o = options_or_default(options);
    const Timeline *t = p->timelines[o->step];
    TRY(begin_times(x, t, t->backward_end, o));
    return walk(x, p, t, t->backward_end, t->count, o);
}

Status executor_wait(Executor *x)
{
    TRY(x->backend->v->stream_wait(x->backend, x->lanes[LANE_COMPUTE]));
    return read_times(x);
}

Status executor_run(Executor *x, Program *p, const RunOptions *o)
{
    TRY(executor_issue(x, p, o));
    return executor_wait(x);
}

const double *executor_result(const Executor *x, int result)
{
    return x->results[result];
}
