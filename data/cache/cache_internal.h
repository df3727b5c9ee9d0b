/* cache_internal.h - what a cache is made of: a header, one word for each entry, blocks. In memory
 * (cache.c) all of it is mapped; on a disk (cache_file.c, cache_disk.c) the blocks are read and
 * written, so that a disk that fails costs a sample and not the process. Where others cut the
 * file short or write over it, the header is not what it was: it is looked at for each sample. */
#ifndef CONVOY_DATA_CACHE_CACHE_INTERNAL_H
#define CONVOY_DATA_CACHE_CACHE_INTERNAL_H
#include "data/cache/cache.h"
#include <stdatomic.h>

#define CACHE_MAGIC       0x63616368656e6f76u
#define CACHE_BLOCK_ALIGN ((size_t)64)

typedef struct CacheHeader {
    uint64_t magic;
    uint64_t token; /* memory: told apart by it; disk: of which files */
    int64_t samples;
    _Atomic uint64_t capacity; /* of the blocks, bytes */
    _Atomic uint64_t used;
    _Atomic int64_t stored, stored_bytes;
    atomic_bool full;
} CacheHeader;

typedef struct CacheBlock { /* the sample and its seek index lie behind it */
    _Alignas(CACHE_BLOCK_ALIGN) uint64_t bytes;
    uint64_t seek_bytes;
    uint64_t entry; /* disk: of which it is, and the CRC-32C of all that is above and behind */
    uint32_t crc;
} CacheBlock;

struct SampleCache {
    CacheHeader *header; /* the mapping */
    size_t bytes;        /* of it */
    uint64_t token;      /* as the header must say, and samples */
    int64_t samples;
    int fd;           /* memory: of the creator, else -1; disk: of the file */
    char *path;       /* disk */
    atomic_bool told; /* disk: that it fails */
    atomic_bool lost; /* disk: the mapping is no longer that of the cache */
};

/* Where blocks begin. */
static inline size_t cache_blocks_at(int64_t samples)
{
    return (sizeof(CacheHeader) + (size_t)samples * sizeof(uint64_t) + 4095) / 4096 * 4096;
}

Status cache_map(SampleCache *c, int fd, size_t bytes);
bool cache_is_whole(const SampleCache *c); /* the header is the cache's, not zeros or another's */

/* False where the disk takes it no more, which is told once. */
bool cache_disk_put(SampleCache *c, int64_t entry, uint64_t block, const Sample *sample);
/* *out borrows from buf. False where something else lies there. */
bool cache_disk_get(SampleCache *c, int64_t entry, uint64_t block, ByteBuf *buf, Sample *out);
#endif
