/* prefetch.c - see prefetch.h. Batches are counted from 0 in each of three stages: loaded (the copy
 * is enqueued), given (to the caller), done (the run that reads it is enqueued); batch n lies in
 * slot n % 2. */
#include "trainer/session/prefetch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include <string.h>

#define POLL_S              50e-6
#define MARKS               2
#define PINNED_MAX          8 /* loader slots */
#define DEVICE_LOADER_SLOTS 4
/* of MIX_COUNT floats, with what aligns the boxes behind them */
#define MIX_BYTES ((size_t)64)
_Static_assert(MIX_COUNT * sizeof(float) <= 64, "mix");
_Static_assert(sizeof(EraseBox) == ERASE_COUNT * sizeof(int32_t),
               "the loader's boxes are the operation's");

typedef struct Slot {
    void *images, *labels;   /* device */
    void *augment_data;      /* device; NULL unless batches are augmented: mix, then the boxes */
    char *host_augment_data; /* pinned */
    int32_t *host_labels;    /* pinned; the loader's own are not */
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
    size_t slot_bytes;               /* images of a batch, at most */
    size_t image_bytes, label_bytes; /* of a batch of the loader at hand */
    size_t augment_bytes;            /* 0: batches are not augmented */
    float mix[MIX_COUNT];            /* host memory: of the batch that is given */
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
    const size_t size = (size_t)o->view.image_size;
    p->image_bytes = (size_t)o->batch * size * size * (size_t)o->view.channels;
    ASSERT(p->image_bytes <= p->slot_bytes);
    if (!p->device) return;
    o->allocator = (SlotAllocator){ .alloc = take_pinned, .free = give_pinned, .cookie = p };
    o->slots = prefetch_loader_slots(p->backend, o);
}

/* ---- life ---- */

static size_t augment_bytes_of(int64_t batch, bool augmented)
{
    return augmented ? MIX_BYTES + (size_t)batch * sizeof(EraseBox) : 0;
}

size_t prefetch_device_bytes(const Backend *b, int64_t batch, size_t image_bytes, bool augmented)
{
    if (!b->v->device) return 0;
    return PROGRAM_SLOTS *
           ((size_t)batch * (image_bytes + sizeof(int32_t)) + augment_bytes_of(batch, augmented));
}

static Status create_slot(Prefetch *p, Slot *slot)
{
    Backend *b = p->backend;
    TRY(b->v->alloc(b, p->slot_bytes, &slot->images));
    TRY(b->v->alloc(b, p->label_bytes, &slot->labels));
    TRY(p->device->alloc_pinned(b, p->label_bytes, (void **)&slot->host_labels));
    if (p->augment_bytes > 0) {
        TRY(b->v->alloc(b, p->augment_bytes, &slot->augment_data));
        TRY(p->device->alloc_pinned(b, p->augment_bytes, (void **)&slot->host_augment_data));
    }
    TRY(p->device->event_create(b, &slot->ready));
    return p->device->event_create(b, &slot->consumed);
}

Status prefetch_create(Prefetch **out, Executor *x, int64_t batch, size_t image_bytes,
                       bool augmented)
{
    Backend *b = executor_backend(x);
    Prefetch *p = *out = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    *p = (Prefetch){ .executor = x,
                     .backend = b,
                     .device = b->v->device,
                     .slot_bytes = (size_t)batch * image_bytes,
                     .label_bytes = (size_t)batch * sizeof(int32_t),
                     .augment_bytes = augment_bytes_of(batch, augmented) };
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
        if (slot->images) b->v->free(b, slot->images);
        if (slot->labels) b->v->free(b, slot->labels);
        if (slot->augment_data) b->v->free(b, slot->augment_data);
        if (slot->host_labels) p->device->free_pinned(b, slot->host_labels);
        if (slot->host_augment_data) p->device->free_pinned(b, slot->host_augment_data);
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

static void write_mix(const MixDraw *m, float *out)
{
    out[MIX_LAMBDA] = (float)m->lambda;
    out[MIX_REST] = (float)(1.0 - m->lambda);
    out[MIX_BOX] = m->box;
    out[MIX_TOP] = (float)m->top;
    out[MIX_LEFT] = (float)m->left;
    out[MIX_BOTTOM] = (float)m->bottom;
    out[MIX_RIGHT] = (float)m->right;
}

static Status copy_augment_data(Prefetch *p, Slot *slot, Stream *copy)
{
    if (p->augment_bytes == 0) return OK;
    write_mix(&slot->batch.mix, (float *)(void *)slot->host_augment_data);
    memcpy(slot->host_augment_data + MIX_BYTES, slot->batch.erase, p->augment_bytes - MIX_BYTES);
    return p->device->copy_in(p->backend, slot->augment_data, slot->host_augment_data,
                              p->augment_bytes, copy);
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
    memcpy(slot->host_labels, slot->batch.labels, p->label_bytes);
    if (p->loaded >= PROGRAM_SLOTS) TRY(d->event_wait(p->backend, slot->consumed, copy));
    TRY(begin_copy(p, slot, copy));
    TRY(d->copy_in(p->backend, slot->images, slot->batch.images, p->image_bytes, copy));
    TRY(d->copy_in(p->backend, slot->labels, slot->host_labels, p->label_bytes, copy));
    TRY(copy_augment_data(p, slot, copy));
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
    const Slot *slot = &p->slots[number];
    PrefetchInput input = {
        .slot = number, .images = slot->images, .labels = slot->labels, .mix = slot->augment_data
    };
    if (slot->augment_data) input.erase = (const char *)slot->augment_data + MIX_BYTES;
    return input;
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
    out->bad = slot->batch.bad;
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
    *out = (PrefetchInput){ .images = p->batch.images,
                            .labels = p->batch.labels,
                            .bad = p->batch.bad };
    if (p->augment_bytes == 0) return OK;
    write_mix(&p->batch.mix, p->mix);
    out->erase = p->batch.erase;
    out->mix = p->mix;
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
