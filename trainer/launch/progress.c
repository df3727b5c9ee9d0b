/* progress.c - see progress.h. */
#include "trainer/launch/progress.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BLOCK_BYTES ((off_t)65536) /* of metrics.jsonl at a time; a record is shorter */

static int open_metrics(const char *run_dir)
{
    char *path = fs_join(run_dir, "metrics.jsonl");
    int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    mem_free(path);
    return fd;
}

/* ---- the lock ---- */

bool progress_is_locked(const char *run_dir, int64_t *bytes)
{
    int fd = open_metrics(run_dir);
    if (bytes) *bytes = fd >= 0 ? (int64_t)lseek(fd, 0, SEEK_END) : -1;
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

/* ---- steps ---- */

/* The number behind key in a record, which is "\"step\":"; false where there is none. */
static bool read_number(const char *line, const char *key, long long *out)
{
    const char *field = strstr(line, key);
    return field && sscanf(field + strlen(key), "%lld", out) == 1;
}

static bool is_event(const char *line, const char *name)
{
    static const char head[] = "{\"event\":\"";
    const size_t n = strlen(name);
    return str_starts_with(line, head) && strncmp(line + sizeof head - 1, name, n) == 0 &&
           line[sizeof head - 1 + n] == '"';
}

/* Of the whole lines in text: the furthest step since the last resume, -1 for none. A checkpoint is
 * recorded when it is written, so records of later steps may stand before it. Is written to. */
static int64_t furthest_step_of(char *text)
{
    long long step, furthest = -1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        const bool resumed = is_event(line, "resume");
        if (!resumed && !is_event(line, "step") && !is_event(line, "checkpoint")) continue;
        if (!read_number(line, "\"step\":", &step)) continue;
        if (step > furthest || resumed) furthest = step;
    }
    return furthest;
}

/* What find says of the last block of whole lines of which it says anything but -1; else -1.
 * Backwards: records that tell nothing may be any number. */
static int64_t search(const char *run_dir, int64_t (*find)(char *text))
{
    int fd = open_metrics(run_dir);
    char *buffer = mem_alloc((size_t)BLOCK_BYTES + 1);
    int64_t found = -1;
    for (off_t end = fd >= 0 && buffer ? lseek(fd, 0, SEEK_END) : 0; end > 0 && found < 0;) {
        off_t from = end > BLOCK_BYTES ? end - BLOCK_BYTES : 0;
        ssize_t n = pread(fd, buffer, (size_t)(end - from), from);
        if (n <= 0) break;
        buffer[n] = '\0';
        char *first = from > 0 ? strchr(buffer, '\n') : NULL; /* whole line */
        first = first && first[1] ? first + 1 : buffer;
        end = from + (first - buffer);
        found = find(first);
    }
    if (fd >= 0) close(fd);
    mem_free(buffer);
    return found;
}

int64_t progress_last_step(const char *run_dir)
{
    const int64_t step = search(run_dir, furthest_step_of);
    return step > 0 ? step : 0;
}

/* ---- the end ---- */

#define NOT_ENDED 1000 /* more than any exit code */

/* Of the last whole record that training has written: the exit code, or NOT_ENDED. Evaluations are
 * told of before a run has ended, or by convoy eval. Is written to. */
static int64_t end_of(char *text)
{
    long long code = -1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (line[0] != '{' || end[-1] != '}' || is_event(line, "eval")) continue;
        if (!is_event(line, "done") || !read_number(line, "\"code\":", &code)) code = NOT_ENDED;
    }
    return code;
}

int progress_exit_code(const char *run_dir)
{
    const int64_t code = search(run_dir, end_of);
    return code < NOT_ENDED ? (int)code : -1;
}
