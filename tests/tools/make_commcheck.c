/* make_commcheck.c - communication and the reducer under mpirun: make_commcheck MODE. Run by
 * tests/e2e/comm.sh.
 *
 *     all        every operation with odd sizes, then the reducer; exits 0 if all results are exact
 *                on this rank
 *     agree      the last rank fails; every rank exits with the code of its error
 *     hang       the last rank sleeps instead of taking part; the others must exit 76 by the
 *                watchdog
 *     bench      allreduce of 1, 10 and 100 MB: time, and CPU time a rank
 *     device     sums of device memory, captured too: NCCL, with one rank as well; ranks that share
 *                a GPU say so
 *     devicehang the last rank does not sum; the others must exit 76 by the watchdog of the
 *                device */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/tools/commcheck.h"
#include "trainer/engine/train/reducer.h"

#include <string.h>
#include <time.h>

enum { SENTINEL = -77, BUCKETS = 5, STEPS = 20, BUFFER_FLOATS = 53123, METRICS = 5 };

/* ---- single operations ---- */

static Status check_float_sum(Comm *c, size_t count)
{
    float *x = mem_alloc((count + 1) * sizeof(float));
    if (x == NULL) return ERR_MEMORY;
    for (size_t i = 0; i < count; i++) x[i] = (float)value_of(c->rank, i);
    x[count] = SENTINEL;
    comm_allreduce(c, x, count, COMM_F32, COMM_SUM, "float sum");
    Status status = x[count] == SENTINEL
                        ? OK
                        : fail(ERR_INTERNAL, "float sum of %zu: wrote past the end", count);
    for (size_t i = 0; i < count && status == OK; i++) {
        if (x[i] != (float)sum_of(c->world, i))
            status = fail(ERR_INTERNAL, "float sum of %zu: element %zu differs", count, i);
    }
    mem_free(x);
    return status;
}

/* Rounding sums: all ranks must hold the same bits, twice. The sums themselves are not known. */
static Status check_same_bits(Comm *c)
{
    const size_t count = 1000003;
    float *x = mem_alloc(count * sizeof(float)), *first = mem_alloc(count * sizeof(float));
    Status status = x != NULL && first != NULL ? OK : ERR_MEMORY;
    for (int round = 0; round < 2 && status == OK; round++) {
        for (size_t i = 0; i < count; i++)
            x[i] = 1.0F / (float)(1 + value_of(c->rank, i * 5) + (int)(i % 97));
        comm_allreduce(c, x, count, COMM_F32, COMM_SUM, "rounding sum");
        if (round == 0) memcpy(first, x, count * sizeof(float));
        if (memcmp(first, x, count * sizeof(float)) != 0)
            status = fail(ERR_INTERNAL, "sums differ from run to run");
        comm_broadcast(c, x, count * sizeof(float), 0, "sums of rank 0");
        if (memcmp(first, x, count * sizeof(float)) != 0)
            status = fail(ERR_INTERNAL, "sums differ from rank to rank");
    }
    mem_free(x);
    mem_free(first);
    return status;
}

static Status check_small_operations(Comm *c)
{
    double d[3] = { c->rank, 0.25, -c->rank };
    int64_t n[2] = { c->rank - 5, ((int64_t)1 << 60) + c->rank };
    float most = (float)c->rank;
    comm_allreduce(c, d, 3, COMM_F64, COMM_SUM, "double sum");
    comm_allreduce(c, &n[0], 1, COMM_I64, COMM_MIN, "whole minimum");
    comm_allreduce(c, &n[1], 1, COMM_I64, COMM_MAX, "whole maximum");
    comm_allreduce(c, &most, 1, COMM_F32, COMM_MAX, "float maximum");
    comm_allreduce(c, NULL, 0, COMM_F32, COMM_SUM, "nothing");
    comm_barrier(c, "barrier");
    double ranks = c->world * (c->world - 1) / 2.0;
    if (d[0] != ranks || d[1] != 0.25 * c->world || d[2] != -ranks)
        return fail(ERR_INTERNAL, "double sum differs");
    if (n[0] != -5 || n[1] != ((int64_t)1 << 60) + c->world - 1)
        return fail(ERR_INTERNAL, "minimum or maximum differs");
    if (most != (float)(c->world - 1)) return fail(ERR_INTERNAL, "float maximum differs");
    return OK;
}

/* Sums over groups between sums over all, none waited for before all are posted. */
static Status check_groups(Comm *c)
{
    enum { JOBS = 40 };
    const int ranks = c->world % 2 == 0 ? c->world / 2 : c->world;
    CommJob jobs[JOBS];
    float x[JOBS];
    comm_group(c, ranks);
    for (int j = 0; j < JOBS; j++) {
        x[j] = (float)value_of(c->rank, (size_t)j);
        jobs[j] = (CommJob){ .data = &x[j], .count = 1, .group = j % 3 != 0, .name = "a group" };
        comm_post(c, &jobs[j]);
    }
    for (int j = 0; j < JOBS; j++) {
        const int first = jobs[j].group ? c->rank / ranks * ranks : 0;
        int sum = 0;
        for (int r = first; r < first + (jobs[j].group ? ranks : c->world); r++)
            sum += value_of(r, (size_t)j);
        comm_wait(c, &jobs[j]);
        if (x[j] != (float)sum) return fail(ERR_INTERNAL, "sum %d, of %d ranks", j, ranks);
    }
    return OK;
}

static Status check_broadcast(Comm *c, size_t bytes, int root)
{
    unsigned char *x = mem_alloc(bytes + 1);
    if (x == NULL) return ERR_MEMORY;
    for (size_t i = 0; i < bytes; i++) x[i] = c->rank == root ? (unsigned char)(i % 251) : 255;
    x[bytes] = 77;
    comm_broadcast(c, x, bytes, root, "broadcast");
    Status status =
        x[bytes] == 77 ? OK : fail(ERR_INTERNAL, "broadcast of %zu: wrote past the end", bytes);
    for (size_t i = 0; i < bytes && status == OK; i++) {
        if (x[i] != (unsigned char)(i % 251))
            status = fail(ERR_INTERNAL, "broadcast of %zu: byte %zu differs", bytes, i);
    }
    mem_free(x);
    return status;
}

static Status check_allgather(Comm *c, size_t count)
{
    unsigned char *x = mem_alloc(count * (size_t)c->world);
    if (x == NULL) return ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        x[count * (size_t)c->rank + i] = (unsigned char)(value_of(c->rank, i) + 100);
    CommJob job = {
        .kind = COMM_ALLGATHER, .type = COMM_BYTES, .data = x, .count = count, .name = "allgather"
    };
    comm_post(c, &job);
    comm_wait(c, &job);
    Status status = job.done && job.finished_s >= job.started_s
                        ? OK
                        : fail(ERR_INTERNAL, "allgather: stamps are wrong");
    for (int r = 0; r < c->world && status == OK; r++) {
        for (size_t i = 0; i < count && status == OK; i++) {
            if (x[count * (size_t)r + i] != (unsigned char)(value_of(r, i) + 100))
                status = fail(ERR_INTERNAL, "allgather of %zu: element %zu of rank %d differs",
                              count, i, r);
        }
    }
    mem_free(x);
    return status;
}

static Status check_operations(Comm *c)
{
    /* Around the limit of a piece; primes; fewer elements than ranks. */
    static const size_t counts[] = { 0,      1,      3,      1023,    32771,  131071,
                                     131072, 131073, 262145, 1048583, 5000011 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        TRY(check_float_sum(c, counts[i]));
    TRY(check_same_bits(c));
    TRY(check_small_operations(c));
    TRY(check_groups(c));
    for (int root = 0; root < c->world; root++) TRY(check_broadcast(c, 100003, root));
    TRY(check_broadcast(c, 0, 0));
    TRY(check_broadcast(c, 40000003, c->world - 1)); /* more than one piece */
    TRY(check_allgather(c, 5));
    TRY(check_allgather(c, 17000003)); /* by broadcasts */
    return OK;
}

/* ---- reducer ---- */

typedef struct ReducerCase {
    Reducer *reducer;
    Bucket buckets[BUCKETS];
    float *grads, *buffers;
    double metrics[METRICS];
    size_t floats;
    double best_overlap; /* of any step: on a busy machine the communication thread may miss some */
} ReducerCase;

static Status make_reducer(ReducerCase *k, Comm *c)
{
    static const size_t sizes[BUCKETS] = { 17, 100003, 0, 2000003, 1 };
    for (int i = 0; i < BUCKETS; i++) {
        k->buckets[i] =
            (Bucket){ .offset = k->floats * sizeof(float), .bytes = sizes[i] * sizeof(float) };
        k->floats += sizes[i];
    }
    k->grads = mem_alloc(k->floats * sizeof(float));
    k->buffers = mem_alloc(BUFFER_FLOATS * sizeof(float));
    if (k->grads == NULL || k->buffers == NULL) return ERR_MEMORY;
    ReducerOptions o = { .grads = k->grads,
                         .buckets = k->buckets,
                         .bucket_count = BUCKETS,
                         .buffers = k->buffers,
                         .buffer_bytes = BUFFER_FLOATS * sizeof(float),
                         .metrics = k->metrics,
                         .metric_count = METRICS };
    return reducer_create(&k->reducer, c, &o);
}

/* A backward pass that computes each bucket for a few milliseconds, ranks at different speeds. */
static void fake_backward(ReducerCase *k, const Comm *c, int step)
{
    reducer_begin(k->reducer);
    for (size_t i = 0; i < BUFFER_FLOATS; i++) k->buffers[i] = (float)value_of(c->rank, i);
    for (size_t i = 0; i < METRICS; i++) k->metrics[i] = value_of(c->rank, i) + 0.5;
    for (int b = 0; b < BUCKETS; b++) {
        size_t begin = k->buckets[b].offset / sizeof(float),
               end = begin + k->buckets[b].bytes / sizeof(float);
        for (size_t i = begin; i < end; i++)
            k->grads[i] = (float)value_of(c->rank, i + (size_t)step);
        clock_sleep_s(0.001 * (1 + (c->rank + b + step) % 3));
        reducer_ready(k->reducer, b);
    }
    clock_sleep_s(0.005);
    reducer_backward_done(k->reducer);
}

static Status check_step(ReducerCase *k, const Comm *c, int step)
{
    double wait_s = 0;
    for (int b = 0; b < BUCKETS; b++) {
        reducer_wait_bucket(k->reducer, b, &wait_s);
        size_t begin = k->buckets[b].offset / sizeof(float),
               end = begin + k->buckets[b].bytes / sizeof(float);
        for (size_t i = begin; i < end; i++) {
            if (k->grads[i] != (float)sum_of(c->world, i + (size_t)step))
                return fail(ERR_INTERNAL, "reducer: step %d, bucket %d, element %zu differs", step,
                            b, i);
        }
    }
    reducer_wait_rest(k->reducer, &wait_s);
    for (size_t i = 0; i < BUFFER_FLOATS; i++)
        if (k->buffers[i] != (float)sum_of(c->world, i))
            return fail(ERR_INTERNAL, "reducer: statistics differ");
    for (size_t i = 0; i < METRICS; i++)
        if (k->metrics[i] != sum_of(c->world, i) + 0.5 * c->world)
            return fail(ERR_INTERNAL, "reducer: metrics differ");
    ReducerTrace trace;
    reducer_trace(k->reducer, &trace);
    const CommJob *large = reducer_job(k->reducer, 3);
    bool ordered = large->posted_s <= large->started_s && large->started_s <= large->finished_s;
    if (!ordered || wait_s < 0) return fail(ERR_INTERNAL, "reducer: times are not in order");
    if (trace.overlap > k->best_overlap) k->best_overlap = trace.overlap;
    return OK;
}

static Status check_reducer(Comm *c)
{
    ReducerCase k = { 0 };
    Status status = make_reducer(&k, c);
    int64_t allocations = mem_allocation_count();
    for (int step = 0; step < STEPS && status == OK; step++) {
        fake_backward(&k, c, step);
        status = check_step(&k, c, step);
    }
    if (status == OK && k.best_overlap < 0.9)
        status =
            fail(ERR_INTERNAL, "reducer: at best %.2f of the bytes started before backward ended",
                 k.best_overlap);
    if (status == OK && mem_allocation_count() != allocations)
        status = fail(ERR_INTERNAL, "reducer allocates in steps");
    reducer_destroy(k.reducer);
    mem_free(k.grads);
    mem_free(k.buffers);
    return status;
}

/* ---- modes ---- */

static Status run_all(Comm *c)
{
    comm_set_timeout(c, CHECK_TIMEOUT_S);
    TRY(check_operations(c));
    TRY(check_reducer(c));
    if (c->local_world != c->world || c->local_rank != c->rank)
        return fail(ERR_INTERNAL, "local ranks are wrong");
    return OK;
}

static Status run_agree(Comm *c)
{
    comm_set_timeout(c, CHECK_TIMEOUT_S);
    if (comm_agree(c, OK) != OK) return fail(ERR_INTERNAL, "ranks without an error do not agree");
    Status mine = c->rank == c->world - 1 ? fail(ERR_DATA, "no such folder: of-this-rank") : OK;
    return comm_agree(c, mine);
}

static Status run_hang(Comm *c)
{
    float x = 1;
    comm_set_timeout(c, HANG_TIMEOUT_S);
    comm_set_progress(c, 41, "backward");
    comm_barrier(c, "start");
    if (c->rank == c->world - 1) clock_sleep_s(HANG_SLEEP_S);
    comm_allreduce(c, &x, 1, COMM_F32, COMM_SUM, "bucket 7");
    return OK;
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Status run_bench(Comm *c)
{
    static const struct {
        size_t megabytes;
        int rounds;
    } rows[] = { { 1, 100 }, { 10, 20 }, { 100, 5 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t count = rows[i].megabytes << 18;
        float *x = mem_calloc(count, sizeof(float));
        if (x == NULL) return ERR_MEMORY;
        comm_allreduce(c, x, count, COMM_F32, COMM_SUM, "warm up");
        comm_barrier(c, "begin");
        double begin_s = clock_s(), begin_cpu_s = cpu_s();
        for (int k = 0; k < rows[i].rounds; k++)
            comm_allreduce(c, x, count, COMM_F32, COMM_SUM, "bench");
        double s = (clock_s() - begin_s) / rows[i].rounds,
               cpu = (cpu_s() - begin_cpu_s) / rows[i].rounds;
        comm_allreduce(c, &cpu, 1, COMM_F64, COMM_SUM, "CPU time");
        if (c->rank == 0)
            log_info("%d ranks, %zu MB: %.2f ms, %.2f GB/s, CPU %.2f ms a rank", c->world,
                     rows[i].megabytes, 1e3 * s, 1e-9 * (double)(count * sizeof(float)) / s,
                     1e3 * cpu / c->world);
        mem_free(x);
    }
    return OK;
}

typedef struct Mode {
    const char *name;
    Status (*run)(Comm *c);
} Mode;

static const Mode modes[] = {
    { "all", run_all },     { "agree", run_agree },         { "hang", run_hang },
    { "bench", run_bench }, { "device", commcheck_device }, { "devicehang", commcheck_device_hang },
};

int main(int argc, char **argv)
{
    Comm *c = NULL;
    Status status = fail(ERR_USAGE, "make_commcheck all|agree|hang|bench|device|devicehang");
    for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) != 0) continue;
        status = comm_create(&c, 0, NULL);
        if (status == OK) status = modes[i].run(c);
    }
    if (status != OK) log_error("%s", status_message());
    else if (c != NULL && c->rank == 0) log_info("%s: %d ranks by %s", argv[1], c->world, c->name);
    /* peers may wait for this rank */
    if (status == ERR_INTERNAL && c != NULL) comm_abort(c, status_exit_code(status));
    comm_destroy(c);
    return status_exit_code(status);
}
