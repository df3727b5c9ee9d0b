/* prefetch.h - a loader's batches where a program reads them.
 *
 * Host memory: the program reads the loader's slots in place.
 * Device: two slots of device memory, filled in turn from pinned loader slots on the copy lane,
 * ordered by events: the copy waits until the run that read the slot before is done, the run waits
 * until the copy is. So the copy of batch N+1 runs beside step N. A loader slot is given back as
 * soon as its copy is done.
 *
 * A Prefetch outlives its loaders: its memory, pinned slots included, is kept from one loader to
 * the next. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_PREFETCH_H
#define CONVOY_TRAINER_ENGINE_SESSION_PREFETCH_H
#include "data/data.h"
#include "trainer/engine/exec/executor.h"

typedef struct Prefetch Prefetch;

typedef struct PrefetchInput {
    int slot;                  /* for RunOptions, like the next two */
    const BatchLayout *layout; /* the Prefetch's own, of the loader at hand */
    void *block;
    int64_t count, bad, tokens, masked; /* Batch's */
} PrefetchInput;

/* After executor_commit(). Borrows x. bytes: of the largest batch to come (BatchLayout). */
Status prefetch_create(Prefetch **out, Executor *x, size_t bytes);
void prefetch_destroy(Prefetch *p); /* NULL ok; its loaders must be gone */
/* Bytes of device memory that prefetch_create() takes; 0 where programs read host memory. */
size_t prefetch_device_bytes(const Backend *b, size_t bytes);

/* Tells of copies in this lane, on devices; executor_time_origin() comes before the Trace is
 * started. Borrowed. */
void prefetch_trace(Prefetch *p, struct Trace *trace, const char *lane);
/* Batch slots of a loader for a prefetch on b: a slot more than o says where one is held by a
 * copy. */
int prefetch_loader_slots(const Backend *b, const LoaderOptions *o);
/* What a loader for this prefetch needs: allocator and slots. Once for each loader, before it is
 * attached and after the one before is done: the layout of its batches is taken from o. */
void prefetch_loader_options(Prefetch *p, LoaderOptions *o);
/* The loader to take batches from; borrowed until the next call. NULL before it is destroyed. */
Status prefetch_attach(Prefetch *p, Loader *loader);

/* Where the batch that is ahead batches from now will lie: what a run reads that has to take part
 * without one. Host memory: block is NULL. */
PrefetchInput prefetch_slot(const Prefetch *p, int64_t ahead);
/* The next batch; the compute lane is made to wait for it. wait_s: time spent waiting for the
 * loader is added, on a device only while it has nothing else to do. */
Status prefetch_next(Prefetch *p, PrefetchInput *out, bool *more, double *wait_s);
/* Passes over this many batches: their slots had their turn. */
void prefetch_skip(Prefetch *p, int64_t batches);
/* The run that reads it was issued. */
Status prefetch_done(Prefetch *p);
/* Marks what was issued up to here. *end: the event behind it, the Prefetch's own; NULL on host
 * memory. At most two marks may wait to be waited for. */
Status prefetch_mark(Prefetch *p, Event **end);
/* Waits for the oldest mark; meanwhile starts the copy of the next batch once that is decoded. */
Status prefetch_wait(Prefetch *p);
#endif
