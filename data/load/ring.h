/* ring.h - the slots in which decode threads and the training thread meet.
 *
 * Work is handed out as tickets, one per image, in the order of the stream: batch n, image i. A
 * ticket for batch n waits until slot n % slots is free, that is until the consumer has released
 * batch n - slots. So batches become ready in order, at most the last few images of one batch are
 * in flight while the next begins, and one slow image does not hold up the others. One mutex guards
 * all of it (it is taken a few times per image, and an image costs a millisecond); threads wait on
 * condition variables. */
#ifndef CONVOY_DATA_LOAD_RING_H
#define CONVOY_DATA_LOAD_RING_H
#include "base/status.h"
#include "data/options.h"
#include <pthread.h>

typedef struct RingSlot {
    void *block;         /* the batch's fields */
    int64_t *sample_ids; /* [batch] */
    int64_t number;      /* the batch this slot is for: being filled, ready or in use */
    int64_t remaining;   /* images of it not yet done */
    int64_t count, bad;
} RingSlot;

typedef struct RingOptions {
    int slots;
    int64_t batch;
    size_t block_bytes;
    int64_t batches; /* in all; INT64_MAX = endless */
    SlotAllocator allocator;
} RingOptions;

typedef struct RingTicket {
    int64_t batch, index; /* image index of batch number batch */
    RingSlot *slot;
} RingTicket;

typedef struct Ring Ring;
Status ring_create(Ring **out, const RingOptions *o);
void ring_destroy(Ring *ring); /* NULL ok; no thread may still be in it */

/* Producers. */
/* Waits for a free slot. false: stopped, failed, or no work left for ever. */
bool ring_take_ticket(Ring *ring, RingTicket *out);
void ring_done(Ring *ring, const RingTicket *ticket, bool counted, bool bad);
/* the first failure wins; everybody is woken */
void ring_fail(Ring *ring, Status status, const char *message);

/* Consumer. */
/* Waits for the next batch in order; *more is false after the last. A failure is returned with its
 * sentence, once the batch wanted is not ready. */
Status ring_next(Ring *ring, int *slot, bool *more, double *wait_s);
const RingSlot *ring_slot(const Ring *ring, int slot);
void ring_release(Ring *ring, int slot);
void ring_stop(Ring *ring); /* wakes everybody; tickets end */
int ring_ready_slots(Ring *ring);

typedef struct RingStats { /* since creation */
    int64_t taken;         /* batches handed out */
    int64_t ready;         /* batches that were ready when one was asked for, summed */
    int64_t waited;        /* batches that had to be waited for */
    double wait_s;
} RingStats;
void ring_stats(Ring *ring, RingStats *out);
#endif
