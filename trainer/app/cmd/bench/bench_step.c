/* bench_step.c - training steps by themselves: how fast, and where the time goes. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/report/statistics.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/rules/sharpness.h"
#include "trainer/engine/session/announce.h"
#include "trainer/engine/session/session_open.h"
#include "trainer/engine/train/evaluate.h"
#include "trainer/engine/train/stepper.h"

typedef struct StepTimes {
    double *ms;           /* [steps] */
    double *overlap;      /* [steps] */
    double *item_seconds; /* [program_step_items()] or NULL */
    double seconds;       /* of all steps together, from the end of the one before */
    double data_wait_s, comm_wait_s, loss;
    int64_t allocations;
} StepTimes;

/* t is freed by free_times, also where this fails. */
static Status allocate_times(StepTimes *t, const BenchOptions *o)
{
    t->ms = mem_calloc((size_t)o->steps, sizeof *t->ms);
    t->overlap = mem_calloc((size_t)o->steps, sizeof *t->overlap);
    return t->ms && t->overlap ? OK : ERR_MEMORY;
}

static void free_times(StepTimes *t)
{
    mem_free(t->ms);
    mem_free(t->overlap);
    mem_free(t->item_seconds);
}

static Status run_steps(Comm *comm, Stepper *stepper, const BenchOptions *o, StepTimes *t,
                        double *item_seconds)
{
    const int64_t total = o->warmup + o->steps;
    const bool ahead = stepper_runs_ahead(stepper) && !item_seconds;
    double begin_s = clock_s();
    if (ahead) stepper_issue(stepper, 0, OK);
    for (int64_t i = 0; i < total; i++) {
        bool counts = i >= o->warmup;
        if (i == o->warmup) begin_s = clock_s();
        int64_t before = mem_allocation_count();
        if (ahead && i + 1 < total) stepper_issue(stepper, i + 1, OK);
        StepResult r = ahead ? stepper_finish(stepper)
                             : stepper_run(stepper, i, OK, counts ? item_seconds : NULL);
        if (r.failed) return comm_agree(comm, r.own_status);
        if (!counts) continue;
        ReducerTrace trace;
        reducer_trace(stepper_reducer(stepper), &trace);
        t->ms[i - o->warmup] = r.seconds * 1e3;
        t->allocations += mem_allocation_count() - before;
        t->data_wait_s += r.data_wait_s;
        t->comm_wait_s += r.comm_wait_s;
        t->overlap[i - o->warmup] = trace.overlap;
        t->loss = r.loss;
    }
    t->seconds = clock_s() - begin_s;
    return OK;
}

/* Timing every operation slows a device down, which else works on while the host enqueues: steps of
 * their own for it. */
static Status run_timed(Session *s, Stepper *stepper, const BenchOptions *o, StepTimes *t)
{
    StepTimes ignored FREED_BY(free_times) = { 0 };
    TRY(comm_agree(s->comm, allocate_times(&ignored, o)));
    return run_steps(s->comm, stepper, o, &ignored, t->item_seconds);
}

/* ---- where the time goes ---- */

typedef struct KindTimes {
    double seconds, flops, bytes;
} KindTimes;

/* What an item is to those who count operations: OP_INPUT for waiting and sums, which are told
 * elsewhere. A copy of parameters counts as what has moved them. */
static OpKind kind_of(const Program *p, const Timeline *t, const TimelineItem *item)
{
    if (item->kind == TIMELINE_NODE) return graph_node(program_graph(p), item->index)->kind;
    if (item->kind != TIMELINE_OP || t->ops[item->index].when == STEP_RESULT) return OP_INPUT;
    return t->ops[item->index].op ? t->ops[item->index].op->kind : OP_UPDATE;
}

/* Of an operation of a step, with the compute copies of the parameters that it writes. */
static double step_bytes(const Session *s, const StepOp *op)
{
    const DeviceVTable *d = s->backend->v->device;
    double bytes = step_traffic(op);
    for (int k = 0; d && k < step_use_count(op); k++)
        if (op->use[k].slab == SLAB_PARAM && op->use[k].mode != STEP_READS)
            bytes += (double)d->param_copy_bytes(s->backend, op->use[k].bytes);
    return bytes;
}

/* runs: how often in a step, on average. */
static void add_item(const Session *s, const Program *p, const Timeline *t,
                     const TimelineItem *item, double seconds, double runs, KindTimes *k)
{
    OpTraffic traffic;
    k->seconds += seconds;
    if (item->kind == TIMELINE_OP) k->bytes += runs * step_bytes(s, &t->ops[item->index]);
    if (item->kind != TIMELINE_NODE) return;
    k->flops += runs * graph_node_flops(program_graph(p), item->index);
    k->bytes += runs * program_node_traffic(p, item->index, &traffic);
}

/* A row of --layers; k: of all steps. */
static void add_layer(const Program *p, const TimelineItem *item, OpKind kind, const KindTimes *k,
                      double steps, StrBuf *layers)
{
    const bool node = item->kind == TIMELINE_NODE;
    const char *by = node ? program_implementation(p, item->index) : NULL;
    str_printf(layers, "%s,%s,%s,%.6f,%.0f,%.0f\n",
               node ? graph_node(program_graph(p), item->index)->name : "step", op_name(kind),
               by ? by : "own", k->seconds * 1e3 / steps, k->bytes, k->flops);
}

static void add_run(const Session *s, const Stepper *stepper, const BenchOptions *o,
                    TimelineRun run, const double *item_seconds, KindTimes kinds[OP_COUNT],
                    StrBuf *layers)
{
    const Program *p = stepper_last_program(stepper);
    const Timeline *t = program_timeline(p, run);
    int64_t sharp = 0;
    for (int64_t i = o->warmup; i < o->warmup + o->steps; i++)
        sharp += sharpness_in_step(s->config, i);
    const double steps = (double)(run == TIMELINE_STEP ? o->steps - sharp : sharp);
    for (int i = 0; t && i < t->count; i++) {
        const OpKind k = kind_of(p, t, &t->items[i]);
        KindTimes one = { 0 };
        add_item(s, p, t, &t->items[i], item_seconds[program_step_items(p, run) + i],
                 steps / (double)o->steps, &one);
        if (one.seconds <= 0 || (k == OP_INPUT && t->items[i].kind != TIMELINE_NODE)) continue;
        kinds[k].seconds += one.seconds;
        kinds[k].flops += one.flops;
        kinds[k].bytes += one.bytes;
        add_layer(p, &t->items[i], k, &one, (double)o->steps, layers);
    }
}

static Status print_kinds(const Session *s, const Stepper *stepper, const BenchOptions *o,
                          const double *item_seconds)
{
    const bool device = s->backend->v->device != NULL;
    const double steps = (double)o->steps, rate = device ? 1e-12 : 1e-9;
    KindTimes kinds[OP_COUNT] = { { 0 } };
    double total = 0;
    StrBuf layers FREED_BY(str_free) = { 0 };
    str_add(&layers, "layer,operation,by,ms,bytes,flops\n");
    for (int run = TIMELINE_STEP; run < TIMELINE_RUN_COUNT; run++)
        add_run(s, stepper, o, (TimelineRun)run, item_seconds, kinds, &layers);
    for (int k = 0; k < OP_COUNT; k++) total += kinds[k].seconds;
    log_info("%-24s %10s %7s %10s %10s", "operation", "ms/step", "share",
             device ? "TFLOP/s" : "GFLOP/s", "GB/s");
    for (int k = 0; k < OP_COUNT; k++) {
        if (kinds[k].seconds <= 0) continue;
        log_info("%-24s %10.3f %6.1f%% %10.1f %10.1f", op_name((OpKind)k),
                 kinds[k].seconds * 1e3 / steps, 100 * kinds[k].seconds / total,
                 kinds[k].flops * steps / kinds[k].seconds * rate,
                 kinds[k].bytes * steps / kinds[k].seconds * 1e-9);
    }
    log_info("%-24s %10.3f", "sum", total * 1e3 / steps);
    StrBuf by FREED_BY(str_free) = { 0 };
    if (!device) announce_implementations(stepper_last_program(stepper), &by);
    if (by.length > 0) log_info("run by: %s", by.text);
    Status status = layers.failed || by.failed ? ERR_MEMORY : OK;
    if (status == OK && o->layers && s->comm->rank == 0)
        status = fs_write_atomic(o->layers, layers.text, layers.length);
    return comm_agree(s->comm, status);
}

/* What the columns of rates could reach here at best. */
static Status print_peaks(const Session *s)
{
    double flops = 0, bytes = 0;
    TRY(comm_agree(s->comm, backend_cpu_peaks(s->backend, &flops, &bytes)));
    log_info("%-24s %10s %7s %10.1f %10.1f", "peak, measured", "", "", flops * 1e-9, bytes * 1e-9);
    return OK;
}

/* Mean over the steps, of the rank that ended backward last: to others sums seem to begin late that
 * only wait for its gradients. */
static double last_overlap(Comm *comm, const BenchOptions *o, double *overlap)
{
    double sum = 0;
    comm_allreduce(comm, overlap, (size_t)o->steps, COMM_F64, COMM_MAX, "overlap");
    for (int64_t i = 0; i < o->steps; i++) sum += overlap[i];
    return sum / (double)o->steps;
}

/* Of the measured steps of text. */
static int64_t tokens_of(const Session *s, const BenchOptions *o)
{
    const int64_t batch = s->plan.global_batch;
    return sequences_count(s->train, (uint64_t)s->config->train.seed, o->warmup * batch,
                           o->steps * batch)
        .tokens;
}

static void print_times(const Session *s, const BenchOptions *o, StepTimes *t)
{
    const char *many = units_of(s->config)->many;
    double median = statistics_median(t->ms, o->steps), steps = (double)o->steps;
    double overlap = last_overlap(s->comm, o, t->overlap);
    log_info("model %s", s->config->model.name);
    log_info("ranks %d", s->comm->world);
    log_info("compute_threads %d", s->threads.compute);
    log_info("global_batch %lld", (long long)s->plan.global_batch);
    log_info("step_ms %.3f", median);
    log_info("%s_per_s %.3f", many, (double)s->plan.global_batch / median * 1e3);
    log_info("mean_%s_per_s %.3f", many, (double)s->plan.global_batch * steps / t->seconds);
    if (s->words) log_info("tokens_per_s %.1f", (double)tokens_of(s, o) / steps / median * 1e3);
    log_info("data_wait_ms %.3f", t->data_wait_s * 1e3 / steps);
    log_info("comm_wait_ms %.3f", t->comm_wait_s * 1e3 / steps);
    log_info("overlap %.4f", overlap);
    log_info("allocations %lld", (long long)t->allocations);
    log_info("loss %.6g", t->loss);
}

static Status measure_steps(Session *s, const BenchOptions *o, Stepper *stepper, StepTimes *t)
{
    if (o->nodes) {
        const int items = program_step_items(stepper_last_program(stepper), TIMELINE_RUN_COUNT);
        t->item_seconds = mem_calloc((size_t)items, sizeof *t->item_seconds);
        TRY(comm_agree(s->comm, t->item_seconds ? OK : ERR_MEMORY));
    }
    TRY(run_steps(s->comm, stepper, o, t, s->backend->v->device ? NULL : t->item_seconds));
    print_times(s, o, t);
    if (o->nodes && s->backend->v->device) TRY(run_timed(s, stepper, o, t));
    if (o->nodes) TRY(print_kinds(s, stepper, o, t->item_seconds));
    return o->nodes && !s->backend->v->device ? print_peaks(s) : OK;
}

static Status measure_step(Session *s, const BenchOptions *o)
{
    StepTimes t FREED_BY(free_times) = { 0 };
    Loader *loader FREED_BY(loader_destroy_at) = NULL;
    Stepper *stepper FREED_BY(stepper_destroy_at) = NULL;
    LoaderOptions options = session_loader_options(s, DATA_TRAIN);
    options.last_step = -1;
    prefetch_loader_options(s->train_input, &options);
    Status status = allocate_times(&t, o);
    if (status == OK) status = stepper_create(&stepper, s);
    if (status == OK) status = loader_create(&loader, s->train, &options);
    if (status == OK) status = stepper_set_loader(stepper, loader);
    TRY(comm_agree(s->comm, status));
    return measure_steps(s, o, stepper, &t);
}

/* Evaluation, first once unmeasured. */
static Status measure_evaluation(Session *s)
{
    EvalResult r;
    TRY(evaluate(s, &r));
    const double start = clock_s();
    TRY(evaluate(s, &r));
    const double seconds = clock_s() - start;
    log_info("%s_per_s %.2f", units_of(s->config)->many, (double)r.images / seconds);
    if (s->words) log_info("tokens_per_s %.1f", (double)r.tokens / seconds);
    log_info("batch_ms %.3f",
             1e3 * seconds * (double)(s->plan.batch * s->comm->world) / (double)r.images);
    return OK;
}

static Status bench_evaluation(Comm *comm, Config *c, const BenchOptions *o)
{
    Session s FREED_BY(session_close) = { 0 };
    c->data.synthetic_images = o->steps * c->train.batch_per_rank * comm->world;
    c->data.val = c->data.train;
    TRY(session_open_bench(&s, c, comm, SESSION_EVAL));
    TRY(session_commit(&s));
    return measure_evaluation(&s);
}

Status bench_step(Comm *comm, const Config *c, const BenchOptions *o)
{
    Config local = bench_config(c);
    Session s FREED_BY(session_close) = { 0 };
    if (o->eval && o->layers)
        return fail(ERR_USAGE, "--layers lists training steps; it excludes --eval");
    if (o->eval) return bench_evaluation(comm, &local, o);
    local.train.max_steps = o->warmup + o->steps;
    local.schedule.warmup_epochs = 0;
    local.schedule.warmup_steps = 0;
    TRY(session_open_bench(&s, &local, comm, SESSION_TRAIN));
    TRY(session_commit(&s));
    return measure_step(&s, o);
}
