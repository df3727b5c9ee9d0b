/* byte_ring.h - one block of memory from which pieces are taken at the head and given back in any
 * order.
 *
 * Room comes back at the tail, so a piece that is kept holds up those taken after it; that suits
 * samples, which are read and used up nearly in one order. Nothing is allocated after creation. The
 * part of the block that is used grows only to about twice of what is held at once. No locks: the
 * caller has one. */
#ifndef CONVOY_DATA_LOAD_BYTE_RING_H
#define CONVOY_DATA_LOAD_BYTE_RING_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct ByteRing ByteRing;
Status byte_ring_create(ByteRing **out, size_t capacity, int pieces_max);
void byte_ring_destroy(ByteRing *r); /* NULL ok */
/* Returns a piece of `bytes` bytes, or NULL if there is no room now. *piece is the number that
 * byte_ring_give() takes. */
uint8_t *byte_ring_take(ByteRing *r, size_t bytes, int64_t *piece);
void byte_ring_give(ByteRing *r, int64_t piece);
/* Bytes that can still be taken, if pieces are small against them. */
size_t byte_ring_free(const ByteRing *r);
#endif
