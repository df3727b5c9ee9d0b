/* host_reduce.c - see host_reduce.h. */
#include "trainer/engine/train/host_reduce.h"
#include "base/clock.h"
#include "base/mem.h"
#include <string.h>

#define POLL_S 50e-6

struct HostReduce {
    Executor *executor;
    Backend *backend;
    Bucket *buckets;
    int bucket_count;
    void *grads, *buffers; /* pinned */
    Event **fetched;       /* [buckets] */
};

static Status fill_host_reduce(HostReduce *s, const Bucket *buckets)
{
    const DeviceVTable *d = s->backend->v->device;
    size_t count = (size_t)s->bucket_count;
    s->buckets = mem_calloc(count + 1, sizeof *s->buckets);
    s->fetched = mem_calloc(count + 1, sizeof *s->fetched);
    if (!s->buckets || !s->fetched) return ERR_MEMORY;
    memcpy(s->buckets, buckets, count * sizeof *buckets);
    for (size_t k = 0; k < count; k++) TRY(d->event_create(s->backend, &s->fetched[k]));
    size_t grads = executor_slab_bytes(s->executor, SLAB_GRAD),
           buffers = executor_slab_bytes(s->executor, SLAB_BUFFER);
    TRY(d->alloc_pinned(s->backend, grads, &s->grads));
    return buffers > 0 ? d->alloc_pinned(s->backend, buffers, &s->buffers) : OK;
}

Status host_reduce_create(HostReduce **out, Executor *x, const Bucket *buckets, int bucket_count)
{
    HostReduce *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    *s =
        (HostReduce){ .executor = x, .backend = executor_backend(x), .bucket_count = bucket_count };
    Status status = fill_host_reduce(s, buckets);
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
    for (int k = 0; s->fetched && k < s->bucket_count; k++) {
        if (s->fetched[k]) d->event_destroy(s->backend, s->fetched[k]);
    }
    if (s->grads) d->free_pinned(s->backend, s->grads);
    if (s->buffers) d->free_pinned(s->backend, s->buffers);
    mem_free(s->fetched);
    mem_free(s->buckets);
    mem_free(s);
}

void *host_reduce_grads(const HostReduce *s)
{
    return s->grads;
}
void *host_reduce_buffers(const HostReduce *s)
{
    return s->buffers;
}

static char *on_device(const HostReduce *s, Slab slab, size_t offset)
{
    return (char *)executor_slab(s->executor, slab) + offset;
}

Status host_reduce_fetch(HostReduce *s, int bucket, Stream *stream)
{
    const DeviceVTable *d = s->backend->v->device;
    const Bucket *b = &s->buckets[bucket];
    TRY(d->copy_out(s->backend, (char *)s->grads + b->offset, on_device(s, SLAB_GRAD, b->offset),
                    b->bytes, stream));
    return d->event_record(s->backend, s->fetched[bucket], stream);
}

Status host_reduce_wait(HostReduce *s, int bucket)
{
    /* Waiting for the stream would wait for the copies of later buckets too. */
    for (bool done = false;;) {
        TRY(s->backend->v->device->event_done(s->backend, s->fetched[bucket], &done));
        if (done) return OK;
        clock_sleep_s(POLL_S);
    }
}

Status host_reduce_return(HostReduce *s, int bucket, Stream *stream)
{
    const Bucket *b = &s->buckets[bucket];
    return s->backend->v->device->copy_in(s->backend, on_device(s, SLAB_GRAD, b->offset),
                                          (char *)s->grads + b->offset, b->bytes, stream);
}

Status host_reduce_fetch_buffers(HostReduce *s, Stream *stream)
{
    size_t bytes = executor_slab_bytes(s->executor, SLAB_BUFFER);
    if (bytes == 0) return OK;
    TRY(s->backend->v->device->copy_out(s->backend, s->buffers, on_device(s, SLAB_BUFFER, 0), bytes,
                                        stream));
    return s->backend->v->stream_wait(s->backend, stream);
}

Status host_reduce_return_buffers(HostReduce *s, Stream *stream)
{
    size_t bytes = executor_slab_bytes(s->executor, SLAB_BUFFER);
    if (bytes == 0) return OK;
    return s->backend->v->device->copy_in(s->backend, on_device(s, SLAB_BUFFER, 0), s->buffers,
                                          bytes, stream);
}
