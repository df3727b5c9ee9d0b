/* bench_allreduce.c - sums over the ranks by themselves, in the columns of nccl-tests'
 * all_reduce_perf, with its lines about devices before them.
 *
 * Times are means over --steps sums, of the slowest rank; first of sums out of place, as nccl-tests
 * does, then of those in place that training makes, of which --min-busbw judges. Where there is one
 * rank, a sum out of place would be a copy: N/A. #wrong comes from a sum of its own, over whole
 * numbers that f32 holds exactly. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/cmd/bench/bench_sums.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 256 };

typedef struct Sum {
    BenchSums *sums;
    size_t count;
} Sum;

static Status sum(void *cookie)
{
    const Sum *one = cookie;
    BenchSums *s = one->sums;
    if (s->device && s->apart)
        return device_comm_allreduce_from(s->device, s->from, s->data, one->count, DTYPE_F32,
                                          s->stream, "bench");
    if (s->device)
        return device_comm_allreduce(s->device, s->data, one->count, DTYPE_F32, s->stream, "bench");
    CommJob job = { .kind = COMM_ALLREDUCE,
                    .type = COMM_F32,
                    .op = COMM_SUM,
                    .data = s->data,
                    .from = s->apart ? s->from : NULL,
                    .count = one->count,
                    .name = "bench" };
    comm_post(s->comm, &job);
    comm_wait(s->comm, &job);
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

/* A line for each rank, as nccl-tests prints it: the host's part of the GPU's place ends at the
 * function's number. */
static Status print_devices(const BenchSums *s)
{
    char(*lines)[LINE_BYTES] FREED = mem_calloc((size_t)s->comm->world, sizeof *lines);
    char place[64] = "host memory", name[128] = "CPU";
    TRY(comm_agree(s->comm, lines ? OK : ERR_MEMORY));
    if (s->device) device_comm_bus_id(s->choice.index, place, sizeof place);
    if (s->device) place[strcspn(place, ".")] = '\0';
    if (s->backend) s->backend->v->describe(s->backend, name, sizeof name);
    snprintf(lines[s->comm->rank], sizeof *lines,
             "#  Rank %2d Group  0 Pid %6ld on %10s device %2d [%s] %.*s", s->comm->rank,
             (long)getpid(), process_host(), s->device ? s->choice.index : s->comm->local_rank,
             place, (int)strcspn(name, ","), name);
    comm_allgather(s->comm, lines, sizeof *lines, "bench: devices");
    log_info("#");
    log_info("# Using devices");
    for (int i = 0; i < s->comm->world; i++) log_info("%s", lines[i]);
    return OK;
}

static Status print_head(const BenchSums *s, const BenchOptions *o, size_t largest)
{
    const char *group = "   time   algbw   busbw #wrong";
    log_info("# nThread 1 nGpus 1 minBytes %lld maxBytes %zu step: %lld(factor) warmup iters: %lld "
             "iters: %lld agg iters: 1 validation: %lld graph: 0",
             (long long)o->min_bytes, largest, (long long)o->factor, (long long)o->warmup,
             (long long)o->steps, (long long)o->check);
    TRY(print_devices(s));
    log_info("#");
    log_info("# %d ranks, summed by %s%s", s->comm->world,
             s->device ? "NCCL" : "MPI on host memory",
             s->backend && !s->device ? " (ranks share a GPU, or there is no NCCL)" : "");
    log_info("# %53s  %30s  %30s", "", "out-of-place", "in-place");
    log_info("# %11s  %12s  %8s  %6s  %6s  %s  %s", "size", "count", "type", "redop", "root", group,
             group);
    log_info("# %11s  %12s  %8s  %6s  %6s  %s  %s", "(B)", "(elements)", "", "", "",
             "   (us)  (GB/s)  (GB/s)       ", "   (us)  (GB/s)  (GB/s)       ");
    return OK;
}

typedef struct Totals {
    double busbw_sum, busbw_last;
    int64_t wrong, groups;
} Totals;

/* Four columns. */
static Status measure_group(BenchSums *s, const BenchOptions *o, size_t bytes, Totals *t, char *out)
{
    const size_t count = bytes / sizeof(float);
    double ignored, seconds;
    int64_t wrong = 0;
    char counted[32] = "N/A";
    if (o->check) TRY(bench_sums_check(s, count, DTYPE_F32, sum, &(Sum){ s, count }, &wrong));
    if (o->check) snprintf(counted, sizeof counted, "%lld", (long long)wrong);
    TRY(time_sums(s, count, o->warmup, &ignored));
    TRY(time_sums(s, count, o->steps, &seconds));
    double algbw = 1e-9 * (double)bytes / seconds,
           busbw = algbw * 2 * (s->comm->world - 1) / s->comm->world;
    snprintf(out, LINE_BYTES, "%7.*f  %6.2f  %6.2f  %5s", seconds < 1e-2 ? 2 : 0, seconds * 1e6,
             algbw, busbw, counted);
    t->busbw_sum += busbw;
    t->busbw_last = busbw;
    t->wrong += wrong;
    t->groups++;
    return OK;
}

static Status measure_size(BenchSums *s, const BenchOptions *o, size_t bytes, Totals *t)
{
    char apart[LINE_BYTES], place[LINE_BYTES];
    snprintf(apart, sizeof apart, "%7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
    s->apart = s->from != NULL;
    if (s->apart) TRY(measure_group(s, o, bytes, t, apart));
    s->apart = false;
    TRY(measure_group(s, o, bytes, t, place));
    log_info("%13zu  %12zu  %8s  %6s  %6d  %s  %s", bytes, bytes / sizeof(float), "float", "sum",
             -1, apart, place);
    return OK;
}

static Status judge(const Totals *t, double least)
{
    log_info("# Out of bounds values : %lld %s", (long long)t->wrong, t->wrong ? "FAILED" : "OK");
    log_info("# Avg bus bandwidth    : %g", t->busbw_sum / (double)t->groups);
    if (t->wrong)
        return fail(ERR_HEALTH, "%lld elements of the sums are wrong", (long long)t->wrong);
    if (t->busbw_last >= least) return OK;
    return fail(ERR_HEALTH,
                "bus bandwidth of the largest size is %.2f GB/s, less than --min-busbw %g",
                t->busbw_last, least);
}

static Status measure_allreduce(BenchSums *s, const BenchOptions *o, size_t largest)
{
    Totals t = { 0 };
    const size_t factor = (size_t)o->factor, count = largest / sizeof(float);
    Status status = bench_sums_allocate(s, count, false);
    if (status == OK && s->comm->world > 1) status = bench_sums_allocate_from(s, count);
    TRY(comm_agree(s->comm, status));
    TRY(print_head(s, o, largest));
    size_t bytes = (size_t)o->min_bytes;
    do {
        TRY(measure_size(s, o, bytes, &t));
        if (bytes == largest) break;
        /* the largest itself is always among them */
        bytes = bytes > largest / factor ? largest : factor * bytes;
    } while (true);
    return judge(&t, o->min_busbw);
}

Status bench_allreduce(Comm *comm, const Config *c, const BenchOptions *o)
{
    if (o->like) return bench_like(comm, c, o);
    BenchSums s FREED_BY(bench_sums_close) = { .comm = comm };
    size_t largest =
        o->max_bytes > 0 ? (size_t)o->max_bytes : (size_t)(c->comm.bucket_mb * (1 << 20));
    largest -= largest % sizeof(float);
    if (largest < (size_t)o->min_bytes)
        return fail(ERR_USAGE, "--max-bytes %zu is less than --min-bytes %lld", largest,
                    (long long)o->min_bytes);
    if (o->min_busbw > 0 && comm->world == 1)
        return fail(ERR_USAGE, "--min-busbw needs at least two ranks; start it with mpirun");
    if (comm->world > BENCH_SUMS_RANKS)
        return fail(ERR_USAGE, "at most %d ranks", BENCH_SUMS_RANKS);
    TRY(bench_sums_join(&s, c));
    return measure_allreduce(&s, o, largest);
}
