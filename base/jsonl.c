/* jsonl.c - see jsonl.h. */
#include "base/jsonl.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

Status jsonl_open(Jsonl *j, const char *dir, const char *name)
{
    *j = (Jsonl){ .fd = -1 };
    if (!(j->path = fs_join(dir, name))) return ERR_MEMORY;
    return fs_open(&j->fd, j->path, O_RDWR | O_APPEND | O_CREAT);
}

void jsonl_close(Jsonl *j)
{
    if (j->fd >= 0) close(j->fd);
    str_free(&j->line);
    mem_free(j->path);
    *j = (Jsonl){ .fd = -1 };
}

/* What lies behind the last newline. */
Status jsonl_cut_torn_line(const Jsonl *j)
{
    char bytes[512];
    off_t end = lseek(j->fd, 0, SEEK_END), keep = end;
    for (bool found = end <= 0; !found && keep > 0;) {
        off_t first = keep > (off_t)sizeof bytes ? keep - (off_t)sizeof bytes : 0;
        if (pread(j->fd, bytes, (size_t)(keep - first), first) != keep - first)
            return fail(ERR_IO, "%s: cannot read its last line: %s", j->path, strerror(errno));
        while (keep > first && !(found = bytes[keep - 1 - first] == '\n')) keep--;
    }
    if (keep < end && ftruncate(j->fd, keep) != 0)
        return fail(ERR_IO, "%s: cannot remove its incomplete last line: %s", j->path,
                    strerror(errno));
    return OK;
}

JsonWriter *jsonl_begin(Jsonl *j, const char *event)
{
    str_clear(&j->line);
    j->writer = (JsonWriter){ .out = &j->line };
    json_begin_object(&j->writer, NULL);
    json_string(&j->writer, "event", event);
    json_number(&j->writer, "time", clock_unix_s());
    return &j->writer;
}

/* All of line or nothing. */
int jsonl_append(const Jsonl *j, const StrBuf *line)
{
    if (line->failed) return ENOMEM;
    const off_t start = lseek(j->fd, 0, SEEK_END);
    for (size_t done = 0; done < line->length;) {
        ssize_t n = write(j->fd, line->text + done, line->length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            const int error = n < 0 ? errno : ENOSPC;
            if (done > 0 && ftruncate(j->fd, start) != 0)
                log_warning("%s: ends in an incomplete line until it is opened again", j->path);
            return error;
        }
        done += (size_t)n;
    }
    return 0;
}

int jsonl_end(Jsonl *j)
{
    json_end_object(&j->writer);
    str_add(&j->line, "\n");
    if (!j->held) return jsonl_append(j, &j->line);
    str_add_n(j->held, j->line.text ? j->line.text : "", j->line.length);
    return j->line.failed || j->held->failed ? ENOMEM : 0;
}

/* Blocks overlap by what may be the beginning of text. */
int64_t jsonl_count(const Jsonl *j, const char *text, int64_t most)
{
    char block[8192];
    const size_t n = strlen(text);
    const off_t end = lseek(j->fd, 0, SEEK_END); /* a device may be read for ever */
    int64_t count = 0;
    ssize_t got;
    for (off_t at = 0; count < most && at < end; at += got - (off_t)n + 1) {
        got = pread(j->fd, block, sizeof block - 1, at);
        if (got < (ssize_t)n) break;
        block[got] = '\0';
        for (const char *p = block; count < most && (p = strstr(p, text)); p += n) count++;
    }
    return count;
}
