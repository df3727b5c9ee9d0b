/* ring.c - see ring.h for the protocol. Slot n % slots passes through: free -> filling -> ready ->
 * taken -> free, always in batch order.
 *
 * released counts batches given back, taken those handed out, next_batch/next_index the ticket to
 * come. A slot may be filled for batch n once released > n - slots. The consumer may hold several
 * batches but must release them in order. */
#include "data/load/ring.h"
#include "base/clock.h"
#include "base/mem.h"
#include <stdio.h>

#define MESSAGE_BYTES 1024

struct Ring {
    RingOptions o;
    RingSlot *slots;
    pthread_mutex_t lock;
    pthread_cond_t slot_free;  /* producers wait */
    pthread_cond_t slot_ready; /* the consumer waits */
    int64_t next_batch, next_index;
    int64_t taken, released;
    bool stopped;
    RingStats stats;
    Status failure;
    char message[MESSAGE_BYTES];
};

static void *plain_alloc(void *cookie, size_t bytes)
{
    (void)cookie;
    return mem_alloc_aligned(bytes, MEM_ALIGN);
}

static void plain_free(void *cookie, void *p)
{
    (void)cookie;
    mem_free(p);
}

static Status alloc_slot(const RingOptions *o, RingSlot *slot)
{
    size_t n = (size_t)o->batch;
    slot->number = -1;
    if (o->block_bytes == SIZE_MAX)
        return fail(ERR_MEMORY, "a batch of %zu images is too large", n);
    slot->block = o->allocator.alloc(o->allocator.cookie, o->block_bytes);
    if (!slot->block)
        return fail(ERR_MEMORY, "out of memory: a batch slot of %zu bytes", o->block_bytes);
    slot->sample_ids = mem_alloc(n * sizeof *slot->sample_ids);
    return slot->sample_ids ? OK : ERR_MEMORY;
}

Status ring_create(Ring **out, const RingOptions *o)
{
    *out = NULL;
    Ring *ring = mem_calloc(1, sizeof *ring);
    if (!ring) return ERR_MEMORY;
    ring->o = *o;
    if (!o->allocator.alloc)
        ring->o.allocator = (SlotAllocator){ .alloc = plain_alloc, .free = plain_free };
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->slot_free, NULL);
    pthread_cond_init(&ring->slot_ready, NULL);
    ring->slots = mem_calloc((size_t)o->slots, sizeof *ring->slots);
    Status status = ring->slots ? OK : ERR_MEMORY;
    for (int i = 0; i < o->slots && status == OK; i++)
        status = alloc_slot(&ring->o, &ring->slots[i]);
    if (status == OK) *out = ring;
    else ring_destroy(ring);
    return status;
}

void ring_destroy(Ring *ring)
{
    if (!ring) return;
    for (int i = 0; ring->slots && i < ring->o.slots; i++) {
        RingSlot *slot = &ring->slots[i];
        if (slot->block) ring->o.allocator.free(ring->o.allocator.cookie, slot->block);
        mem_free(slot->sample_ids);
    }
    mem_free(ring->slots);
    pthread_cond_destroy(&ring->slot_ready);
    pthread_cond_destroy(&ring->slot_free);
    pthread_mutex_destroy(&ring->lock);
    mem_free(ring);
}

static bool ended(const Ring *ring)
{
    return ring->stopped || ring->failure != OK;
}

/* Moves on to the next ticket; the first of a batch opens its slot. Lock held, the slot is free. */
static void issue_ticket(Ring *ring, RingTicket *out)
{
    RingSlot *slot = &ring->slots[ring->next_batch % ring->o.slots];
    if (ring->next_index == 0) {
        slot->number = ring->next_batch;
        slot->remaining = ring->o.batch;
        slot->count = slot->bad = 0;
    }
    *out = (RingTicket){ .batch = ring->next_batch, .index = ring->next_index, .slot = slot };
    if (++ring->next_index == ring->o.batch) {
        ring->next_index = 0;
        ring->next_batch++;
    }
}

bool ring_take_ticket(Ring *ring, RingTicket *out)
{
    bool got = false;
    pthread_mutex_lock(&ring->lock);
    for (;;) {
        if (ended(ring) || ring->next_batch >= ring->o.batches) break;
        if (ring->next_batch < ring->released + ring->o.slots) {
            issue_ticket(ring, out);
            got = true;
            break;
        }
        pthread_cond_wait(&ring->slot_free, &ring->lock);
    }
    pthread_mutex_unlock(&ring->lock);
    return got;
}

void ring_done(Ring *ring, const RingTicket *ticket, bool counted, bool bad)
{
    pthread_mutex_lock(&ring->lock);
    ticket->slot->count += counted;
    ticket->slot->bad += bad;
    if (--ticket->slot->remaining == 0) pthread_cond_broadcast(&ring->slot_ready);
    pthread_mutex_unlock(&ring->lock);
}

void ring_fail(Ring *ring, Status status, const char *message)
{
    pthread_mutex_lock(&ring->lock);
    if (ring->failure == OK) {
        ring->failure = status;
        snprintf(ring->message, sizeof ring->message, "%s", message);
    }
    pthread_cond_broadcast(&ring->slot_free);
    pthread_cond_broadcast(&ring->slot_ready);
    pthread_mutex_unlock(&ring->lock);
}

static bool is_ready(const Ring *ring, int64_t batch)
{
    const RingSlot *slot = &ring->slots[batch % ring->o.slots];
    return slot->number == batch && slot->remaining == 0;
}

static int count_ready(const Ring *ring)
{
    int ready = 0;
    for (int64_t batch = ring->taken; batch < ring->taken + ring->o.slots; batch++)
        ready += is_ready(ring, batch);
    return ready;
}

/* Waits until the next batch is ready or will not come. Lock held. */
static void await_batch(Ring *ring, double *wait_s)
{
    double start_s = 0;
    ring->stats.ready += count_ready(ring);
    while (!ended(ring) && !is_ready(ring, ring->taken)) {
        if (start_s == 0) start_s = clock_s();
        pthread_cond_wait(&ring->slot_ready, &ring->lock);
    }
    if (start_s == 0) return;
    double seconds = clock_s() - start_s;
    ring->stats.waited++;
    ring->stats.wait_s += seconds;
    if (wait_s) *wait_s += seconds;
}

Status ring_next(Ring *ring, int *slot, bool *more, double *wait_s)
{
    Status status = OK;
    *more = false;
    pthread_mutex_lock(&ring->lock);
    if (ring->taken < ring->o.batches) {
        await_batch(ring, wait_s);
        /* What is ready is given out even after a failure, which belongs to a later batch. */
        if (!ring->stopped && is_ready(ring, ring->taken)) {
            *slot = (int)(ring->taken++ % ring->o.slots);
            *more = true;
            ring->stats.taken++;
        } else if (ring->failure != OK) {
            status = fail(ring->failure, "%s", ring->message);
        }
    }
    pthread_mutex_unlock(&ring->lock);
    return status;
}

const RingSlot *ring_slot(const Ring *ring, int slot)
{
    return &ring->slots[slot];
}

void ring_release(Ring *ring, int slot)
{
    pthread_mutex_lock(&ring->lock);
    ASSERT(ring->released < ring->taken && slot == (int)(ring->released % ring->o.slots));
    ring->released++;
    pthread_cond_broadcast(&ring->slot_free);
    pthread_mutex_unlock(&ring->lock);
}

void ring_stop(Ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->stopped = true;
    pthread_cond_broadcast(&ring->slot_free);
    pthread_cond_broadcast(&ring->slot_ready);
    pthread_mutex_unlock(&ring->lock);
}

int ring_ready_slots(Ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    int ready = count_ready(ring);
    pthread_mutex_unlock(&ring->lock);
    return ready;
}

void ring_stats(Ring *ring, RingStats *out)
{
    pthread_mutex_lock(&ring->lock);
    *out = ring->stats;
    pthread_mutex_unlock(&ring->lock);
}
