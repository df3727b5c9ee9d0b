/* bench_sums.c - see bench_sums.h. */
#include "trainer/app/cmd/bench/bench_sums.h"
#include "base/mem.h"
#include "trainer/engine/session/bind.h"
#include <string.h>

#define PERIOD 7 /* of the values that are summed */

static Status open_device(BenchSums *s, const Config *c)
{
    const DeviceVTable *d;
    TRY(device_open(&s->backend, &s->choice, c, 1));
    d = s->backend->v->device;
    TRY(s->backend->v->stream_create(s->backend, LANE_COMM, &s->stream));
    return d->event_create(s->backend, &s->end);
}

Status bench_sums_join(BenchSums *s, const Config *c)
{
    DeviceCommTransport transport;
    s->type = DTYPE_F32;
    TRY(comm_agree(s->comm,
                   device_choose(&s->choice, c, s->comm->local_rank, device_cpu_bf16(s->comm))));
    TRY(bind_ranks(s->comm, c, s->choice.index));
    if (!s->choice.cuda) return OK;
    TRY(comm_agree(s->comm, open_device(s, c)));
    TRY(device_comm_choose(&transport, s->comm, s->backend->v->device->device_index(s->backend)));
    if (transport == DEVICE_COMM_STAGED) return OK;
    TRY(device_comm_create(&s->device, s->comm, s->backend, transport, (int)c->comm.max_ctas));
    const Session as_training = {
        .config = c, .comm = s->comm, .device = s->choice, .device_comm = s->device
    };
    s->registered = session_sums_registered(&as_training);
    s->type = session_allreduce_dtype(&as_training);
    ASSERT(s->type == DTYPE_F32 || s->type == DTYPE_BF16);
    return OK;
}

static Status allocate_sums(BenchSums *s, size_t bytes, void **out)
{
    return s->registered ? device_comm_alloc(s->device, bytes, out)
                         : s->backend->v->alloc(s->backend, bytes, out);
}

Status bench_sums_allocate(BenchSums *s, size_t count, bool scratch)
{
    const size_t bytes = count * sizeof(float);
    void *memory = NULL;
    if (!s->device) {
        s->data = s->host = mem_calloc(count, sizeof *s->data);
        return s->data ? OK : ERR_MEMORY;
    }
    TRY(allocate_sums(s, bytes, &memory));
    s->data = memory;
    if (scratch && s->type != DTYPE_F32)
        TRY(allocate_sums(s, count * dtype_bytes(s->type), &s->scratch));
    TRY(s->backend->v->device->alloc_pinned(s->backend, bytes, &memory));
    s->host = memory;
    return OK;
}

Status bench_sums_allocate_from(BenchSums *s, size_t count)
{
    void *memory = NULL;
    if (s->device) TRY(allocate_sums(s, count * sizeof(float), &memory));
    else if (!(memory = mem_calloc(count, sizeof *s->from))) return ERR_MEMORY;
    s->from = memory;
    return OK;
}

Status bench_sums_wait(BenchSums *s)
{
    if (!s->device) return OK;
    TRY(s->backend->v->device->event_record(s->backend, s->end, s->stream));
    device_comm_watch(s->device, s->end, "bench");
    return s->backend->v->stream_wait(s->backend, s->stream);
}

/* From what host holds; what the sum is to overwrite is 0. */
static Status fill_sums(BenchSums *s, size_t bytes)
{
    const DeviceVTable *d = s->device ? s->backend->v->device : NULL;
    if (d) return d->copy_in(s->backend, s->apart ? s->from : s->data, s->host, bytes, s->stream);
    if (!s->apart) return OK;
    memcpy(s->from, s->host, bytes);
    memset(s->data, 0, bytes);
    return OK;
}

/* Element i of rank r is (r + 1) * (i % PERIOD + 1); in 16 bits, which hold less, of all ranks that
 * of rank 0. */
Status bench_sums_check(BenchSums *s, size_t count, DType type, Status (*sum)(void *cookie),
                        void *cookie, int64_t *wrong)
{
    const size_t bytes = count * sizeof(float);
    const bool alike = type != DTYPE_F32;
    const double ranks = alike ? s->comm->world : 0.5 * s->comm->world * (s->comm->world + 1);
    const DeviceVTable *d = s->device ? s->backend->v->device : NULL;
    for (size_t i = 0; i < count; i++)
        s->host[i] = (float)((alike ? 1 : s->comm->rank + 1) * (int)(i % PERIOD + 1));
    TRY(fill_sums(s, bytes));
    TRY(sum(cookie));
    if (d) TRY(d->copy_out(s->backend, s->host, s->data, bytes, s->stream));
    TRY(bench_sums_wait(s));
    *wrong = 0;
    for (size_t i = 0; i < count; i++)
        *wrong += !((double)s->host[i] == ranks * (double)(i % PERIOD + 1));
    for (size_t i = 0; i < count; i++) s->host[i] = 0;
    TRY(fill_sums(s, bytes));
    if (d && s->apart) TRY(d->copy_in(s->backend, s->data, s->host, bytes, s->stream));
    TRY(bench_sums_wait(s));
    comm_allreduce(s->comm, wrong, 1, COMM_I64, COMM_SUM, "bench");
    return OK;
}

void bench_sums_close(BenchSums *s)
{
    const BackendVTable *v = s->backend ? s->backend->v : NULL;
    if (s->device && s->host) v->device->free_pinned(s->backend, s->host);
    if (s->device && s->data && !s->registered) v->free(s->backend, s->data);
    if (s->device && s->from && !s->registered) v->free(s->backend, s->from);
    if (!s->device) mem_free(s->from);
    if (s->device && s->scratch && !s->registered) v->free(s->backend, s->scratch);
    if (!s->device) mem_free(s->data);
    device_comm_destroy(s->device);
    if (s->end) v->device->event_destroy(s->backend, s->end);
    if (s->stream) v->stream_destroy(s->backend, s->stream);
    backend_destroy(s->backend);
}
