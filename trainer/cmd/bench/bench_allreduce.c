/* bench_allreduce.c - sums over the ranks by themselves, in the columns of nccl-tests'
 * all_reduce_perf.
 *
 * Sums are in place, as in training; the columns for sums out of place, which nccl-tests measures
 * first, say N/A, so that scripts find the others where they look for them. Times are means over
 * --steps sums, of the slowest rank. #wrong comes from a sum of its own, over whole numbers that
 * f32 holds exactly. */
#include "base/clock.h"
#include "base/log.h"
#include "trainer/cmd/bench/bench.h"
#include "trainer/cmd/bench/bench_sums.h"

typedef struct Sum {
    BenchSums *sums;
    size_t count;
} Sum;

static Status sum(void *cookie)
{
    const Sum *one = cookie;
    BenchSums *s = one->sums;
    if (s->device)
        return device_comm_allreduce(s->device, s->data, one->count, DTYPE_F32, s->stream, "bench");
    comm_allreduce(s->comm, s->data, one->count, COMM_F32, COMM_SUM, "bench");
    return OK;
}

/* Mean seconds of the slowest rank. */
static Status time_sums(BenchSums *s, size_t count, int64_t repeats, double *seconds)
{
    Sum one = { s, count };
    comm_barrier(s->comm, "bench");
    double start = clock_s();
    for (int64_t i = 0; i < repeats; i++) TRY(sum(&one));
    TRY(bench_sums_wait(s));
    *seconds = repeats > 0 ? (clock_s() - start) / (double)repeats : 0;
    comm_allreduce(s->comm, seconds, 1, COMM_F64, COMM_MAX, "bench");
    return OK;
}

/* ---- the table ---- */

static void print_head(const BenchSums *s, const BenchOptions *o, size_t largest)
{
    const char *group = "   time   algbw   busbw #wrong";
    log_info(
        "# nThread 1 nGpus 1 minBytes %lld maxBytes %zu step: 2(factor) warmup iters: %lld iters: "
        "%lld validation: 1",
        (long long)o->min_bytes, largest, (long long)o->warmup, (long long)o->steps);
    log_info("# %d ranks, summed by %s%s", s->comm->world,
             s->device ? "NCCL" : "MPI on host memory",
             s->backend && !s->device ? " (ranks share a GPU, or there is no NCCL)" : "");
    log_info("# %53s  %30s  %30s", "", "out-of-place", "in-place");
    log_info("# %11s  %12s  %8s  %6s  %6s  %s  %s", "size", "count", "type", "redop", "root", group,
             group);
    log_info("# %11s  %12s  %8s  %6s  %6s  %s  %s", "(B)", "(elements)", "", "", "",
             "   (us)  (GB/s)  (GB/s)       ", "   (us)  (GB/s)  (GB/s)       ");
}

static void print_row(size_t bytes, double seconds, double algbw, double busbw, int64_t wrong)
{
    log_info("%13zu  %12zu  %8s  %6s  %6d  %7s  %6s  %6s  %5s  %7.*f  %6.2f  %6.2f  %5lld", bytes,
             bytes / sizeof(float), "float", "sum", -1, "N/A", "N/A", "N/A", "N/A",
             seconds < 1e-2 ? 2 : 0, seconds * 1e6, algbw, busbw, (long long)wrong);
}

typedef struct Totals {
    double busbw_sum, busbw_last;
    int64_t wrong, sizes;
} Totals;

static Status measure_size(BenchSums *s, const BenchOptions *o, size_t bytes, Totals *t)
{
    const size_t count = bytes / sizeof(float);
    double ignored, seconds;
    int64_t wrong;
    TRY(bench_sums_check(s, count, DTYPE_F32, sum, &(Sum){ s, count }, &wrong));
    TRY(time_sums(s, count, o->warmup, &ignored));
    TRY(time_sums(s, count, o->steps, &seconds));
    double algbw = 1e-9 * (double)bytes / seconds,
           busbw = algbw * 2 * (s->comm->world - 1) / s->comm->world;
    print_row(bytes, seconds, algbw, busbw, wrong);
    t->busbw_sum += busbw;
    t->busbw_last = busbw;
    t->wrong += wrong;
    t->sizes++;
    return OK;
}

static Status judge(const Totals *t, double least)
{
    log_info("# Out of bounds values : %lld %s", (long long)t->wrong, t->wrong ? "FAILED" : "OK");
    log_info("# Avg bus bandwidth    : %g", t->busbw_sum / (double)t->sizes);
    if (t->wrong)
        return fail(ERR_HEALTH, "%lld elements of the sums are wrong", (long long)t->wrong);
    if (t->busbw_last >= least) return OK;
    return fail(ERR_HEALTH,
                "bus bandwidth of the largest size is %.2f GB/s, less than --min-busbw %g",
                t->busbw_last, least);
}

static Status measure(BenchSums *s, const BenchOptions *o, size_t largest)
{
    Totals t = { 0 };
    TRY(comm_agree(s->comm, bench_sums_allocate(s, largest / sizeof(float), false)));
    print_head(s, o, largest);
    size_t bytes = (size_t)o->min_bytes;
    do {
        TRY(measure_size(s, o, bytes, &t));
        if (bytes == largest) break;
        /* the largest itself is always among them */
        bytes = bytes > largest / 2 ? largest : 2 * bytes;
    } while (true);
    return judge(&t, o->min_busbw);
}

Status bench_allreduce(Comm *comm, const Config *c, const BenchOptions *o)
{
    if (o->like) return bench_like(comm, c, o);
    BenchSums s = { .comm = comm };
    size_t largest =
        o->max_bytes > 0 ? (size_t)o->max_bytes : (size_t)(c->comm.bucket_mb * (1 << 20));
    largest -= largest % sizeof(float);
    if (largest < (size_t)o->min_bytes)
        return fail(ERR_USAGE, "convoy bench: --max-bytes %zu is less than --min-bytes %lld",
                    largest, (long long)o->min_bytes);
    if (o->min_busbw > 0 && comm->world == 1)
        return fail(ERR_USAGE,
                    "convoy bench: --min-busbw needs at least two ranks: start it with mpirun");
    if (comm->world > BENCH_SUMS_RANKS)
        return fail(ERR_USAGE, "convoy bench allreduce: at most %d ranks", BENCH_SUMS_RANKS);
    Status status = bench_sums_join(&s, c);
    if (status == OK) status = measure(&s, o, largest);
    bench_sums_close(&s);
    return status;
}
