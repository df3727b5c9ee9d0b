/* byte_ring.c - see byte_ring.h. Pieces are numbered as they are taken; piece n lies at pieces[n %
 * max]. The ring is wrapped when its newest piece lies below its oldest. */
#include "data/load/byte_ring.h"
#include "base/mem.h"
#include <stdbool.h>

#define FIRST_SIZE ((size_t)1 << 20) /* of the part that is used; it doubles */

typedef struct Piece {
    size_t start, end;
    bool given;
} Piece;

struct ByteRing {
    uint8_t *data;
    size_t capacity, size; /* size: the part in use so far */
    Piece *pieces;
    int max;
    int64_t first, next; /* oldest piece still held, and the one to come */
};

Status byte_ring_create(ByteRing **out, size_t capacity, int pieces_max)
{
    *out = NULL;
    ASSERT(capacity > 0 && pieces_max > 0);
    ByteRing *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->capacity = capacity;
    r->size = capacity < FIRST_SIZE ? capacity : FIRST_SIZE;
    r->max = pieces_max;
    r->data = mem_alloc_aligned(capacity, MEM_ALIGN);
    r->pieces = mem_calloc((size_t)pieces_max, sizeof *r->pieces);
    const Status status = r->data && r->pieces ? OK : ERR_MEMORY;
    if (status == OK) *out = r;
    else byte_ring_destroy(r);
    return status;
}

void byte_ring_destroy(ByteRing *r)
{
    if (!r) return;
    mem_free(r->data);
    mem_free(r->pieces);
    mem_free(r);
}

static Piece *piece_at(const ByteRing *r, int64_t piece)
{
    return &r->pieces[piece % r->max];
}

typedef struct Span { /* of what is held; wrapped: all but tail .. head */
    size_t tail, head;
    bool wrapped;
} Span;

/* The ring is not empty. */
static Span held(const ByteRing *r)
{
    const Piece *oldest = piece_at(r, r->first), *newest = piece_at(r, r->next - 1);
    return (Span){ oldest->start, newest->end, newest->start < oldest->start };
}

/* Where a piece of `bytes` bytes would begin; SIZE_MAX if nowhere. At the end of the part in use it
 * goes on at the start if most of that part is free, else the part grows. */
static size_t find_room(const ByteRing *r, size_t bytes)
{
    if (r->next == r->first) return bytes <= r->capacity ? 0 : SIZE_MAX;
    Span s = held(r);
    if (s.wrapped) return bytes <= s.tail - s.head ? s.head : SIZE_MAX;
    if (s.head <= r->size && bytes <= r->size - s.head) return s.head;
    bool grows = r->size < r->capacity && s.tail < r->size / 2 && bytes <= r->capacity - s.head;
    if (!grows && bytes <= s.tail) return 0;
    return bytes <= r->capacity - s.head ? s.head : SIZE_MAX;
}

uint8_t *byte_ring_take(ByteRing *r, size_t bytes, int64_t *piece)
{
    ASSERT(bytes > 0); /* a piece without bytes would hide that a full ring is wrapped */
    if (r->next - r->first == r->max || bytes > r->capacity) return NULL;
    size_t rounded = (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN, at = find_room(r, rounded);
    if (at == SIZE_MAX) return NULL;
    while (r->size < at + rounded) r->size = r->size > r->capacity / 2 ? r->capacity : 2 * r->size;
    *piece = r->next++;
    *piece_at(r, *piece) = (Piece){ .start = at, .end = at + rounded };
    return r->data + at;
}

void byte_ring_give(ByteRing *r, int64_t piece)
{
    ASSERT(piece >= r->first && piece < r->next && !piece_at(r, piece)->given);
    piece_at(r, piece)->given = true;
    while (r->first < r->next && piece_at(r, r->first)->given) r->first++;
}

size_t byte_ring_free(const ByteRing *r)
{
    if (r->next == r->first) return r->capacity;
    Span s = held(r);
    return s.wrapped ? s.tail - s.head : r->capacity - s.head + s.tail;
}
