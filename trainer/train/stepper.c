/* stepper.c - the life of a training step.
 *
 *   wait for a batch slot     the decode threads filled it while the step before trained; on a
 *                             device its copy ran beside that step (prefetch.h)
 *   forward, loss, backward   bucket k of the gradients is summed over the ranks as soon as its
 *                             last gradient is complete, while those of earlier layers are computed
 *   (accumulation: the two above once per micro-batch; only the last one announces buckets)
 *   statistics and metrics    running statistics and the step's sums follow the last bucket
 *   norm of all gradients     where it clips or is logged; then all buckets come before the first
 *                             update
 *   update, bucket by bucket  bucket 0 is updated while the last ones are still under way
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
 * Every loss gradient carries the factor 1 / global batch, so the sum over ranks is the gradient of
 * the mean loss whatever the slices. A rank that fails inside the step (its data, its disk) still
 * takes part in every reduction, with whatever its slabs hold, and says so in the metrics: all
 * ranks learn of it at the same point, and none hangs. What they hold then is not used any more. */
#include "trainer/train/stepper.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/guard/signals.h"
#include "trainer/train/host_reduce.h"
#include <math.h>
#include <stdio.h>

enum {
    METRIC_LOSS_SUM,
    METRIC_TOP1,
    METRIC_TOP5,
    METRIC_IMAGES,
    METRIC_REPLACED,
    METRIC_STOP,
    METRIC_FAILED,
    METRIC_COUNT
};

enum { NAME_BYTES = 24, FLIGHTS = SESSION_STEPS_MAX };
_Static_assert(FLIGHTS <= OPTIMIZER_RESULTS, "a result for each step under way");

typedef struct Flight { /* a step from issue to finish */
    StepResult result;
    double start_s;
    double metrics[METRIC_COUNT]; /* what is known before the device is done */
    int64_t issued;               /* micro-batches */
    int first_result;             /* of the executor's */
} Flight;

struct Stepper {
    Session *session;
    Schedule schedule;
    Optimizer *optimizer;
    Tracing *tracing;
    double *item_seconds;
    double metrics[METRIC_COUNT];
    double lr_factor;
    int64_t step_offset; /* updates done beyond the step number: before the global batch changed */
    bool drops;          /* the network draws: every micro-batch at its own address */
    struct {
        Bucket *list;
        char (*names)[NAME_BYTES]; /* for the watchdog */
        int count;
    } buckets;
    struct { /* over ranks */
        TimelineReduce by;
        Reducer *reducer; /* metrics; where the host sums, buckets and running statistics too */
        HostReduce *host; /* NULL unless the host sums a device's gradients */
        DType type;       /* the device sums: in this type */
        void *grads;      /* gradients in that type, at the same indices; NULL for f32 */
    } sum;
    struct { /* running statistics: sum over ranks -> mean */
        bool wanted;
        OpInstance op;
        ScaleAttr attr;
    } average;
    struct {
        Flight list[FLIGHTS];
        int64_t issued, finished; /* steps */
        double finished_s;        /* when the last one was */
    } flights;
    Flight *flight; /* the one at hand */
};

/* Of the flight at hand. */
static int flight_number(const Stepper *s)
{
    return (int)(s->flight - s->flights.list);
}

static Program *last_program(const Stepper *s)
{
    return s->session->more ? s->session->more : s->session->first;
}

/* ---- what the timeline leaves to the step ---- */

static Status start_sum(Stepper *s, int bucket, Stream *stream)
{
    const Bucket *b = &s->buckets.list[bucket];
    if (s->sum.host) return host_reduce_fetch(s->sum.host, bucket, stream);
    if (s->sum.by == TIMELINE_REDUCE_HOST) {
        reducer_ready(s->sum.reducer, bucket);
        return OK;
    }
    const size_t first = b->offset / sizeof(float), count = b->bytes / sizeof(float);
    float *grads = (float *)executor_slab(s->session->executor, SLAB_GRAD) + first;
    char *sums = s->sum.grads ? (char *)s->sum.grads + first * dtype_bytes(s->sum.type) : NULL;
    return device_comm_allreduce_as(s->session->device_comm, grads, count, s->sum.type, sums,
                                    stream, s->buckets.names[bucket]);
}

static Status await_sum(Stepper *s, int bucket, Stream *stream)
{
    reducer_wait_bucket(s->sum.reducer, bucket, &s->flight->result.comm_wait_s);
    return s->sum.host ? host_reduce_return(s->sum.host, bucket, stream) : OK;
}

static Status await_rest(Stepper *s, Stream *stream)
{
    reducer_wait_rest(s->sum.reducer, &s->flight->result.comm_wait_s);
    return s->sum.host && s->average.wanted ? host_reduce_return_buffers(s->sum.host, stream) : OK;
}

static Status sum_statistics(Stepper *s, Stream *stream)
{
    Executor *x = s->session->executor;
    return device_comm_allreduce(s->session->device_comm, executor_slab(x, SLAB_BUFFER),
                                 executor_slab_bytes(x, SLAB_BUFFER) / sizeof(float), DTYPE_F32,
                                 stream, "running statistics");
}

/* A rank that failed waits for the others' sums and does nothing with them; neither does one whose
 * own loss is not finite: its parameters tell what has diverged. */
static Status work(void *cookie, const TimelineItem *item, Stream *stream)
{
    Stepper *s = cookie;
    const bool failed = s->flight->result.own_status != OK || s->flight->result.diverged_here;
    switch (item->kind) {
    case TIMELINE_BUCKET:
        return start_sum(s, item->index, stream);
    case TIMELINE_AWAIT:
        return await_sum(s, item->index, stream);
    case TIMELINE_STATISTICS:
        return sum_statistics(s, stream);
    case TIMELINE_REST:
        return await_rest(s, stream);
    case TIMELINE_FINITE:
        return failed ? OK : optimizer_check_finite(s->optimizer, item->index, stream);
    case TIMELINE_SQUARES:
        return failed ? OK : optimizer_sum_squares(s->optimizer, item->index, stream);
    case TIMELINE_NORM:
        return failed ? OK : optimizer_norm(s->optimizer, stream);
    case TIMELINE_UPDATE:
        return failed ? OK : optimizer_update(s->optimizer, item->index, stream);
    case TIMELINE_LOSS_SCALE:
        return failed ? OK : optimizer_update_scale(s->optimizer, stream);
    case TIMELINE_RESULT:
        return optimizer_copy_result(s->optimizer, flight_number(s));
    case TIMELINE_AVERAGE:
        return s->session->backend->v->ops[OP_SCALE]->run(&s->average.op, stream);
    case TIMELINE_NODE:
    case TIMELINE_RECORD:
    case TIMELINE_WAIT:
    case TIMELINE_KIND_COUNT:
        break;
    }
    return fail(ERR_INTERNAL, "a step cannot do %s", timeline_kind_name(item->kind));
}

/* ---- issuing ---- */

static const Program *program_of(const Stepper *s, int64_t micro)
{
    return micro == 0 ? s->session->first : s->session->more;
}

static RunOptions run_options(Stepper *s, int64_t micro, const PrefetchInput *input)
{
    const bool last = micro + 1 == s->session->plan.accumulate;
    return (RunOptions){ .slot = input->slot,
                         .images = input->images,
                         .labels = input->labels,
                         .erase = input->erase,
                         .mix = input->mix,
                         .step = last,
                         .result = s->flight->first_result + (int)micro,
                         .work = work,
                         .cookie = s,
                         .item_seconds = last ? s->item_seconds : NULL,
                         .item_times = tracing_items(s->tracing, program_of(s, micro), last) };
}

/* On host memory all of it is over. On a device the last one is waited for in stepper_finish(),
 * under the watchdog's eyes. */
static Status trace_micro_batch(Stepper *s, int64_t micro)
{
    const bool last = micro + 1 == s->session->plan.accumulate;
    const Program *p = program_of(s, micro);
    if (s->session->backend->v->device && last) return OK;
    if (s->session->backend->v->device) TRY(executor_wait(s->session->executor));
    return tracing_add_items(s->tracing, p, last, 0, program_timeline(p, last)->backward_end);
}

static Status run_micro_batch(Stepper *s, int64_t micro)
{
    Session *session = s->session;
    PrefetchInput input;
    bool more = false;
    double start_s = clock_s();
    TRY(prefetch_next(session->train_input, &input, &more, &s->flight->result.data_wait_s));
    ASSERT(more);
    tracing_main(s->tracing, "wait for data", micro, start_s);
    RunOptions o = run_options(s, micro, &input);
    s->flight->issued++;
    start_s = clock_s();
    Status status =
        executor_issue(session->executor, micro == 0 ? session->first : session->more, &o);
    if (status == OK && o.item_times) status = trace_micro_batch(s, micro);
    tracing_main(s->tracing, "forward and backward", micro, start_s);
    Status done = prefetch_done(session->train_input);
    s->flight->metrics[METRIC_REPLACED] += (double)input.bad;
    return status == OK ? done : status;
}

/* A whole number in two halves of 16 bits: a float is exact up to 2^24 only. */
static void set_halves(float *low, float *high, int64_t value)
{
    *low = (float)(value & 0xffff);
    *high = (float)(value >> 16 & 0xffff);
}

static Status set_scalars(Stepper *s, int64_t step, double lr, int64_t micro)
{
    const TrainPlan *plan = &s->session->plan;
    const int64_t share = plan->global_batch / s->session->comm->world;
    float scalars[SCALAR_COUNT];
    optimizer_scalars(s->optimizer, lr, step + 1 + s->step_offset, scalars);
    scalars[SCALAR_GRAD_SCALE] = 1.0f / (float)s->session->plan.global_batch;
    set_halves(&scalars[SCALAR_STEP_LOW], &scalars[SCALAR_STEP_HIGH], step);
    set_halves(&scalars[SCALAR_PLACE_LOW], &scalars[SCALAR_PLACE_HIGH],
               s->session->comm->rank * share + micro * plan->batch);
    return executor_set_record(s->session->executor, "scalars", scalars);
}

static Status compute(Stepper *s, Status pending)
{
    TRY(pending);
    for (int64_t micro = 0; micro < s->session->plan.accumulate; micro++) {
        if (micro == 0 || s->drops)
            TRY(set_scalars(s, s->flight->result.step, s->flight->result.lr, micro));
        TRY(run_micro_batch(s, micro));
    }
    return OK;
}

/* An error of the device here is this rank's alone and cannot be agreed on any more: it ends the
 * job. */
static void must(Stepper *s, Status status)
{
    if (status == OK) return;
    log_error("rank %d: %s", s->session->comm->rank, status_message());
    comm_abort(s->session->comm, status_exit_code(status));
}

/* The device's sums want every rank: one that failed runs the end of the step on what lies in its
 * slot. */
static void take_part(Stepper *s)
{
    const int64_t last = s->session->plan.accumulate - 1, issued = s->flight->issued;
    if (s->flight->result.own_status == OK || s->sum.by != TIMELINE_REDUCE_DEVICE) return;
    /* The last one itself failed: which of its sums are in the stream is not known. */
    if (issued > last) must(s, s->flight->result.own_status);
    PrefetchInput input = prefetch_slot(s->session->train_input, last - issued);
    RunOptions o = run_options(s, last, &input);
    must(s, executor_issue(s->session->executor, last_program(s), &o));
    prefetch_skip(s->session->train_input, last + 1 - issued);
}

static void mark(Stepper *s)
{
    Event *end;
    must(s, prefetch_mark(s->session->train_input, &end));
    if (s->session->device_comm) device_comm_watch(s->session->device_comm, end, "step");
}

void stepper_issue(Stepper *s, int64_t step, Status pending)
{
    ASSERT(s->flights.issued - s->flights.finished < FLIGHTS);
    Flight *f = s->flight = &s->flights.list[s->flights.issued % FLIGHTS];
    *f = (Flight){ .start_s = clock_s(),
                   .first_result =
                       (int)((s->flights.issued % FLIGHTS) * s->session->plan.accumulate) };
    f->result = (StepResult){ .step = step, .lr = s->lr_factor * schedule_lr(&s->schedule, step) };
    s->flights.issued++;
    comm_set_progress(s->session->comm, step, "step");
    must(s, tracing_step(s->tracing, step));
    /* Else two steps may be under way, and the reducer, which has one at a time and of it only the
     * metrics, begins in stepper_finish(). */
    if (s->sum.by == TIMELINE_REDUCE_HOST) reducer_begin(s->sum.reducer);
    f->result.own_status = compute(s, pending);
    take_part(s);
    mark(s);
}

/* ---- finishing ---- */

/* Buckets go to the communication thread as they come out of the device. */
static Status finish_backward(Stepper *s)
{
    Session *session = s->session;
    const bool failed = s->flight->result.own_status != OK;
    for (int k = 0; s->sum.host && !failed && k < s->buckets.count; k++) {
        TRY(host_reduce_wait(s->sum.host, k));
        reducer_ready(s->sum.reducer, k);
    }
    TRY(prefetch_wait(session->train_input));
    if (session->backend->v->device && tracing_has(s->tracing, s->flight->result.step)) {
        TRY(executor_wait(session->executor));
        TRY(tracing_add_items(s->tracing, last_program(s), true, 0,
                              program_timeline(last_program(s), true)->backward_end));
    }
    if (s->sum.host && s->average.wanted)
        TRY(host_reduce_fetch_buffers(s->sum.host, executor_stream(session->executor)));
    return OK;
}

static void add_results(Stepper *s)
{
    const Flight *f = s->flight;
    for (int i = 0; i < METRIC_COUNT; i++) s->metrics[i] = f->metrics[i];
    for (int64_t micro = 0; micro < f->issued; micro++) {
        const double *stats = executor_result(s->session->executor, f->first_result + (int)micro);
        s->metrics[METRIC_LOSS_SUM] += stats[STATS_LOSS_SUM];
        s->metrics[METRIC_TOP1] += stats[STATS_TOP1];
        s->metrics[METRIC_TOP5] += stats[STATS_TOP5];
        s->metrics[METRIC_IMAGES] += stats[STATS_IMAGES];
    }
    s->flight->result.diverged_here = !isfinite(s->metrics[METRIC_LOSS_SUM]);
    s->metrics[METRIC_STOP] = signals_stop_requested();
    s->metrics[METRIC_FAILED] = f->result.own_status != OK;
}

static void apply(Stepper *s)
{
    Executor *x = s->session->executor;
    const int last = s->flight->first_result + (int)s->session->plan.accumulate - 1;
    const Timeline *line = program_timeline(last_program(s), true);
    const RunOptions o = { .step = true,
                           .result = last,
                           .work = work,
                           .cookie = s,
                           .item_seconds = s->item_seconds,
                           .item_times = tracing_items(s->tracing, last_program(s), true) };
    if (s->sum.by != TIMELINE_REDUCE_HOST) {
        reducer_wait_rest(s->sum.reducer, &s->flight->result.comm_wait_s);
        return;
    }
    must(s, executor_issue_rest(x, last_program(s), &o));
    must(s, executor_wait(x));
    must(s, tracing_add_items(s->tracing, last_program(s), true, line->backward_end, line->count));
}

StepResult stepper_finish(Stepper *s)
{
    ASSERT(s->flights.finished < s->flights.issued);
    Flight *f = s->flight = &s->flights.list[s->flights.finished % FLIGHTS];
    StepResult *r = &f->result;
    must(s, finish_backward(s));
    if (s->sum.by != TIMELINE_REDUCE_HOST) reducer_begin(s->sum.reducer);
    add_results(s);
    reducer_backward_done(s->sum.reducer);
    double start_s = clock_s();
    apply(s);
    tracing_main(s->tracing, "wait for sums and update", TRACE_NO_NUMBER, start_s);
    tracing_add_jobs(s->tracing, s->sum.reducer);
    r->optimizer = optimizer_take_result(s->optimizer, flight_number(s));
    r->loss = s->metrics[METRIC_LOSS_SUM] / s->metrics[METRIC_IMAGES];
    r->replaced = (int64_t)s->metrics[METRIC_REPLACED];
    r->stop = s->metrics[METRIC_STOP] > 0;
    r->failed = s->metrics[METRIC_FAILED] > 0;
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
    return s->sum.by != TIMELINE_REDUCE_HOST && !optimizer_awaits_result(s->optimizer);
}

/* ---- life ---- */

static Status prepare_average(Stepper *s)
{
    Executor *x = s->session->executor;
    size_t bytes = executor_slab_bytes(x, SLAB_BUFFER);
    s->average.wanted =
        bytes > 0 && s->session->config->model.bn == BN_CHOICE_TRAIN && s->session->comm->world > 1;
    if (!s->average.wanted) return OK;
    int64_t n = (int64_t)(bytes / sizeof(float));
    OpTensor flat = { .desc = tensor_desc(DTYPE_F32, 1, &n),
                      .bytes = bytes,
                      .data = executor_slab(x, SLAB_BUFFER) };
    s->average.attr.factor = 1.0f / (float)s->session->comm->world;
    s->average.op =
        (OpInstance){ .kind = OP_SCALE, .backend = s->session->backend, .attr = &s->average.attr };
    s->average.op.in[SCALE_IN_X] = s->average.op.out[SCALE_OUT_Y] = flat;
    TRY(backend_prepare_op(&s->average.op));
    const OpImpl *impl = s->session->backend->v->ops[OP_SCALE];
    return impl->bind ? impl->bind(&s->average.op) : OK;
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
    TimelineOptions o = { .reduce = s->sum.by,
                          .statistics = s->average.wanted,
                          .loss_scale = optimizer_loss_scale(s->optimizer) != NULL,
                          .norm = optimizer_needs_norm(s->session->config) };
    Bucket *buckets = NULL;
    TRY(plan_buckets(program_plan(last), program_graph(last), cap, first_cap, &buckets,
                     &o.bucket_count));
    o.buckets = buckets;
    ASSERT(o.bucket_count == s->buckets.count);
    for (int k = 0; k < s->buckets.count; k++)
        ASSERT(buckets[k].offset == s->buckets.list[k].offset &&
               buckets[k].bytes == s->buckets.list[k].bytes);
    Status status = executor_plan_step(s->session->executor, last, &o);
    mem_free(buckets);
    return status;
}

static Status plan_steps(Stepper *s, size_t cap, size_t first_cap)
{
    const Session *session = s->session;
    for (int i = 0; i < progressive_stage_count(session->config); i++) {
        Program *more = session->stage_more[i];
        TRY(plan_stage(s, more ? more : session->stage_first[i], cap, first_cap));
    }
    return OK;
}

/* What the host sums: everything where it is memory it can reach, else what is staged; of a device
 * that sums by itself only the metrics. */
static Status create_reducer(Stepper *s)
{
    Executor *x = s->session->executor;
    const bool host = s->sum.by == TIMELINE_REDUCE_HOST;
    ReducerOptions o = { .buckets = s->buckets.list,
                         .bucket_count = host ? s->buckets.count : 0,
                         .buffer_bytes =
                             host && s->average.wanted ? executor_slab_bytes(x, SLAB_BUFFER) : 0,
                         .metrics = s->metrics,
                         .metric_count = METRIC_COUNT };
    if (host) o.grads = s->sum.host ? host_reduce_grads(s->sum.host) : executor_slab(x, SLAB_GRAD);
    if (host)
        o.buffers = s->sum.host ? host_reduce_buffers(s->sum.host) : executor_slab(x, SLAB_BUFFER);
    return reducer_create(&s->sum.reducer, s->session->comm, &o);
}

static Status fill(Stepper *s)
{
    Session *session = s->session;
    const Config *c = session->config;
    Executor *x = session->executor;
    Program *last = last_program(s);
    size_t cap, first;
    s->sum.by = choose_reduce(session);
    reducer_caps(executor_slab_bytes(x, SLAB_GRAD), c->comm.bucket_mb, c->comm.first_bucket_mb,
                 &cap, &first);
    TRY(plan_buckets(program_plan(last), program_graph(last), cap, first, &s->buckets.list,
                     &s->buckets.count));
    TRY(optimizer_create(&s->optimizer, x, session->backend, c, s->buckets.list, s->buckets.count));
    TRY(prepare_average(s));
    if (session->device_comm && s->sum.by == TIMELINE_REDUCE_HOST)
        TRY(host_reduce_create(&s->sum.host, x, s->buckets.list, s->buckets.count));
    s->buckets.names = mem_calloc((size_t)s->buckets.count + 1, NAME_BYTES);
    if (!s->buckets.names) return ERR_MEMORY;
    for (int k = 0; k < s->buckets.count; k++)
        snprintf(s->buckets.names[k], NAME_BYTES, "bucket %d", k);
    s->sum.type = session_allreduce_dtype(session);
    size_t sum_bytes = session_allreduce_bytes(session, executor_slab_bytes(x, SLAB_GRAD));
    if (sum_bytes > 0) TRY(session->backend->v->alloc(session->backend, sum_bytes, &s->sum.grads));
    const Graph *g = program_graph(last);
    for (int i = 0; i < graph_node_count(g); i++)
        s->drops = s->drops || graph_node(g, i)->kind == OP_DROP;
    TRY(plan_steps(s, cap, first));
    return create_reducer(s);
}

Status stepper_create(Stepper **out, Session *session)
{
    Stepper *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->session = session;
    s->lr_factor = 1;
    s->schedule =
        schedule_from_config(session->config, session->plan.global_batch, session->comm->world,
                             session->plan.images, session->plan.total_steps);
    Status status = fill(s);
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
    reducer_destroy(s->sum.reducer);
    host_reduce_destroy(s->sum.host);
    optimizer_destroy(s->optimizer);
    if (s->sum.grads) s->session->backend->v->free(s->session->backend, s->sum.grads);
    mem_free(s->buckets.names);
    if (s->average.op.backend) backend_release_op(&s->average.op);
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
const Reducer *stepper_reducer(const Stepper *s)
{
    return s->sum.reducer;
}

const Program *stepper_last_program(const Stepper *s)
{
    return last_program(s);
}

const Bucket *stepper_buckets(const Stepper *s, int *count)
{
    *count = s->buckets.count;
    return s->buckets.list;
}
