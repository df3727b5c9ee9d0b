/* fuzz_shard.c - a folder with one shard, opened by the shard's own index and read. First byte: bit
 * 0 puts the trailer and the checksum of the index right. */
#include "base/mem.h"
#include "data/source/shard.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_dataset.h"
#include <stddef.h>
#include <string.h>

/* The index begins where the trailer says, or else at a place that exists. */
static void fix(uint8_t *shard, size_t size)
{
    ShardTrailer t;
    size_t room = size - sizeof t;
    memcpy(&t, shard + room, sizeof t);
    uint64_t at = t.index_at <= room ? t.index_at : room / 2, bytes = room - at;
    t = shard_trailer(at, bytes);
    memcpy(shard + room, &t, sizeof t);
    if (bytes < sizeof(IndexHeader)) return;
    memcpy(shard + at + offsetof(IndexHeader, block_bytes), &bytes, sizeof bytes);
    uint32_t crc = index_checksum(shard + at, (size_t)bytes);
    memcpy(shard + at + offsetof(IndexHeader, crc), &crc, sizeof crc);
}

int fuzz_shard(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    uint8_t *shard = mem_alloc(size);
    ASSERT(shard != NULL);
    memcpy(shard, data + 1, size - 1);
    if (data[0] & 1 && size - 1 >= sizeof(ShardTrailer)) fix(shard, size - 1);
    fuzz_write("shard-00000.bin", shard, size - 1);
    mem_free(shard);
    fuzz_dataset(DATA_SHARDS, size);
    return 0;
}
