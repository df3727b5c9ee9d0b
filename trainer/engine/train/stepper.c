/* stepper.c - the life of a training step.
 *
 *   wait for a batch slot     the decode threads filled it while the step before trained; on a
 *                             device its copy ran beside that step (prefetch.h)
 *   forward, loss, backward   bucket k of the gradients is summed over the ranks as soon as its
 *                             last gradient is complete, while those of earlier layers are computed
 *   (accumulation: the two above once per micro-batch; only the last one announces buckets)
 *   (sharpness.h: the two above and a move of the parameters come before, as a pass of their own)
 *   statistics and metrics    running statistics and the step's sums follow the last bucket
 *   norm of all gradients     where it clips or is logged; then all buckets come before the first
 *                             update
 *   update, bucket by bucket  bucket 0 is updated while the last ones are still under way
 *   averaged copies           of parameters and statistics, behind all that changes them
 *
 * RUNNING AHEAD. A device may be given step N+1 before step N is done, so that it never waits for
 * the host: stepper_issue() enqueues, stepper_finish() waits for the oldest step and tells its
 * result. Everything that looks at the state between two steps (evaluation, checkpoints) must
 * finish the last one first.
 *
 * WHO SUMS (timeline.h). Host memory: the communication thread, in place, while the issuing thread
 * computes. Device, one rank: nobody. Device with NCCL: the device itself, inside the timeline that
 * ends with the updates. Device without: the communication thread, in a pinned copy
 * (host_reduce.h). Metrics are always summed by the host.
 *
 * Every loss gradient carries the factor 1 / global batch, or of masked words 1 / their number in
 * the global batch, which is arithmetic (sequences.h). So the sum over ranks is the gradient of the
 * mean loss whatever the slices. Batch norm over ranks (model.bn: sync) sums within forward and
 * backward, in every micro-batch: by the communication thread, for whom the issuing thread waits,
 * or by the device.
 * A rank that fails inside the step (its data, its disk) still
 * takes part in every reduction, with whatever its slabs hold, and says so in the metrics: all
 * ranks learn of it at the same point, and none hangs. What they hold then is not used any more. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/train/stepper_internal.h"
#include <math.h>

/* ---- finishing ---- */

static Status finish_backward(Stepper *s)
{
    Session *session = s->session;
    TRY(stepper_hand_over(s));
    TRY(prefetch_wait(session->train_input));
    if (session->backend->v->device && tracing_has(s->tracing, s->flight->result.step))
        TRY(stepper_trace_run(s, stepper_last_program(s), s->flight->run));
    if (!s->sum.host || !s->statistics_mean.wanted) return OK;
    const SumRange *statistics = &stepper_timeline(s)->sums[s->buckets.count];
    TRY(host_reduce_fetch(s->sum.host, statistics, executor_stream(session->executor)));
    return host_reduce_wait(s->sum.host, statistics);
}

static void add_results(Stepper *s)
{
    const Flight *f = s->flight;
    for (int i = 0; i < TOTAL_COUNT; i++) s->totals[i] = f->totals[i];
    for (int64_t micro = 0; micro < f->issued; micro++) {
        const double *stats = executor_result(s->session->executor, f->first_result + (int)micro);
        s->totals[TOTAL_LOSS_SUM] += stats[STATS_LOSS_SUM];
        s->totals[TOTAL_WEIGHT] += stats[STATS_IMAGES];
    }
    s->flight->result.diverged_here = !isfinite(s->totals[TOTAL_LOSS_SUM]);
    s->totals[TOTAL_STOP] = signals_stop_requested();
    s->totals[TOTAL_FAILED] = f->result.own_status != OK;
}

static void apply(Stepper *s)
{
    if (s->sum.by == TIMELINE_REDUCE_HOST) stepper_must(s, stepper_issue_rest(s, s->flight->run));
    else reducer_wait_rest(s->sum.reducer, &s->flight->result.comm_wait_s);
}

StepResult stepper_finish(Stepper *s)
{
    ASSERT(s->flights.finished < s->flights.issued);
    Flight *f = s->flight = &s->flights.list[s->flights.finished % FLIGHTS];
    StepResult *r = &f->result;
    stepper_must(s, finish_backward(s));
    if (s->sum.by != TIMELINE_REDUCE_HOST) reducer_begin(s->sum.reducer);
    add_results(s);
    reducer_backward_done(s->sum.reducer);
    double start_s = clock_s();
    apply(s);
    tracing_main(s->tracing, "wait for sums and update", TRACE_NO_NUMBER, start_s);
    tracing_add_jobs(s->tracing, s->sum.reducer);
    if (s->sum.first && f->run == TIMELINE_SECOND_PASS) tracing_add_jobs(s->tracing, s->sum.first);
    r->optimizer = optimizer_take_result(s->optimizer, stepper_flight_number(s));
    r->unmasked = config_is_masked(s->session->config) && r->masked == 0;
    r->loss = s->totals[TOTAL_LOSS_SUM] / s->totals[TOTAL_WEIGHT];
    r->replaced = (int64_t)s->totals[TOTAL_REPLACED];
    r->stop = s->totals[TOTAL_STOP] > 0;
    r->failed = s->totals[TOTAL_FAILED] > 0;
    /* With another step under way this one began to count when the one before ended. */
    double now = clock_s(),
           begin = f->start_s > s->flights.finished_s ? f->start_s : s->flights.finished_s;
    r->seconds = now - begin;
    s->flights.finished_s = now;
    s->flights.finished++;
    return *r;
}

StepResult stepper_run(Stepper *s, int64_t step, Status pending, double *item_seconds)
{
    s->item_seconds = item_seconds;
    stepper_issue(s, step, pending);
    StepResult r = stepper_finish(s);
    s->item_seconds = NULL;
    return r;
}

bool stepper_runs_ahead(const Stepper *s)
{
    /* skipped steps do not count in averages either */
    const bool counts = optimizer_loss_scale(s->optimizer) && averages_any(s->averages);
    return s->sum.by != TIMELINE_REDUCE_HOST && !counts && !optimizer_awaits_result(s->optimizer);
}

/* ---- life ---- */

static Status prepare_average(Stepper *s)
{
    Executor *x = s->session->executor;
    size_t bytes = executor_slab_bytes(x, SLAB_BUFFER);
    /* where all ranks share their statistics the running ones are the same on all */
    s->statistics_mean.wanted = bytes > 0 && s->session->config->model.bn != BN_CHOICE_FROZEN &&
                                s->bn_ranks < s->session->comm->world;
    if (!s->statistics_mean.wanted) return OK;
    s->statistics_mean.attr.factor = 1.0f / (float)s->session->comm->world;
    s->statistics_mean.op = (OpInstance){ .kind = OP_SCALE,
                                          .backend = s->session->backend,
                                          .attr = &s->statistics_mean.attr };
    s->statistics_mean.op.in[SCALE_IN_X] = s->statistics_mean.op.out[SCALE_OUT_Y] =
        backend_flat(executor_slab(x, SLAB_BUFFER), bytes);
    const StepOp step = { .name = "mean of running statistics",
                          .owner = s,
                          .when = STEP_STATISTICS,
                          .need = STEP_NEEDS_NOTHING,
                          .runs = STEP_IN_LAST,
                          .op = &s->statistics_mean.op };
    TRY(backend_ready_op(&s->statistics_mean.op));
    return executor_add_step(x, &step);
}

static TimelineReduce choose_reduce(const Session *session)
{
    static const TimelineReduce by_transport[] = { [DEVICE_COMM_SELF] = TIMELINE_REDUCE_NONE,
                                                   [DEVICE_COMM_NCCL] = TIMELINE_REDUCE_DEVICE,
                                                   [DEVICE_COMM_STAGED] = TIMELINE_REDUCE_HOST };
    return session->device_comm ? by_transport[device_comm_transport(session->device_comm)]
                                : TIMELINE_REDUCE_HOST;
}

/* Gradients lie in one slab whatever the program, but each has its own nodes that complete them. */
static Status plan_stage(Stepper *s, Program *last, size_t cap, size_t first_cap)
{
    const TimelineRun most = s->sharpness ? TIMELINE_SECOND_PASS : TIMELINE_STEP;
    TimelineOptions o = { .reduce = s->sum.by, .statistics = s->statistics_mean.wanted };
    Bucket *buckets = NULL;
    TRY(plan_buckets(program_plan(last), program_graph(last), cap, first_cap, &buckets,
                     &o.bucket_count));
    o.buckets = buckets;
    ASSERT(o.bucket_count == s->buckets.count);
    for (int k = 0; k < s->buckets.count; k++)
        ASSERT(buckets[k].offset == s->buckets.list[k].offset &&
               buckets[k].bytes == s->buckets.list[k].bytes);
    Status status = OK;
    for (int run = TIMELINE_STEP; run <= (int)most && status == OK; run++) {
        o.step = (TimelineRun)run;
        status = executor_plan_step(s->session->executor, last, &o);
    }
    mem_free(buckets);
    return status;
}

static Status plan_steps(Stepper *s, size_t cap, size_t first_cap)
{
    const Session *session = s->session;
    int64_t least, most;
    train_plan_micros(&session->plan, &least, &most);
    for (int i = 0; i < session->stages; i++) {
        if (most > 1) TRY(plan_stage(s, session->stage_more[i], cap, first_cap));
        if (least == 1) TRY(plan_stage(s, session->stage_first[i], cap, first_cap));
    }
    return OK;
}

/* What the host sums lies here: in memory that it can reach, or where that is staged. */
static void *host_memory(const Stepper *s, Slab slab)
{
    return s->sum.host ? host_reduce_memory(s->sum.host, slab)
                       : executor_slab(s->session->executor, slab);
}

/* Of a device that sums by itself the host sums only the totals; a first pass has none. */
static Status create_reducers(Stepper *s)
{
    const bool host = s->sum.by == TIMELINE_REDUCE_HOST;
    ReducerOptions o = { .buckets = s->buckets.list,
                         .bucket_count = host ? s->buckets.count : 0,
                         .grads = host_memory(s, SLAB_GRAD) };
    if (host && s->sharpness) TRY(reducer_create(&s->sum.first, s->session->comm, &o));
    o.buffers = host_memory(s, SLAB_BUFFER);
    if (host && s->statistics_mean.wanted)
        o.buffer_bytes = executor_slab_bytes(s->session->executor, SLAB_BUFFER);
    o.metrics = s->totals;
    o.metric_count = TOTAL_COUNT;
    TRY(reducer_create(&s->sum.reducer, s->session->comm, &o));
    s->sum.at_hand = s->sum.reducer;
    return OK;
}

static Status alloc_sums(Stepper *s, size_t bytes)
{
    const Session *session = s->session;
    if (session_sums_registered(session))
        return device_comm_alloc(session->device_comm, bytes, &s->sum.grads);
    return session->backend->v->alloc(session->backend, bytes, &s->sum.grads);
}

static Status fill_stepper(Stepper *s)
{
    Session *session = s->session;
    const Config *c = session->config;
    Executor *x = session->executor;
    Program *last = stepper_last_program(s);
    size_t cap, first;
    s->sum.by = choose_reduce(session);
    s->sum.over_ranks = (Sums){ stepper_start_sum, stepper_await_sum, NULL, s };
    if (s->sum.by == TIMELINE_REDUCE_DEVICE) s->sum.over_ranks.agree = stepper_agree_on_recording;
    s->bn_ranks = session_bn_ranks(session);
    reducer_caps(executor_slab_bytes(x, SLAB_GRAD), c->comm.bucket_mb, c->comm.first_bucket_mb,
                 &cap, &first);
    /* Without sums nobody waits for a piece of the gradients. A norm keeps them apart: the order in
     * which it is summed is theirs. */
    if (s->sum.by == TIMELINE_REDUCE_NONE && !optimizer_needs_norm(c) && !sharpness_wanted(c))
        cap = first = executor_slab_bytes(x, SLAB_GRAD);
    TRY(plan_buckets(program_plan(last), program_graph(last), cap, first, &s->buckets.list,
                     &s->buckets.count));
    TRY(optimizer_create(&s->optimizer, x, session->backend, c, s->buckets.list, s->buckets.count));
    if (sharpness_wanted(c))
        TRY(sharpness_create(&s->sharpness, x, c, optimizer_squares(s->optimizer)));
    TRY(averages_create(&s->averages, x, c, &session->plan));
    TRY(prepare_average(s));
    if (session->device_comm && s->sum.by == TIMELINE_REDUCE_HOST)
        TRY(host_reduce_create(&s->sum.host, x, s->buckets.count));
    s->sum.type = session_allreduce_dtype(session);
    size_t sum_bytes = session_allreduce_bytes(session, executor_slab_bytes(x, SLAB_GRAD));
    if (sum_bytes > 0) TRY(alloc_sums(s, sum_bytes));
    const Graph *g = program_graph(last);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        s->drops = s->drops || n->kind == OP_DROP ||
                   (n->kind == OP_ATTENTION && n->in[ATTENTION_IN_SCALARS] != TENSOR_NONE);
    }
    TRY(plan_steps(s, cap, first));
    return create_reducers(s);
}

Status stepper_create(Stepper **out, Session *session)
{
    Stepper *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->session = session;
    s->lr_factor = 1;
    s->schedule = schedule_from_config(session->config, &session->plan, session->comm->world);
    Status status = fill_stepper(s);
    if (status != OK) {
        stepper_destroy(s);
        *out = NULL;
    }
    return status;
}

void stepper_destroy(Stepper *s)
{
    if (!s) return;
    /* an error elsewhere ended the run */
    if (s->flights.finished < s->flights.issued) (void)executor_wait(s->session->executor);
    if (s->session->device_comm) device_comm_watch(s->session->device_comm, NULL, NULL);
    (void)prefetch_attach(s->session->train_input, NULL);
    prefetch_trace(s->session->train_input, NULL, "");
    executor_remove_steps(s->session->executor, s);
    reducer_destroy(s->sum.reducer);
    reducer_destroy(s->sum.first);
    host_reduce_destroy(s->sum.host);
    sharpness_destroy(s->sharpness);
    optimizer_destroy(s->optimizer);
    averages_destroy(s->averages);
    if (s->sum.grads && !session_sums_registered(s->session))
        s->session->backend->v->free(s->session->backend, s->sum.grads);
    backend_release_op(&s->statistics_mean.op);
    mem_free(s->buckets.list);
    mem_free(s);
}

void stepper_set_step_offset(Stepper *s, int64_t count)
{
    s->step_offset = count;
}

void stepper_set_lr_factor(Stepper *s, double factor)
{
    s->lr_factor = factor;
}

void stepper_set_tracing(Stepper *s, Tracing *tracing)
{
    s->tracing = tracing;
    prefetch_trace(s->session->train_input, tracing_trace(tracing), "copy");
}

Status stepper_set_loader(Stepper *s, Loader *loader)
{
    return prefetch_attach(s->session->train_input, loader);
}
Optimizer *stepper_optimizer(const Stepper *s)
{
    return s->optimizer;
}
Averages *stepper_averages(const Stepper *s)
{
    return s->averages;
}
const Reducer *stepper_reducer(const Stepper *s)
{
    return s->sum.reducer;
}
