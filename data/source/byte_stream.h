/* byte_stream.h - a file that is read from front to back, in large pieces. */
#ifndef CONVOY_DATA_SOURCE_BYTE_STREAM_H
#define CONVOY_DATA_SOURCE_BYTE_STREAM_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct ByteStream ByteStream;
/* errors name the path */
Status byte_stream_open(ByteStream **out, const char *path);
void byte_stream_close(ByteStream *s); /* NULL ok */
FREED_BY_POINTER(ByteStream, byte_stream_close)
/* Reads at most bytes to out (NULL: skips them); *got is less only at the end of the file. ERR_DATA
 * naming the file where the file system keeps failing. */
Status byte_stream_read(ByteStream *s, void *out, size_t bytes, size_t *got);
void byte_stream_seek(ByteStream *s, uint64_t offset);
uint64_t byte_stream_offset(const ByteStream *s);  /* of the next byte */
int64_t byte_stream_mtime_ns(const ByteStream *s); /* when it was opened */
uint64_t byte_stream_bytes(const ByteStream *s);   /* size when it was opened */
#endif
