/* byte_stream.c - one buffer between a file and its reader; reads larger than it go straight to
 * where they are wanted.
 */
#include "data/source/byte_stream.h"
#include "base/mem.h"
#include "data/source/source.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 20)

struct ByteStream {
    char *name;
    int fd;
    uint8_t *buffer;
    size_t capacity;
    size_t next, filled; /* in the buffer */
    uint64_t offset;     /* in the file, of buffer[filled] */
    uint64_t bytes;
    int64_t mtime_ns;
};

Status byte_stream_open(ByteStream **out, const char *path)
{
    struct stat info;
    *out = NULL;
    ByteStream *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    Status status = OK;
    if (s->fd < 0 || fstat(s->fd, &info) != 0)
        status = fail(ERR_DATA, "%s: cannot open: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode)) status = fail(ERR_DATA, "%s: not a regular file", path);
    if (status == OK)
        s->capacity =
            (uint64_t)info.st_size < BUFFER_BYTES ? (size_t)info.st_size + 1 : BUFFER_BYTES;
    if (status == OK && (!(s->buffer = mem_alloc(s->capacity)) || !(s->name = mem_strdup(path))))
        status = ERR_MEMORY;
    if (status != OK) {
        byte_stream_close(s);
        return status;
    }
    s->bytes = (uint64_t)info.st_size;
    s->mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    *out = s;
    return OK;
}

void byte_stream_close(ByteStream *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    mem_free(s->buffer);
    mem_free(s->name);
    mem_free(s);
}

typedef struct Piece {
    ByteStream *stream;
    uint8_t *out;
    size_t wanted, got;
} Piece;

/* pread, because after an error the place of the descriptor would not be known. */
static int read_once(void *cookie, int n, Status *status)
{
    Piece *p = cookie;
    (void)n;
    (void)status;
    ssize_t got = pread(p->stream->fd, p->out, p->wanted, (off_t)p->stream->offset);
    p->got = got > 0 ? (size_t)got : 0;
    return got < 0 ? errno : 0;
}

static Status read_piece(ByteStream *s, uint8_t *out, size_t wanted, size_t *got)
{
    Piece p = { .stream = s, .out = out, .wanted = wanted };
    Status status = source_retry(s->name, read_once, &p);
    s->offset += p.got;
    *got = p.got;
    return status == ERR_IO ? ERR_DATA : status;
}

Status byte_stream_read(ByteStream *s, void *out, size_t bytes, size_t *got)
{
    uint8_t *to = out;
    for (*got = 0; *got < bytes;) {
        size_t left = bytes - *got, have = s->filled - s->next, n = left < have ? left : have;
        if (n > 0) {
            if (to) memcpy(to + *got, s->buffer + s->next, n);
            s->next += n;
            *got += n;
            continue;
        }
        bool straight = to && left >= s->capacity;
        TRY(read_piece(s, straight ? to + *got : s->buffer, straight ? left : s->capacity, &n));
        if (n == 0) return OK;
        s->next = 0;
        s->filled = straight ? 0 : n;
        if (straight) *got += n;
    }
    return OK;
}

void byte_stream_seek(ByteStream *s, uint64_t offset)
{
    s->offset = offset;
    s->next = s->filled = 0;
}

uint64_t byte_stream_offset(const ByteStream *s)
{
    return s->offset - (s->filled - s->next);
}

int64_t byte_stream_mtime_ns(const ByteStream *s)
{
    return s->mtime_ns;
}

uint64_t byte_stream_bytes(const ByteStream *s)
{
    return s->bytes;
}
