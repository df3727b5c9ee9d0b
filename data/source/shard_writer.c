/* shard_writer.c - a buffer in front of a file, and the rename at the end. */
#include "data/source/shard_writer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/source/shard.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)4 << 20)

struct ShardWriter {
    int fd; /* -1: finished, or never opened */
    char *folder, *path, *temporary;
    uint8_t *buffer;
    size_t used;
    uint64_t offset; /* with what is in the buffer */
};

static Status cannot_write(const ShardWriter *w)
{
    return fail(ERR_IO, "%s: cannot write: %s", w->path, strerror(errno));
}

static Status open_file(ShardWriter *w, const char *folder, const char *name)
{
    StrBuf temporary = { 0 };
    w->folder = mem_strdup(folder);
    w->path = fs_join(folder, name);
    w->buffer = mem_alloc(BUFFER_BYTES);
    if (!w->folder || !w->path || !w->buffer) return ERR_MEMORY;
    str_printf(&temporary, "%s.tmp", w->path);
    w->temporary = temporary.text;
    if (temporary.failed) return fail(ERR_MEMORY, "out of memory naming a shard");
    return fs_open_temporary(&w->fd, w->temporary, w->path);
}

Status shard_writer_open(ShardWriter **out, const char *folder, const char *name)
{
    *out = NULL;
    ShardWriter *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    w->fd = -1;
    Status status = open_file(w, folder, name);
    if (status == OK) *out = w;
    else shard_writer_close(w);
    return status;
}

static Status write_all(ShardWriter *w, const void *data, size_t bytes)
{
    return fs_write_all(w->fd, data, bytes) ? OK : cannot_write(w);
}

static Status flush(ShardWriter *w)
{
    size_t bytes = w->used;
    w->used = 0;
    return write_all(w, w->buffer, bytes);
}

Status shard_writer_add(ShardWriter *w, const void *data, size_t bytes)
{
    w->offset += bytes;
    if (w->used + bytes > BUFFER_BYTES) TRY(flush(w));
    if (bytes > BUFFER_BYTES) return write_all(w, data, bytes);
    if (bytes) memcpy(w->buffer + w->used, data, bytes);
    w->used += bytes;
    return OK;
}

uint64_t shard_writer_offset(const ShardWriter *w)
{
    return w->offset;
}

Status shard_writer_finish(ShardWriter *w, const Index *index)
{
    ShardTrailer trailer = shard_trailer(w->offset, index->block_bytes);
    TRY(shard_writer_add(w, index->block, index->block_bytes));
    TRY(shard_writer_add(w, &trailer, sizeof trailer));
    TRY(flush(w));
    if (fsync(w->fd) != 0) return cannot_write(w);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 || rename(w->temporary, w->path) != 0) {
        Status status = cannot_write(w);
        unlink(w->temporary);
        return status;
    }
    return fs_sync_dir(w->folder);
}

void shard_writer_close(ShardWriter *w)
{
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->temporary);
    }
    mem_free(w->folder);
    mem_free(w->path);
    mem_free(w->temporary);
    mem_free(w->buffer);
    mem_free(w);
}
