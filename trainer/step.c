/* step.c - the life of a training step.
 *
 *   wait for a batch slot            the decode threads filled it while the step before trained
 *   forward, loss, backward          bucket k of the gradients is summed over the ranks by the communication thread as
 *   soon as its last gradient is
 *                                    complete, while the issuing thread computes the gradients of earlier layers
 *   (accumulation: the two lines above once per micro-batch; only the last one announces buckets)
 *   statistics and metrics           running statistics and the step's sums follow the last bucket
 *   update, bucket by bucket         bucket 0 is updated while the last ones are still under way
 *
 * Every loss gradient carries the factor 1 / global batch, so the sum over ranks is the gradient of the mean loss
 * whatever the slices. A rank that fails inside the step (its data, its disk) still takes part in every reduction, with
 * whatever its slabs hold, and says so in the metrics: all ranks learn of it at the same point, and none hangs. What
 * they hold then is not used any more. */
#include "trainer/step.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/signals.h"

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

struct Stepper {
    Session *session;
    Loader *loader;
    Schedule schedule;
    Optimizer *optimizer;
    Reducer *reducer;
    Bucket *buckets;
    int bucket_count;
    double metrics[METRIC_COUNT];
    OpInstance average; /* running statistics: sum over ranks -> mean */
    ScaleAttr average_attr;
    bool averages;
    int64_t earlier_updates; /* updates done beyond the step number: before the global batch was changed */
};

static void announce_bucket(void *cookie, int bucket)
{
    Stepper *s = cookie;
    reducer_ready(s->reducer, bucket);
}

/* ---- one step ---- */

static Status run_micro_batch(Stepper *s, int64_t micro, double *data_wait_s, double *node_seconds)
{
    Session *session = s->session;
    bool last = micro + 1 == session->plan.accumulate, more = false;
    Program *p = micro == 0 ? session->first : session->more;
    Batch batch;
    TRY(loader_next(s->loader, &batch, &more, data_wait_s));
    ASSERT(more);
    RunHooks hooks = { .buckets = s->buckets,
                       .bucket_count = last ? s->bucket_count : 0,
                       .bucket_ready = announce_bucket,
                       .cookie = s,
                       .node_seconds = node_seconds };
    Status status = program_set_input(p, "images", batch.images);
    if (status == OK) status = program_set_input(p, "labels", batch.labels);
    if (status == OK) status = executor_run(session->executor, p, &hooks);
    loader_release(s->loader, &batch);
    const double *stats = program_stats(p);
    s->metrics[METRIC_REPLACED] += (double)batch.bad;
    s->metrics[METRIC_LOSS_SUM] += stats[STATS_LOSS_SUM];
    s->metrics[METRIC_TOP1] += stats[STATS_TOP1];
    s->metrics[METRIC_TOP5] += stats[STATS_TOP5];
    s->metrics[METRIC_IMAGES] += stats[STATS_IMAGES];
    return status;
}

static Status set_scalars(Stepper *s, int64_t step, double lr)
{
    float scalars[SCALAR_COUNT];
    optimizer_scalars(s->optimizer, lr, step + 1 + s->earlier_updates, scalars);
    scalars[SCALAR_GRAD_SCALE] = 1.0f / (float)s->session->plan.global_batch;
    return executor_set_scalars(s->session->executor, scalars);
}

static Status compute(Stepper *s, StepResult *r, int64_t step, Status pending, double *node_seconds)
{
    TRY(pending);
    TRY(set_scalars(s, step, r->lr));
    for (int64_t micro = 0; micro < s->session->plan.accumulate; micro++) {
        TRY(run_micro_batch(s, micro, &r->data_wait_s, node_seconds));
    }
    return OK;
}

/* An error of the device here is this rank's alone and cannot be agreed on any more: it ends the job. */
static void must(Stepper *s, Status status)
{
    if (status == OK) return;
    log_error("rank %d: %s", s->session->comm->rank, status_message());
    comm_abort(s->session->comm, status_exit_code(status));
}

static void apply(Stepper *s, StepResult *r)
{
    Stream *stream = executor_stream(s->session->executor);
    Backend *b = s->session->backend;
    for (int k = 0; k < s->bucket_count; k++) {
        reducer_wait_bucket(s->reducer, k, &r->comm_wait_s);
        if (r->own_status == OK) must(s, optimizer_update(s->optimizer, k, stream));
    }
    reducer_wait_rest(s->reducer, &r->comm_wait_s);
    if (s->averages) must(s, b->v->ops[OP_SCALE]->run(&s->average, stream));
    must(s, b->v->stream_wait(b, stream));
}

StepResult stepper_run(Stepper *s, int64_t step, Status pending, double *node_seconds)
{
    double start = clock_s();
    StepResult r = { .lr = schedule_lr(&s->schedule, step) };
    for (int i = 0; i < METRIC_COUNT; i++) s->metrics[i] = 0;
    comm_set_progress(s->session->comm, step, "step");
    reducer_begin(s->reducer);
    r.own_status = compute(s, &r, step, pending, node_seconds);
    s->metrics[METRIC_STOP] = signals_stop_requested();
    s->metrics[METRIC_FAILED] = r.own_status != OK;
    reducer_backward_done(s->reducer);
    apply(s, &r);
    r.loss = s->metrics[METRIC_LOSS_SUM] / s->metrics[METRIC_IMAGES];
    r.replaced = (int64_t)s->metrics[METRIC_REPLACED];
    r.stop = s->metrics[METRIC_STOP] > 0;
    r.failed = s->metrics[METRIC_FAILED] > 0;
    r.seconds = clock_s() - start;
    return r;
}

/* ---- life ---- */

static Status prepare_average(Stepper *s)
{
    Executor *x = s->session->executor;
    size_t bytes = executor_slab_bytes(x, SLAB_BUFFER);
    s->averages = bytes > 0 && s->session->config->model.bn == CONFIG_BN_TRAIN && s->session->comm->world > 1;
    if (!s->averages) return OK;
    int64_t n = (int64_t)(bytes / sizeof(float));
    OpTensor flat = { .desc = tensor_desc(DTYPE_F32, 1, &n), .bytes = bytes, .data = executor_slab(x, SLAB_BUFFER) };
    s->average_attr.factor = 1.0f / (float)s->session->comm->world;
    s->average = (OpInstance){ .kind = OP_SCALE, .backend = s->session->backend, .attr = &s->average_attr };
    s->average.in[SCALE_IN_X] = s->average.out[SCALE_OUT_Y] = flat;
    TRY(op_prepare(&s->average));
    const OpImpl *impl = s->session->backend->v->ops[OP_SCALE];
    return impl->bind ? impl->bind(&s->average) : OK;
}

static Status fill(Stepper *s)
{
    Session *session = s->session;
    const Config *c = session->config;
    Executor *x = session->executor;
    Program *last = session->more ? session->more : session->first;
    size_t cap, first;
    reducer_caps(executor_slab_bytes(x, SLAB_GRAD), c->comm.bucket_mb, c->comm.first_bucket_mb, &cap, &first);
    TRY(plan_buckets(program_plan(last), program_graph(last), cap, first, &s->buckets, &s->bucket_count));
    TRY(optimizer_create(&s->optimizer, x, session->backend, c, s->buckets, s->bucket_count));
    TRY(prepare_average(s));
    ReducerOptions o = { .grads = executor_slab(x, SLAB_GRAD),
                         .buckets = s->buckets,
                         .bucket_count = s->bucket_count,
                         .buffers = executor_slab(x, SLAB_BUFFER),
                         .buffer_bytes = s->averages ? executor_slab_bytes(x, SLAB_BUFFER) : 0,
                         .metrics = s->metrics,
                         .metric_count = METRIC_COUNT };
    return reducer_create(&s->reducer, session->comm, &o);
}

Status stepper_create(Stepper **out, Session *session)
{
    Stepper *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->session = session;
    s->schedule = schedule_from_config(session->config, session->plan.global_batch, session->comm->world,
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
    reducer_destroy(s->reducer);
    optimizer_destroy(s->optimizer);
    if (s->average.backend) op_release(&s->average);
    mem_free(s->buckets);
    mem_free(s);
}

void stepper_set_earlier_updates(Stepper *s, int64_t count)
{
    s->earlier_updates = count;
}

void stepper_set_loader(Stepper *s, Loader *loader)
{
    s->loader = loader;
}
Optimizer *stepper_optimizer(Stepper *s)
{
    return s->optimizer;
}
const Schedule *stepper_schedule(const Stepper *s)
{
    return &s->schedule;
}
const Reducer *stepper_reducer(const Stepper *s)
{
    return s->reducer;
}

const Bucket *stepper_buckets(const Stepper *s, int *count)
{
    *count = s->bucket_count;
    return s->buckets;
}
