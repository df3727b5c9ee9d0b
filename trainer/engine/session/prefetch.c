/* prefetch.c - see prefetch.h. Batches are counted from 0 in each of three stages: loaded (the copy
 * is enqueued), given (to the caller), done (the run that reads it is enqueued); batch n lies in
 * slot n % 2. */
#include "trainer/engine/session/prefetch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include <stddef.h>

#define POLL_S              50e-6
#define MARKS               2
#define PINNED_MAX          8 /* loader slots */
#define DEVICE_LOADER_SLOTS 4
/* the loader's boxes and values are the operation's */
_Static_assert(sizeof(EraseBox) == ERASE_COUNT * sizeof(int32_t), "boxes");
_Static_assert(offsetof(EraseBox, key) == ERASE_KEY_LOW * sizeof(int32_t), "boxes");
_Static_assert(sizeof(MixValues) == MIX_COUNT * sizeof(float), "mix");
_Static_assert(offsetof(MixValues, box) == MIX_BOX * sizeof(float), "mix");
_Static_assert(offsetof(MixValues, right) == MIX_RIGHT * sizeof(float), "mix");

typedef struct Slot {
    void *block; /* device */
    Event *ready, *consumed;
    Event *copy_start, *copy_end; /* timers, made when the first copy is traced */
    bool traced;
    Batch batch;
    bool held; /* the loader's slot is still being copied */
} Slot;

typedef struct PinnedBlock {
    void *data;
    size_t bytes;
    bool used;
} PinnedBlock;

struct Prefetch {
    Executor *executor;
    Backend *backend;
    const DeviceVTable *device; /* NULL: host memory */
    Loader *loader;
    size_t slot_bytes;  /* of a batch, at most */
    BatchLayout layout; /* of the loader at hand */
    int64_t loaded, given, done;
    Slot slots[PROGRAM_SLOTS];
    Event *ends[MARKS];
    int64_t marked, waited;
    Batch batch; /* host memory: the one that is given */
    PinnedBlock pinned[PINNED_MAX];
    int pinned_count;
    Trace *trace;
    int trace_lane;
};

/* ---- pinned memory for loaders ---- */

static void *take_pinned(void *cookie, size_t bytes)
{
    Prefetch *p = cookie;
    for (int i = 0; i < p->pinned_count; i++) {
        PinnedBlock *block = &p->pinned[i];
        if (block->used || block->bytes < bytes) continue;
        block->used = true;
        return block->data;
    }
    if (p->pinned_count == PINNED_MAX) return NULL;
    PinnedBlock *block = &p->pinned[p->pinned_count];
    block->bytes = bytes < p->slot_bytes ? p->slot_bytes : bytes; /* serves every loader to come */
    if (p->device->alloc_pinned(p->backend, block->bytes, &block->data) != OK) return NULL;
    block->used = true;
    p->pinned_count++;
    return block->data;
}

static void give_pinned(void *cookie, void *data)
{
    Prefetch *p = cookie;
    for (int i = 0; i < p->pinned_count; i++)
        if (p->pinned[i].data == data) p->pinned[i].used = false;
}

int prefetch_loader_slots(const Backend *b, const LoaderOptions *o)
{
    return b->v->device ? DEVICE_LOADER_SLOTS : o->slots;
}

void prefetch_loader_options(Prefetch *p, LoaderOptions *o)
{
    p->layout = loader_layout(o);
    ASSERT(p->layout.bytes <= p->slot_bytes);
    if (!p->device) return;
    o->allocator = (SlotAllocator){ .alloc = take_pinned, .free = give_pinned, .cookie = p };
    o->slots = prefetch_loader_slots(p->backend, o);
}

/* ---- life ---- */

size_t prefetch_device_bytes(const Backend *b, size_t bytes)
{
    return b->v->device ? PROGRAM_SLOTS * bytes : 0;
}

static Status create_slot(Prefetch *p, Slot *slot)
{
    Backend *b = p->backend;
    TRY(b->v->alloc(b, p->slot_bytes, &slot->block));
    TRY(p->device->event_create(b, &slot->ready));
    return p->device->event_create(b, &slot->consumed);
}

Status prefetch_create(Prefetch **out, Executor *x, size_t bytes)
{
    Backend *b = executor_backend(x);
    Prefetch *p = *out = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    *p = (Prefetch){ .executor = x, .backend = b, .device = b->v->device, .slot_bytes = bytes };
    Status status = OK;
    for (int i = 0; p->device && i < PROGRAM_SLOTS && status == OK; i++)
        status = create_slot(p, &p->slots[i]);
    for (int i = 0; p->device && i < MARKS && status == OK; i++)
        status = p->device->event_create(b, &p->ends[i]);
    if (status != OK) {
        prefetch_destroy(p);
        *out = NULL;
    }
    return status;
}

void prefetch_destroy(Prefetch *p)
{
    if (!p) return;
    Backend *b = p->backend;
    for (int i = 0; p->device && i < PROGRAM_SLOTS; i++) {
        Slot *slot = &p->slots[i];
        if (slot->block) b->v->free(b, slot->block);
        if (slot->ready) p->device->event_destroy(b, slot->ready);
        if (slot->consumed) p->device->event_destroy(b, slot->consumed);
        if (slot->copy_start) p->device->event_destroy(b, slot->copy_start);
        if (slot->copy_end) p->device->event_destroy(b, slot->copy_end);
    }
    for (int i = 0; i < MARKS; i++) {
        if (p->ends[i]) p->device->event_destroy(b, p->ends[i]);
    }
    for (int i = 0; i < p->pinned_count; i++) p->device->free_pinned(b, p->pinned[i].data);
    mem_free(p);
}

Status prefetch_attach(Prefetch *p, Loader *loader)
{
    if (p->device && p->loader)
        TRY(p->backend->v->stream_wait(p->backend, executor_lane(p->executor, LANE_COPY)));
    /* the loader frees what it lent */
    for (int i = 0; i < PROGRAM_SLOTS; i++) p->slots[i].held = false;
    p->loaded = p->given = p->done;
    p->loader = loader;
    return OK;
}

/* ---- device ---- */

static Slot *slot_of(Prefetch *p, int64_t batch)
{
    return &p->slots[batch % PROGRAM_SLOTS];
}

/* ---- tracing ---- */

void prefetch_trace(Prefetch *p, Trace *trace, const char *lane)
{
    p->trace = trace;
    p->trace_lane = trace_lane(trace, lane, true);
}

static Status begin_copy(Prefetch *p, Slot *slot, Stream *copy)
{
    slot->traced = trace_on(p->trace);
    if (!slot->traced) return OK;
    if (!slot->copy_start) TRY(p->device->timer_create(p->backend, &slot->copy_start));
    if (!slot->copy_end) TRY(p->device->timer_create(p->backend, &slot->copy_end));
    return p->device->event_record(p->backend, slot->copy_start, copy);
}

static Status tell_copy(Prefetch *p, Slot *slot)
{
    double start_s, end_s;
    if (!slot->traced) return OK;
    slot->traced = false;
    TRY(executor_event_time(p->executor, slot->copy_start, &start_s));
    TRY(executor_event_time(p->executor, slot->copy_end, &end_s));
    trace_add(p->trace, p->trace_lane, "batch to the device", slot->batch.step + 1, start_s, end_s);
    return OK;
}

/* Gives loader slots back in order, as far as their copies are done. */
static Status release_copied(Prefetch *p)
{
    for (int64_t n = p->loaded - PROGRAM_SLOTS; n < p->loaded; n++) {
        if (n < 0 || !slot_of(p, n)->held) continue;
        Slot *slot = slot_of(p, n);
        bool copied = false;
        TRY(p->device->event_done(p->backend, slot->ready, &copied));
        if (!copied) return OK;
        TRY(tell_copy(p, slot));
        loader_release(p->loader, &slot->batch);
        slot->held = false;
    }
    return OK;
}

static Status wait_for_copy(Prefetch *p, Slot *slot)
{
    while (slot->held) {
        TRY(release_copied(p));
        if (slot->held) clock_sleep_s(POLL_S);
    }
    return OK;
}

/* Takes the loader's next batch and enqueues its copy. */
static Status load(Prefetch *p, bool *more, double *wait_s)
{
    const DeviceVTable *d = p->device;
    Stream *copy = executor_lane(p->executor, LANE_COPY);
    Slot *slot = slot_of(p, p->loaded);
    TRY(wait_for_copy(p, slot));
    TRY(loader_next(p->loader, &slot->batch, more, wait_s));
    if (!*more) return OK;
    slot->held = true;
    if (p->loaded >= PROGRAM_SLOTS) TRY(d->event_wait(p->backend, slot->consumed, copy));
    TRY(begin_copy(p, slot, copy));
    TRY(d->copy_in(p->backend, slot->block, slot->batch.block, p->layout.bytes, copy));
    if (slot->traced) TRY(d->event_record(p->backend, slot->copy_end, copy));
    TRY(d->event_record(p->backend, slot->ready, copy));
    p->loaded++;
    return OK;
}

/* While the device still works, waiting for the loader costs nothing. */
static Status wait_while_busy(Prefetch *p)
{
    bool idle = p->marked == p->waited;
    while (!idle) {
        if (loader_ready_batches(p->loader) > 0) return OK;
        TRY(p->device->event_done(p->backend, p->ends[(p->marked - 1) % MARKS], &idle));
        if (!idle) clock_sleep_s(POLL_S);
    }
    return OK;
}

PrefetchInput prefetch_slot(const Prefetch *p, int64_t ahead)
{
    int number = (int)((p->given + ahead) % PROGRAM_SLOTS);
    return (PrefetchInput){ .slot = number, .layout = &p->layout, .block = p->slots[number].block };
}

static void tell_counts(PrefetchInput *out, const Batch *batch)
{
    out->count = batch->count;
    out->bad = batch->bad;
    out->tokens = batch->tokens;
    out->masked = batch->masked;
}

static Status next_on_device(Prefetch *p, PrefetchInput *out, bool *more, double *wait_s)
{
    Slot *slot = slot_of(p, p->given);
    *out = prefetch_slot(p, 0);
    *more = true;
    if (p->loaded == p->given) TRY(wait_while_busy(p));
    if (p->loaded == p->given) TRY(load(p, more, wait_s));
    if (!*more) return OK;
    p->given++;
    tell_counts(out, &slot->batch);
    return p->device->event_wait(p->backend, slot->ready, executor_lane(p->executor, LANE_COMPUTE));
}

/* Starts the copy of the next batch if it is decoded. *ahead: nothing is left to start. An error is
 * left to prefetch_next(), which gets it again. */
static Status poll(Prefetch *p, bool *ahead)
{
    bool more = true;
    TRY(release_copied(p));
    *ahead = p->loaded > p->done;
    if (*ahead) return OK;
    *ahead = loader_ready_batches(p->loader) > 0;
    if (*ahead) (void)load(p, &more, NULL);
    return OK;
}

static Status wait_on_device(Prefetch *p)
{
    const bool newest = p->marked == p->waited + 1; /* then nothing else is under way */
    bool ahead = false, ended = false;
    for (;;) {
        TRY(poll(p, &ahead));
        if (!ahead || !newest)
            TRY(p->device->event_done(p->backend, p->ends[p->waited % MARKS], &ended));
        if (ended || (ahead && newest)) break;
        clock_sleep_s(POLL_S);
    }
    if (newest) TRY(executor_wait(p->executor));
    p->waited++;
    return release_copied(p);
}

/* ---- both ---- */

Status prefetch_next(Prefetch *p, PrefetchInput *out, bool *more, double *wait_s)
{
    if (p->device) return next_on_device(p, out, more, wait_s);
    *out = (PrefetchInput){ 0 };
    TRY(loader_next(p->loader, &p->batch, more, wait_s));
    if (!*more) return OK;
    p->given++;
    *out = (PrefetchInput){ .layout = &p->layout, .block = p->batch.block };
    tell_counts(out, &p->batch);
    return OK;
}

Status prefetch_done(Prefetch *p)
{
    int64_t batch = p->done++;
    if (p->device) {
        bool ahead;
        Stream *compute = executor_lane(p->executor, LANE_COMPUTE);
        TRY(p->device->event_record(p->backend, slot_of(p, batch)->consumed, compute));
        return p->loader ? poll(p, &ahead) : OK;
    }
    loader_release(p->loader, &p->batch);
    return OK;
}

void prefetch_skip(Prefetch *p, int64_t batches)
{
    p->given += batches;
    p->done += batches;
    if (p->loaded < p->given) p->loaded = p->given;
}

Status prefetch_mark(Prefetch *p, Event **end)
{
    *end = p->ends[p->marked % MARKS];
    if (!p->device) return OK;
    ASSERT(p->marked - p->waited < MARKS);
    p->marked++;
    return p->device->event_record(p->backend, *end, executor_lane(p->executor, LANE_COMPUTE));
}

Status prefetch_wait(Prefetch *p)
{
    return p->device ? wait_on_device(p) : executor_wait(p->executor);
}
