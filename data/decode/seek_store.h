/* seek_store.h - seek indices (seek_index.h) that were made while a data set was read for the first
 * time, in memory. */
#ifndef CONVOY_DATA_DECODE_SEEK_STORE_H
#define CONVOY_DATA_DECODE_SEEK_STORE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct SeekStore SeekStore; /* any number of threads may put and get */
/* For samples 0 .. images - 1. What does not fit into limit_bytes is not kept. */
Status seek_store_create(SeekStore **out, int64_t images, size_t limit_bytes);
void seek_store_destroy(SeekStore *s); /* NULL ok */
/* Copies. Nothing happens where the sample has an index, or no memory is left for it. */
void seek_store_put(SeekStore *s, int64_t id, const uint8_t *index, size_t bytes);
/* NULL: none yet. Stays valid as long as the store. */
const uint8_t *seek_store_get(const SeekStore *s, int64_t id, size_t *bytes);
/* The step (seek_index.h) of indices such that those of all samples fit, for pictures of the usual
 * size. */
int seek_store_step(const SeekStore *s);
size_t seek_store_bytes(SeekStore *s); /* kept so far */
#endif
