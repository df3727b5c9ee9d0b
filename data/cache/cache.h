/* cache.h - the files of datasets in memory that the processes of a node share, or in a file on one
 * of its disks, filled on first use, never evicted.
 *
 * One process creates it (cache_create), the others open it by the first one's process id and file
 * descriptor (cache_join): it is a memory file without a name, so nothing is left behind however
 * the processes end. Whoever needs a sample first reads it from storage and puts it in; all others
 * take it from there, without a copy and without a lock. Once it is full, what is not in it is read
 * from storage, every time: on a random order of samples that keeps the share of hits at what fits,
 * where a cache that evicts would have almost none.
 *
 * ENTRIES. One 64-bit word a sample: absent, loading (by which process, since when), ready (where),
 * or never (no room). A process that dies while it loads leaves "loading" behind; others see that
 * it is gone, or lose patience, and load the sample themselves. */
#ifndef CONVOY_DATA_CACHE_CACHE_H
#define CONVOY_DATA_CACHE_CACHE_H
#include "data/source/source.h"

typedef struct SampleCache SampleCache;

typedef struct CacheKey { /* what another process of the node needs to join */
    int64_t pid, fd;
    uint64_t token; /* told apart from whatever else that pid and fd may be */
} CacheKey;

/* Room for samples entries and so many bytes of files. Memory is taken as it is filled. */
Status cache_create(SampleCache **out, int64_t samples, size_t bytes);
CacheKey cache_key(const SampleCache *c);
/* ERR_ENV where the other process's memory cannot be opened. samples as it was created. */
Status cache_join(SampleCache **out, const CacheKey *key, int64_t samples);
typedef struct CacheFile {
    const char *path;
    uint64_t identity; /* of the datasets: what a file of the same name must have been made for */
    int64_t samples;
    size_t bytes; /* of files; 0: what it was made with, and it must be there */
} CacheFile;
/* Makes the file where there is none; *out is NULL where the disk has no room for it. ERR_IO,
 * ERR_ENV (another user's), ERR_DATA (made for something else), all naming the path. */
Status cache_open_file(SampleCache **out, const CacheFile *file);
/* Room for so many bytes from now on, for all who have it open; what is in it stays. */
void cache_set_capacity(SampleCache *c, size_t bytes);
void cache_destroy(SampleCache *c); /* NULL ok; nothing borrowed from it may be in use */

/* Reads sample id of a source, which is entry of the cache: *out borrows from the memory until that
 * is destroyed, or from buf as Source.read. *hit: storage was not asked. Errors as Source.read. Any
 * thread. */
Status cache_read(SampleCache *c, int64_t entry, const Source *source, int64_t id, ByteBuf *buf,
                  Sample *out, bool *hit);

typedef struct CacheStats {
    int64_t samples, bytes; /* in it */
    size_t capacity;
    bool full; /* something had no room */
} CacheStats;
void cache_stats(const SampleCache *c, CacheStats *out);
#endif
