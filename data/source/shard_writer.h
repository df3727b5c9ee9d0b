/* shard_writer.h - one shard file, written from front to back and visible only when it is
 * complete. */
#ifndef CONVOY_DATA_SOURCE_SHARD_WRITER_H
#define CONVOY_DATA_SOURCE_SHARD_WRITER_H
#include "data/index/index.h"

typedef struct ShardWriter ShardWriter;
/* Writes to folder/name.tmp until it is finished. Errors are ERR_IO and name the file. */
Status shard_writer_open(ShardWriter **out, const char *folder, const char *name);
Status shard_writer_add(ShardWriter *w, const void *data, size_t bytes);
uint64_t shard_writer_offset(const ShardWriter *w); /* of what is added next */
/* index and trailer, to the disk, the real name */
Status shard_writer_finish(ShardWriter *w, const Index *index);
/* NULL ok; removes what is not finished */
void shard_writer_close(ShardWriter *w);
#endif
