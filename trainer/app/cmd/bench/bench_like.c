/* bench_like.c - convoy bench allreduce --like NAME: the sums of a training step of a network,
 * with its buckets, each started when backward would have made it.
 *
 * Backward is modelled (trainer/app/scale/step_model.h): the host sleeps until a bucket is due, and
 * nothing computes meanwhile. The sums are real and go the way of training, though enqueued one by
 * one and not replayed; then the running statistics and the step's metrics. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/cmd/bench/bench_sums.h"
#include "trainer/app/report/statistics.h"
#include "trainer/app/scale/predict.h"
#include "trainer/app/scale/step_model.h"
#include "trainer/engine/train/reducer.h"

enum { METRICS = 8 /* about as many as a step has */, NODES_MAX = 64, ALIGNMENT = 64 /* floats */ };

typedef struct Replay {
    const Config *config;
    const BenchOptions *options;
    BenchSums sums; /* of gradients, and behind them statistics */
    StepModel model;
    Bucket *buckets;
    double *ready; /* [buckets] share of the computation behind which each is there */
    int bucket_count;
    size_t gradients, slab, statistics; /* elements; slab: with gaps, so that buckets are aligned */
    double metrics[METRICS];
    Reducer *reducer; /* devices: of the metrics alone */
    double units;     /* images or tokens of a rank's step */
    double compute_s; /* of a step; 0: sums alone */
} Replay;

/* ---- a step ---- */

static void sleep_until(double time_s)
{
    const double left_s = time_s - clock_s();
    if (left_s > 0) clock_sleep_s(left_s);
}

static Status start_sum(Replay *r, int bucket)
{
    BenchSums *s = &r->sums;
    const size_t first = r->buckets[bucket].offset / sizeof(float),
                 count = r->buckets[bucket].bytes / sizeof(float);
    if (!s->device) {
        reducer_ready(r->reducer, bucket);
        return OK;
    }
    char *scratch = s->scratch ? (char *)s->scratch + first * dtype_bytes(s->type) : NULL;
    return device_comm_allreduce_as(s->device, s->data + first, count, s->type, scratch, s->stream,
                                    "bucket");
}

static Status run_step(void *cookie)
{
    Replay *r = cookie;
    const BenchSums *s = &r->sums;
    const double start_s = clock_s();
    double waited_s = 0;
    reducer_begin(r->reducer);
    for (int k = 0; k < r->bucket_count; k++) {
        sleep_until(start_s + r->ready[k] * r->compute_s);
        TRY(start_sum(r, k));
    }
    sleep_until(start_s + r->compute_s);
    if (s->device)
        TRY(device_comm_allreduce(s->device, s->data + r->slab, r->statistics, DTYPE_F32, s->stream,
                                  "running statistics"));
    TRY(bench_sums_wait(&r->sums));
    reducer_backward_done(r->reducer);
    for (int k = 0; k < r->bucket_count && !s->device; k++)
        reducer_wait_bucket(r->reducer, k, &waited_s);
    reducer_wait_rest(r->reducer, &waited_s);
    return OK;
}

/* ---- making it ---- */

static Status list_buckets(Replay *r)
{
    StepBucket b = { 0 };
    r->buckets = mem_calloc((size_t)r->model.count, sizeof *r->buckets);
    r->ready = mem_calloc((size_t)r->model.count, sizeof *r->ready);
    if (!r->buckets || !r->ready) return ERR_MEMORY;
    while (step_model_next_bucket(&r->model, &b)) {
        const size_t aligned = ((size_t)b.elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        r->buckets[r->bucket_count] =
            (Bucket){ .offset = r->slab * sizeof(float), .bytes = aligned * sizeof(float) };
        r->ready[r->bucket_count++] = b.ready;
        r->gradients += (size_t)b.elements;
        r->slab += aligned;
    }
    r->statistics = (size_t)r->model.statistics;
    return OK;
}

static Status prepare(Replay *r)
{
    BenchSums *s = &r->sums;
    TRY(list_buckets(r));
    TRY(bench_sums_allocate(s, r->slab + r->statistics, true));
    const bool host = !s->device;
    const ReducerOptions o = { .grads = s->data,
                               .buckets = r->buckets,
                               .bucket_count = host ? r->bucket_count : 0,
                               .buffers = s->data + r->slab,
                               .buffer_bytes = host ? r->statistics * sizeof(float) : 0,
                               .metrics = r->metrics,
                               .metric_count = METRICS };
    return reducer_create(&r->reducer, s->comm, &o);
}

/* ---- what it takes ---- */

/* The median step of the slowest rank. */
static Status time_steps(Replay *r, double compute_s, double *times, double *step_s)
{
    const BenchOptions *o = r->options;
    Comm *comm = r->sums.comm;
    r->compute_s = compute_s;
    for (int64_t i = -o->warmup; i < o->steps; i++) {
        comm_barrier(comm, "bench");
        double seconds = clock_s();
        TRY(run_step(r));
        seconds = clock_s() - seconds;
        comm_allreduce(comm, &seconds, 1, COMM_F64, COMM_MAX, "bench");
        if (i >= 0) times[i] = seconds;
    }
    *step_s = statistics_median(times, o->steps);
    return OK;
}

static const char *unit(const Replay *r)
{
    return r->model.tokens ? "tokens" : "images";
}

static Status measure_like(Replay *r, double compute_s, double *times)
{
    BenchSums *s = &r->sums;
    int64_t wrong;
    double sums_s, step_s;
    ReducerTrace trace;
    TRY(bench_sums_check(s, r->slab + r->statistics, s->type, run_step, r, &wrong));
    if (wrong) return fail(ERR_HEALTH, "%lld elements of the sums are wrong", (long long)wrong);
    TRY(time_steps(r, 0, times, &sums_s));
    TRY(time_steps(r, compute_s, times, &step_s));
    log_info("like %s", r->options->like);
    log_info("ranks %d", s->comm->world);
    log_info("summed_by %s", s->device && s->comm->world > 1 ? "nccl" : s->comm->name);
    log_info("gradients %zu", r->gradients);
    log_info("buckets %d", r->bucket_count);
    log_info("summed_mb %.3f", 1e-6 * (double)(r->gradients * dtype_bytes(s->type)));
    log_info("compute_ms %.3f", 1e3 * compute_s);
    log_info("sums_ms %.3f", 1e3 * sums_s);
    log_info("step_ms %.3f", 1e3 * step_s);
    log_info("exposed_ms %.3f", 1e3 * (step_s - compute_s));
    log_info("efficiency %.4f", compute_s / step_s);
    if (!s->device) {
        reducer_trace(r->reducer, &trace);
        log_info("overlap %.4f", trace.overlap);
    }
    log_info("%s_per_s %.1f", unit(r), r->units * s->comm->world / step_s);
    return OK;
}

static void predict_nodes(void *cookie, const Fabric *f)
{
    const Replay *r = cookie;
    const double compute_s = r->units / r->options->rate;
    log_info("prediction, not a measurement: %s on %s, %.4g %s/s on one rank", r->options->like,
             f->name, r->options->rate, unit(r));
    log_info("%6s %6s %8s %10s %11s %10s %10s/s %8s", "nodes", "ranks", "buckets", "sums ms",
             "exposed ms", "step ms", unit(r), "effic. %");
    for (int64_t nodes = 1; nodes <= NODES_MAX; nodes *= 2) {
        const int64_t ranks = nodes * f->ranks_per_node;
        const StepTime t = step_model_predict(&r->model, f, compute_s, ranks,
                                              predict_element_bytes(r->config, false, ranks));
        log_info("%6lld %6lld %8d %10.3f %11.3f %10.3f %12.1f %8.1f", (long long)nodes,
                 (long long)ranks, t.buckets, 1e3 * t.allreduce_s, 1e3 * (t.step_s - compute_s),
                 1e3 * t.step_s, r->units * (double)ranks / t.step_s, 100 * t.efficiency);
    }
}

static Status replay(Replay *r)
{
    const BenchOptions *o = r->options;
    Comm *comm = r->sums.comm;
    TRY(bench_sums_join(&r->sums, r->config));
    if (comm->world > (r->sums.type == DTYPE_F32 ? BENCH_SUMS_RANKS : BENCH_SUMS_RANKS_16_BIT))
        return fail(ERR_USAGE, "at most %d ranks, or %d with comm.grad_dtype: bf16",
                    BENCH_SUMS_RANKS, BENCH_SUMS_RANKS_16_BIT);
    double *times FREED = mem_calloc((size_t)o->steps, sizeof *times);
    TRY(comm_agree(comm, times ? prepare(r) : ERR_MEMORY));
    return measure_like(r, r->units / o->rate, times);
}

Status bench_like(Comm *comm, const Config *c, const BenchOptions *o)
{
    Replay r = { .config = c, .options = o, .sums.comm = comm };
    Status status = step_model_create_like(&r.model, c, o->like);
    r.units = (double)c->train.batch_per_rank * (r.model.tokens ? (double)r.model.tokens : 1);
    if (status == OK && o->predict)
        status = fabric_read_each(o->predict, "--predict", predict_nodes, &r);
    status = comm_agree(comm, status);
    if (status == OK) status = replay(&r);
    reducer_destroy(r.reducer);
    bench_sums_close(&r.sums);
    step_model_destroy(&r.model);
    mem_free(r.buckets);
    mem_free(r.ready);
    return status;
}
