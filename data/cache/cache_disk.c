/* cache_disk.c - a cache whose blocks lie in a file on a disk of the node: see cache.h. (The file
 * itself: cache_file.c.)
 *
 * Nothing is flushed on purpose. After a crash of the machine a word may say that a sample is there
 * whose bytes never arrived, or the count of what is used may be old, so that two samples claim one
 * place: each block has a checksum over the datasets, its entry's number and its bytes. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "data/cache/cache_internal.h"
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static off_t place_of(const SampleCache *c, uint64_t block)
{
    return (off_t)(cache_blocks_at(c->samples) + block * CACHE_BLOCK_ALIGN);
}

static uint32_t checksum(const SampleCache *c, const CacheBlock *b, const void *data, size_t bytes)
{
    const uint64_t words[] = { c->token, b->bytes, b->seek_bytes, b->entry };
    return crc32c_update(crc32c_update(0, words, sizeof words), data, bytes);
}

static void tell(SampleCache *c, const char *what, const char *so)
{
    if (!atomic_exchange(&c->told, true)) log_warning_here("%s: %s; %s", c->path, what, so);
}

bool cache_disk_put(SampleCache *c, int64_t entry, uint64_t block, const Sample *sample)
{
    CacheBlock b = { .bytes = sample->file.size,
                     .seek_bytes = sample->file.seek_bytes,
                     .entry = (uint64_t)entry };
    const size_t bytes = b.bytes + b.seek_bytes; /* the seek index lies behind the sample */
    const struct iovec parts[] = { { &b, sizeof b },
                                   { (void *)(uintptr_t)sample->file.bytes, bytes } };
    b.crc = checksum(c, &b, sample->file.bytes, bytes);
    errno = ENOSPC; /* where only a part was written */
    if (pwritev(c->fd, parts, 2, place_of(c, block)) == (ssize_t)(sizeof b + bytes)) return true;
    tell(c, strerror(errno), "other files are read from the dataset");
    return false;
}

static bool read_at(int fd, void *to, size_t bytes, off_t at)
{
    return fs_read_at(fd, to, bytes, (uint64_t)at) == (ssize_t)bytes;
}

bool cache_disk_get(SampleCache *c, int64_t entry, uint64_t block, ByteBuf *buf, Sample *out)
{
    CacheBlock b;
    const off_t at = place_of(c, block);
    if (!read_at(c->fd, &b, sizeof b, at) || b.entry != (uint64_t)entry ||
        b.bytes > INDEX_MAX_SAMPLE_BYTES || b.seek_bytes > INDEX_MAX_SAMPLE_BYTES ||
        byte_buf_reserve(buf, b.bytes + b.seek_bytes) != OK ||
        !read_at(c->fd, buf->data, b.bytes + b.seek_bytes, at + (off_t)sizeof b) ||
        checksum(c, &b, buf->data, b.bytes + b.seek_bytes) != b.crc) {
        tell(c, "a cached sample is damaged",
             "damaged samples are read from the dataset and cached again");
        return false;
    }
    *out = source_file_sample(buf->data, b.bytes, b.seek_bytes);
    return true;
}
