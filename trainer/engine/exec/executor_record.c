/* executor_record.c - records: small inputs that all programs share, and host memory that a device
 * can copy to and from while the host goes on. */
#include "base/mem.h"
#include "trainer/engine/exec/executor_internal.h"
#include <string.h>

Status executor_alloc_host(Executor *x, size_t bytes, void **out)
{
    Backend *b = x->backend;
    if (b->v->device) return b->v->device->alloc_pinned(b, bytes, out);
    return (*out = mem_calloc(1, bytes)) ? OK : ERR_MEMORY;
}

void executor_free_host(Executor *x, void *p)
{
    if (p && x->backend->v->device) x->backend->v->device->free_pinned(x->backend, p);
    else mem_free(p);
}

static Record *find(const Executor *x, const char *name)
{
    for (int i = 0; i < x->record_count; i++)
        if (strcmp(x->records[i]->name, name) == 0) return x->records[i];
    return NULL;
}

const OpTensor *executor_record(const Executor *x, const char *name)
{
    const Record *r = find(x, name);
    return r ? &r->tensor : NULL;
}

static Status add_record(Executor *x, const char *name, const OpTensor *like)
{
    Backend *b = x->backend;
    if (x->record_count == EXECUTOR_RECORDS_MAX)
        return fail(ERR_INTERNAL, "more than %d constant inputs", EXECUTOR_RECORDS_MAX);
    Record *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    x->records[x->record_count++] = r;
    *r = (Record){ .name = name,
                   .tensor = { .desc = like->desc, .layout = like->layout, .bytes = like->bytes },
                   .place_bytes = tensor_plain_bytes(&like->desc) };
    for (int i = 0; b->v->device && i < RECORD_RING; i++)
        TRY(b->v->device->event_create(b, &r->copied[i]));
    TRY(b->v->alloc(b, r->tensor.bytes, &r->tensor.data));
    return executor_alloc_host(x, RECORD_RING * r->place_bytes, &r->ring);
}

Status executor_alloc_records(Executor *x)
{
    for (int i = 0; i < x->program_count; i++) {
        const Program *p = x->programs[i];
        for (TensorId id = 0; id < graph_tensor_count(p->graph); id++) {
            const GraphTensor *t = graph_tensor(p->graph, id);
            if (t->role == ROLE_INPUT && !executor_run_brings(t->name) && !find(x, t->name))
                TRY(add_record(x, t->name, &p->tensors[id]));
        }
    }
    return OK;
}

void executor_free_records(Executor *x)
{
    Backend *b = x->backend;
    for (int i = 0; i < x->record_count; i++) {
        Record *r = x->records[i];
        for (int k = 0; k < RECORD_RING; k++)
            if (r->copied[k]) b->v->device->event_destroy(b, r->copied[k]);
        if (r->tensor.data) b->v->free(b, r->tensor.data);
        executor_free_host(x, r->ring);
        mem_free(r);
    }
}

/* A place of the ring is free when its last copy is done, which is long ago unless the host runs
 * several steps ahead. */
static Status wait_for_place(Executor *x, const Record *r)
{
    bool done = false;
    TRY(x->backend->v->device->event_done(x->backend, r->copied[r->next], &done));
    return done ? OK : executor_wait(x);
}

Status executor_set_record(Executor *x, const char *name, const void *values)
{
    const DeviceVTable *d = x->backend->v->device;
    Record *r = find(x, name);
    ASSERT(r);
    if (d) TRY(wait_for_place(x, r));
    const int place = r->next;
    char *from = (char *)r->ring + (size_t)place * r->place_bytes;
    memcpy(from, values, r->place_bytes);
    r->next = (place + 1) % RECORD_RING;
    if (!d) return x->backend->v->import_tensor(x->backend, &r->tensor, from);
    TRY(d->copy_in(x->backend, r->tensor.data, from, r->place_bytes, x->lanes[LANE_COMPUTE]));
    return d->event_record(x->backend, r->copied[place], x->lanes[LANE_COMPUTE]);
}
