/* byte_buf.c - grows by half of what there is. */
#include "base/byte_buf.h"

#include "base/mem.h"

/* crops of small images vary in size: let them not make it grow for long */
#define LEAST_BYTES ((size_t)64 << 10)

Status byte_buf_reserve(ByteBuf *b, size_t bytes)
{
    if (bytes <= b->capacity) return OK;
    size_t wanted = b->capacity ? b->capacity + b->capacity / 2 : LEAST_BYTES;
    if (wanted < bytes) wanted = bytes;
    uint8_t *data = mem_realloc(b->data, wanted);
    if (!data) return ERR_MEMORY;
    b->data = data;
    b->capacity = wanted;
    return OK;
}

void byte_buf_trim(ByteBuf *b, size_t limit_bytes)
{
    if (b->capacity > limit_bytes) byte_buf_free(b);
}

void byte_buf_free(ByteBuf *b)
{
    mem_free(b->data);
    *b = (ByteBuf){ 0 };
}
