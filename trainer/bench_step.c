/* bench_step.c - training steps by themselves: how fast, and where the time goes. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/bench.h"
#include "trainer/memory.h"
#include "trainer/step.h"
#include <stdio.h>

typedef struct StepTimes {
    double *ms;           /* [steps] */
    double *node_seconds; /* [nodes] or NULL */
    double data_wait_s, comm_wait_s, overlap, loss;
    int64_t allocations;
} StepTimes;

static Status run_steps(Comm *comm, Stepper *stepper, const BenchOptions *o, StepTimes *t)
{
    for (int64_t i = 0; i < o->warmup + o->steps; i++) {
        bool counts = i >= o->warmup;
        int64_t before = mem_allocation_count();
        StepResult r = stepper_run(stepper, i, OK, counts ? t->node_seconds : NULL);
        if (r.failed) return comm_agree(comm, r.own_status);
        if (!counts) continue;
        ReducerTrace trace;
        reducer_trace(stepper_reducer(stepper), &trace);
        t->ms[i - o->warmup] = r.seconds * 1e3;
        t->allocations += mem_allocation_count() - before;
        t->data_wait_s += r.data_wait_s;
        t->comm_wait_s += r.comm_wait_s;
        t->overlap += trace.overlap / (double)o->steps;
        t->loss = r.loss;
    }
    return OK;
}

static void print_nodes(const Session *s, const BenchOptions *o, const double *node_seconds)
{
    double by_kind[OP_COUNT] = { 0 }, flops[OP_COUNT] = { 0 }, total = 0;
    const Graph *g = program_graph(s->first);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        by_kind[n->kind] += node_seconds[i];
        flops[n->kind] += graph_node_flops(g, i);
        total += node_seconds[i];
    }
    log_info("%-24s %10s %7s %10s", "operation", "ms/step", "share", "GFLOP/s");
    for (int k = 0; k < OP_COUNT; k++) {
        if (by_kind[k] <= 0) continue;
        log_info("%-24s %10.3f %6.1f%% %10.1f", op_name((OpKind)k), by_kind[k] * 1e3 / (double)o->steps,
                 100 * by_kind[k] / total, flops[k] * (double)o->steps / by_kind[k] * 1e-9);
    }
}

static void print_times(const Session *s, const BenchOptions *o, StepTimes *t)
{
    double median = bench_median(t->ms, o->steps), steps = (double)o->steps;
    log_info("model %s", s->config->model.name);
    log_info("ranks %d", s->comm->world);
    log_info("compute_threads %d", s->threads.compute);
    log_info("global_batch %lld", (long long)s->plan.global_batch);
    log_info("step_ms %.3f", median);
    log_info("images_per_s %.3f", (double)s->plan.global_batch / median * 1e3);
    log_info("data_wait_ms %.3f", t->data_wait_s * 1e3 / steps);
    log_info("comm_wait_ms %.3f", t->comm_wait_s * 1e3 / steps);
    log_info("overlap %.4f", t->overlap);
    log_info("allocations %lld", (long long)t->allocations);
    log_info("loss %.6g", t->loss);
    if (t->node_seconds) print_nodes(s, o, t->node_seconds);
}

static Status measure(Session *s, const BenchOptions *o)
{
    StepTimes t = { 0 };
    Loader *loader = NULL;
    Stepper *stepper = NULL;
    LoaderOptions options = session_loader_options(s, DATA_TRAIN);
    options.last_step = -1;
    t.ms = mem_calloc((size_t)o->steps, sizeof *t.ms);
    if (o->nodes)
        t.node_seconds = mem_calloc((size_t)graph_node_count(program_graph(s->first)), sizeof *t.node_seconds);
    Status status = t.ms ? stepper_create(&stepper, s) : ERR_MEMORY;
    if (status == OK) status = loader_create(&loader, s->train, &options);
    status = comm_agree(s->comm, status);
    if (status == OK) {
        stepper_set_loader(stepper, loader);
        status = run_steps(s->comm, stepper, o, &t);
    }
    if (status == OK) print_times(s, o, &t);
    stepper_destroy(stepper);
    loader_destroy(loader);
    mem_free(t.ms);
    mem_free(t.node_seconds);
    return status;
}

Status bench_step(Comm *comm, const Config *c, const BenchOptions *o)
{
    Config local = bench_config(c);
    Session s;
    local.train.max_steps = o->warmup + o->steps;
    local.schedule.warmup_epochs = 0;
    Status status = session_open(&s, &local, comm, SESSION_TRAIN);
    if (status == OK) status = session_commit(&s);
    if (status == OK) status = measure(&s, o);
    session_close(&s);
    return status;
}

/* ---- allreduce ---- */

static double time_allreduce(Comm *comm, float *data, size_t count, int64_t repeats)
{
    comm_barrier(comm, "bench");
    double start = clock_s();
    for (int64_t i = 0; i < repeats; i++) comm_allreduce(comm, data, count, COMM_F32, COMM_SUM, "bench");
    double seconds = (clock_s() - start) / (double)repeats;
    comm_allreduce(comm, &seconds, 1, COMM_F64, COMM_MAX, "bench");
    return seconds;
}

Status bench_allreduce(Comm *comm, const Config *c, const BenchOptions *o)
{
    size_t largest = (size_t)(c->comm.bucket_mb * (1 << 20));
    float *data = mem_calloc(largest / sizeof *data + 1, sizeof *data);
    TRY(comm_agree(comm, data ? OK : ERR_MEMORY));
    log_info("%12s %12s %12s %12s   (%d ranks; busbw = algbw * 2(n-1)/n)", "bytes", "us", "algbw GB/s", "busbw GB/s",
             comm->world);
    for (size_t bytes = 4096; bytes <= largest; bytes *= 4) {
        time_allreduce(comm, data, bytes / sizeof *data, o->warmup);
        double s = time_allreduce(comm, data, bytes / sizeof *data, o->steps), algbw = (double)bytes / s * 1e-9;
        log_info("%12zu %12.1f %12.3f %12.3f", bytes, s * 1e6, algbw, algbw * 2 * (comm->world - 1) / comm->world);
    }
    mem_free(data);
    return OK;
}
