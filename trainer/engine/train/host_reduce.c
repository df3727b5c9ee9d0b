/* host_reduce.c - see host_reduce.h. */
#include "trainer/engine/train/host_reduce.h"
#include "base/clock.h"
#include "base/mem.h"

#define POLL_S 50e-6

struct HostReduce {
    Executor *executor;
    Backend *backend;
    int bucket_count;
    void *memory[SLAB_COUNT]; /* pinned */
    Event **fetched;          /* [buckets and running statistics] */
};

static Status fill_host_reduce(HostReduce *s)
{
    static const Slab slabs[] = { SLAB_GRAD, SLAB_BUFFER };
    const DeviceVTable *d = s->backend->v->device;
    s->fetched = mem_calloc((size_t)s->bucket_count + 1, sizeof(Event *));
    if (!s->fetched) return ERR_MEMORY;
    for (int k = 0; k <= s->bucket_count; k++) TRY(d->event_create(s->backend, &s->fetched[k]));
    for (int i = 0; i < 2; i++) {
        const size_t bytes = executor_slab_bytes(s->executor, slabs[i]);
        if (bytes > 0) TRY(d->alloc_pinned(s->backend, bytes, &s->memory[slabs[i]]));
    }
    return OK;
}

Status host_reduce_create(HostReduce **out, Executor *x, int bucket_count)
{
    HostReduce *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    *s =
        (HostReduce){ .executor = x, .backend = executor_backend(x), .bucket_count = bucket_count };
    Status status = fill_host_reduce(s);
    if (status != OK) {
        host_reduce_destroy(s);
        *out = NULL;
    }
    return status;
}

void host_reduce_destroy(HostReduce *s)
{
    if (!s) return;
    const DeviceVTable *d = s->backend->v->device;
    for (int k = 0; s->fetched && k <= s->bucket_count; k++)
        if (s->fetched[k]) d->event_destroy(s->backend, s->fetched[k]);
    for (int i = 0; i < SLAB_COUNT; i++)
        if (s->memory[i]) d->free_pinned(s->backend, s->memory[i]);
    mem_free(s->fetched);
    mem_free(s);
}

void *host_reduce_memory(const HostReduce *s, Slab slab)
{
    return s->memory[slab];
}

static Event *event_of(const HostReduce *s, const SumRange *r)
{
    return s->fetched[r->of == SUM_GRADS ? r->index : s->bucket_count];
}

Status host_reduce_fetch(HostReduce *s, const SumRange *r, Stream *stream)
{
    const DeviceVTable *d = s->backend->v->device;
    const char *from = executor_slab(s->executor, r->slab);
    TRY(d->copy_out(s->backend, (char *)s->memory[r->slab] + r->offset, from + r->offset, r->bytes,
                    stream));
    return d->event_record(s->backend, event_of(s, r), stream);
}

Status host_reduce_wait(HostReduce *s, const SumRange *r)
{
    /* Waiting for the stream would wait for the copies of later buckets too. */
    for (bool done = false;;) {
        TRY(s->backend->v->device->event_done(s->backend, event_of(s, r), &done));
        if (done) return OK;
        clock_sleep_s(POLL_S);
    }
}

Status host_reduce_return(HostReduce *s, const SumRange *r, Stream *stream)
{
    char *to = executor_slab(s->executor, r->slab);
    return s->backend->v->device->copy_in(s->backend, to + r->offset,
                                          (char *)s->memory[r->slab] + r->offset, r->bytes, stream);
}
