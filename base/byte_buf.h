/* byte_buf.h - bytes that grow to a high-water mark. */
#ifndef CONVOY_BASE_BYTE_BUF_H
#define CONVOY_BASE_BYTE_BUF_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* A scratch buffer of one thread: it only grows, so a worker stops allocating once it has seen its
 * largest image. */
typedef struct ByteBuf { /* zero-initialise */
    uint8_t *data;
    size_t capacity;
} ByteBuf;
Status byte_buf_reserve(ByteBuf *b, size_t bytes); /* capacity >= bytes; keeps the contents */
/* frees a buffer larger than the limit: one huge image must not stay for ever */
void byte_buf_trim(ByteBuf *b, size_t limit_bytes);
void byte_buf_free(ByteBuf *b);
#endif
