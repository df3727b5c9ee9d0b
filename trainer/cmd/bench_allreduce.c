/* bench_allreduce.c - sums over the ranks by themselves, in the columns of nccl-tests'
 * all_reduce_perf.
 *
 * Summed by what training would sum gradients with: NCCL where every rank has a GPU of its own,
 * else MPI on host memory (where ranks share a GPU, that is what their gradients take too). Sums
 * are in place, as in training; the columns for sums out of place, which nccl-tests measures first,
 * say N/A, so that scripts find the others where they look for them. Times are means over --steps
 * sums, of the slowest rank. #wrong comes from a sum of its own, over whole numbers that f32 holds
 * exactly. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/cmd/bench.h"
#include "trainer/comm/device_comm.h"
#include "trainer/session/device.h"
#include <math.h>
#include <stdio.h>

#define EXACT_RANKS 2000 /* up to here every sum of the check is exact */
#define PERIOD      7    /* of the values that are summed */

typedef struct Sums {
    Comm *comm;
    Backend *backend; /* NULL: host memory */
    DeviceComm *device;
    Stream *stream;
    Event *end;
    float *data; /* what is summed */
    float *host; /* where it is filled and checked: pinned, or data itself */
} Sums;

/* ---- a device's sums ---- */

static Status open_device(Sums *s, const Config *c, const DeviceChoice *choice)
{
    const DeviceVTable *d;
    TRY(device_open(&s->backend, choice, c, 1));
    d = s->backend->v->device;
    TRY(s->backend->v->stream_create(s->backend, LANE_COMM, &s->stream));
    return d->event_create(s->backend, &s->end);
}

static Status wait_for_device(Sums *s)
{
    TRY(s->backend->v->device->event_record(s->backend, s->end, s->stream));
    device_comm_watch(s->device, s->end, "bench");
    return s->backend->v->stream_wait(s->backend, s->stream);
}

/* Whether each rank has a device of its own and NCCL to sum with. */
static Status join_devices(Sums *s, const Config *c)
{
    DeviceChoice choice;
    DeviceCommTransport transport;
    TRY(comm_agree(s->comm,
                   device_choose(&choice, c, s->comm->local_rank, device_cpu_bf16(s->comm))));
    if (!choice.cuda) return OK;
    TRY(comm_agree(s->comm, open_device(s, c, &choice)));
    TRY(device_comm_choose(&transport, s->comm, s->backend->v->device->device_index(s->backend)));
    if (transport != DEVICE_COMM_STAGED)
        return device_comm_create(&s->device, s->comm, s->backend, transport,
                                  (int)c->comm.max_ctas);
    return OK;
}

static void close_sums(Sums *s)
{
    device_comm_destroy(s->device);
    const BackendVTable *v = s->backend ? s->backend->v : NULL;
    if (s->device) {
        if (s->host) v->device->free_pinned(s->backend, s->host);
        if (s->data) v->free(s->backend, s->data);
    } else {
        mem_free(s->data);
    }
    if (s->end) v->device->event_destroy(s->backend, s->end);
    if (s->stream) v->stream_destroy(s->backend, s->stream);
    backend_destroy(s->backend);
}

/* ---- both ---- */

static Status allocate(Sums *s, size_t bytes)
{
    void *memory = NULL;
    if (!s->device) {
        s->data = s->host = mem_calloc(bytes / sizeof *s->data, sizeof *s->data);
        return s->data ? OK : ERR_MEMORY;
    }
    TRY(s->backend->v->alloc(s->backend, bytes, &memory));
    s->data = memory;
    TRY(s->backend->v->device->alloc_pinned(s->backend, bytes, &memory));
    s->host = memory;
    return OK;
}

static Status sum(Sums *s, size_t count)
{
    if (s->device)
        return device_comm_allreduce(s->device, s->data, count, DTYPE_F32, s->stream, "bench");
    comm_allreduce(s->comm, s->data, count, COMM_F32, COMM_SUM, "bench");
    return OK;
}

/* Mean seconds of the slowest rank. */
static Status time_sums(Sums *s, size_t count, int64_t repeats, double *seconds)
{
    comm_barrier(s->comm, "bench");
    double start = clock_s();
    for (int64_t i = 0; i < repeats; i++) TRY(sum(s, count));
    if (s->device) TRY(wait_for_device(s));
    *seconds = repeats > 0 ? (clock_s() - start) / (double)repeats : 0;
    comm_allreduce(s->comm, seconds, 1, COMM_F64, COMM_MAX, "bench");
    return OK;
}

/* Element i of rank r is (r + 1) * (i % PERIOD + 1). */
static Status check_sums(Sums *s, size_t count, int64_t *wrong)
{
    const size_t bytes = count * sizeof(float);
    const double ranks = 0.5 * s->comm->world * (s->comm->world + 1);
    const DeviceVTable *d = s->device ? s->backend->v->device : NULL;
    for (size_t i = 0; i < count; i++)
        s->host[i] = (float)((s->comm->rank + 1) * (int)(i % PERIOD + 1));
    if (d) TRY(d->copy_in(s->backend, s->data, s->host, bytes, s->stream));
    TRY(sum(s, count));
    if (d) {
        TRY(d->copy_out(s->backend, s->host, s->data, bytes, s->stream));
        TRY(wait_for_device(s));
    }
    *wrong = 0;
    for (size_t i = 0; i < count; i++)
        *wrong += !((double)s->host[i] == ranks * (double)(i % PERIOD + 1));
    /* sums of sums that are timed next stay finite */
    for (size_t i = 0; i < count; i++) s->host[i] = 0;
    if (d) TRY(d->copy_in(s->backend, s->data, s->host, bytes, s->stream));
    if (d) TRY(wait_for_device(s));
    comm_allreduce(s->comm, wrong, 1, COMM_I64, COMM_SUM, "bench");
    return OK;
}

/* ---- the table ---- */

static void print_head(const Sums *s, const BenchOptions *o, size_t largest)
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

static Status measure_size(Sums *s, const BenchOptions *o, size_t bytes, Totals *t)
{
    const size_t count = bytes / sizeof(float);
    double ignored, seconds;
    int64_t wrong;
    TRY(check_sums(s, count, &wrong));
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

static Status measure(Sums *s, const BenchOptions *o, size_t largest)
{
    Totals t = { 0 };
    TRY(comm_agree(s->comm, allocate(s, largest)));
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
    Sums s = { .comm = comm };
    size_t largest =
        o->max_bytes > 0 ? (size_t)o->max_bytes : (size_t)(c->comm.bucket_mb * (1 << 20));
    largest -= largest % sizeof(float);
    if (largest < (size_t)o->min_bytes)
        return fail(ERR_USAGE, "convoy bench: --max-bytes %zu is less than --min-bytes %lld",
                    largest, (long long)o->min_bytes);
    if (o->min_busbw > 0 && comm->world == 1)
        return fail(ERR_USAGE,
                    "convoy bench: --min-busbw needs at least two ranks: start it with mpirun");
    if (comm->world > EXACT_RANKS)
        return fail(ERR_USAGE, "convoy bench allreduce: at most %d ranks", EXACT_RANKS);
    Status status = join_devices(&s, c);
    if (status == OK) status = measure(&s, o, largest);
    close_sums(&s);
    return status;
}
