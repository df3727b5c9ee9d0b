/* source_packed.h - samples that lie inside larger files: what shards, tar and TFRecord files have
 * in common.
 *
 * Each of those kinds brings its own scan; from the index on they are the same: a sample is
 * (container, offset, bytes, CRC-32C), whoever wrote it. */
#ifndef CONVOY_DATA_SOURCE_SOURCE_PACKED_H
#define CONVOY_DATA_SOURCE_SOURCE_PACKED_H
#include "data/source/source.h"

Status source_packed_open(Source **out, const DatasetOptions *o, const Index *index);
Status source_packed_read(const Source *s, int64_t id, ByteBuf *buf, Sample *out);
void source_packed_describe(const Source *s, int64_t id, char *out, size_t bytes);
void source_packed_forget(const Source *s, int64_t id, bool *gone);
void source_packed_close(Source *s);

/* From the index on: the same in the SourceKind of each. */
#define SOURCE_PACKED_FROM_INDEX                                                                   \
    .open = source_packed_open, .read = source_packed_read, .label = source_index_label,           \
    .describe = source_packed_describe, .forget = source_packed_forget,                            \
    .close = source_packed_close
#endif
