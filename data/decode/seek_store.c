/* seek_store.c - one atomic pointer a sample, into chunks that only grow.
 *
 * A reader sees a pointer only after what it points to was written (release, acquire), so reading
 * takes no lock. Chunks are allocated while the set is read for the first time, about one for 2000
 * images, and never after that. */
#include "data/decode/seek_store.h"
#include "base/mem.h"
#include "data/decode/seek_index.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)

typedef struct Chunk {
    struct Chunk *next;
    size_t used;
    uint8_t bytes[];
} Chunk;

struct SeekStore {
    int64_t images;
    size_t limit_bytes;
    _Atomic(uint8_t *) *at; /* [images] a uint32 length, then the index */
    pthread_mutex_t lock;   /* guards what follows */
    Chunk *chunks;          /* the newest first */
    size_t taken_bytes;     /* of chunks */
    size_t kept_bytes;
};

Status seek_store_create(SeekStore **out, int64_t images, size_t limit_bytes)
{
    *out = NULL;
    SeekStore *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->images = images;
    s->limit_bytes = limit_bytes;
    s->at = mem_calloc((size_t)images, sizeof *s->at);
    pthread_mutex_init(&s->lock, NULL);
    const Status status = s->at ? OK : ERR_MEMORY;
    if (status == OK) *out = s;
    else seek_store_destroy(s);
    return status;
}

void seek_store_destroy(SeekStore *s)
{
    if (!s) return;
    for (Chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    pthread_mutex_destroy(&s->lock);
    mem_free(s->at);
    mem_free(s);
}

/* Under the lock; NULL where limit_bytes are taken or there is no memory. */
static uint8_t *take(SeekStore *s, size_t bytes)
{
    Chunk *c = s->chunks;
    if (!c || c->used + bytes > CHUNK_BYTES) {
        if (bytes > CHUNK_BYTES || s->taken_bytes + sizeof *c + CHUNK_BYTES > s->limit_bytes)
            return NULL;
        c = mem_alloc(sizeof *c + CHUNK_BYTES);
        if (!c) return NULL;
        *c = (Chunk){ .next = s->chunks };
        s->chunks = c;
        s->taken_bytes += sizeof *c + CHUNK_BYTES;
    }
    uint8_t *at = c->bytes + c->used;
    c->used += bytes;
    return at;
}

void seek_store_put(SeekStore *s, int64_t id, const uint8_t *index, size_t bytes)
{
    ASSERT(id >= 0 && id < s->images);
    uint32_t length = (uint32_t)bytes;
    pthread_mutex_lock(&s->lock);
    uint8_t *at = atomic_load_explicit(&s->at[id], memory_order_relaxed)
                      ? NULL
                      : take(s, sizeof length + bytes);
    if (at) {
        memcpy(at, &length, sizeof length);
        memcpy(at + sizeof length, index, bytes);
        s->kept_bytes += bytes;
        atomic_store_explicit(&s->at[id], at, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
}

const uint8_t *seek_store_get(const SeekStore *s, int64_t id, size_t *bytes)
{
    ASSERT(id >= 0 && id < s->images);
    uint32_t length = 0;
    const uint8_t *at = atomic_load_explicit(&s->at[id], memory_order_acquire);
    if (at) memcpy(&length, at, sizeof length);
    *bytes = length;
    return at ? at + sizeof length : NULL;
}

int seek_store_step(const SeekStore *s)
{
    /* Of a picture of 500 x 400 pixels an index with entries every 8 MCUs takes 4 kB, with rows
     * only 0.6 kB. */
    static const struct {
        size_t bytes;
        int step;
    } steps[] = { { 6000, 8 }, { 3500, 16 }, { 0, SEEK_INDEX_ROWS_ONLY } };
    size_t each = s->images > 0 ? s->limit_bytes / (size_t)s->images : 0;
    int i = 0;
    while (each < steps[i].bytes) i++;
    return steps[i].step;
}

size_t seek_store_bytes(SeekStore *s)
{
    pthread_mutex_lock(&s->lock);
    size_t bytes = s->kept_bytes;
    pthread_mutex_unlock(&s->lock);
    return bytes;
}
