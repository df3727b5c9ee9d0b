/* shard.h - what convoy pack writes: shard files, each with its own index at its end, and one index
 * of all of them.
 *
 *   shard-00000.bin   sample, seek data, sample, seek data, ...; the shard's index (index.h); a
 *                     trailer of 32 bytes
 *   dataset.index     the index of all shards, made from theirs; without it they are merged at
 *                     every start
 *
 * Samples are the original files byte for byte (unless they were asked to be recoded), in the order
 * of the dataset that was packed: shard k of S holds samples kN/S .. (k+1)N/S. */
#ifndef CONVOY_DATA_SOURCE_SHARD_H
#define CONVOY_DATA_SOURCE_SHARD_H
#include "data/index/scan.h"

#define SHARD_INDEX_FILE "dataset.index"
#define SHARD_FORMAT     "shards"
#define SHARD_NAME_BYTES 32

typedef struct ShardTrailer { /* little-endian, the last bytes of a shard */
    char magic[8];
    uint64_t index_at, index_bytes;
    uint32_t crc; /* CRC-32C of the bytes before */
    uint32_t reserved;
} ShardTrailer;

void shard_name(char out[SHARD_NAME_BYTES], int shard);
ShardTrailer shard_trailer(uint64_t index_at, uint64_t index_bytes);
/* The index at the end of the shard file folder/name; *bytes: of the whole file. ERR_DATA names the
 * file. */
Status shard_load(Index **out, const char *folder, const char *name, uint64_t *bytes);
/* The index of all shards in a folder. ERR_DATA where one is missing (packing was interrupted),
 * damaged, or of another set. */
Status shard_merge(Index **out, const ScanOptions *o);
#endif
