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
    *bytes = fd >= 0 ? (int64_t)lseek(fd, 0, SEEK_END) : -1;
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

/* ---- steps ---- */

/* The step of a record that shows how far a run has come, or false. */
static bool read_step(const char *line, long long *step)
{
    static const char *const events[] = { "step", "checkpoint", "resume" };
    static const char head[] = "{\"event\":\"", key[] = "\"step\":";
    if (!str_starts_with(line, head)) return false;
    const char *name = line + sizeof head - 1, *end = strchr(name, '"'), *field = strstr(name, key);
    for (size_t i = 0; i < sizeof events / sizeof events[0] && end && field; i++)
        if ((size_t)(end - name) == strlen(events[i]) &&
            strncmp(name, events[i], strlen(events[i])) == 0)
            return sscanf(field + sizeof key - 1, "%lld", step) == 1;
    return false;
}

/* Of the whole lines in text: the furthest step since the last resume, -1 for none. A checkpoint is
 * recorded when it is written, so records of later steps may stand before it. Is written to. */
static int64_t furthest_step_of(char *text)
{
    long long step, furthest = -1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!read_step(line, &step)) continue;
        if (step > furthest || str_starts_with(line, "{\"event\":\"resume\"")) furthest = step;
    }
    return furthest;
}

/* What find says of the last block of whole lines of which it says anything but -1; else -1.
 * Backwards: records that tell nothing may be any number. buffer: BLOCK_BYTES and a NUL. */
static int64_t search(int fd, char *buffer, int64_t (*find)(char *text))
{
    for (off_t end = lseek(fd, 0, SEEK_END); end > 0;) {
        off_t from = end > BLOCK_BYTES ? end - BLOCK_BYTES : 0;
        ssize_t n = pread(fd, buffer, (size_t)(end - from), from);
        if (n <= 0) return -1;
        buffer[n] = '\0';
        char *first = from > 0 ? strchr(buffer, '\n') : NULL; /* whole line */
        first = first && first[1] ? first + 1 : buffer;
        end = from + (first - buffer);
        int64_t found = find(first);
        if (found >= 0) return found;
    }
    return -1;
}

static int64_t search_folder(const char *run_dir, int64_t (*find)(char *text))
{
    int fd = open_metrics(run_dir);
    char *buffer = mem_alloc((size_t)BLOCK_BYTES + 1);
    int64_t found = fd >= 0 && buffer ? search(fd, buffer, find) : -1;
    if (fd >= 0) close(fd);
    mem_free(buffer);
    return found;
}

int64_t progress_last_step(const char *run_dir)
{
    const int64_t step = search_folder(run_dir, furthest_step_of);
    return step > 0 ? step : 0;
}

/* ---- the end ---- */

#define NOT_ENDED 1000 /* more than any exit code */

/* Of the last whole record that training has written: the exit code, or NOT_ENDED. Evaluations are
 * told of before a run has ended, or by convoy eval. Is written to. */
static int64_t end_of(char *text)
{
    static const char event[] = "{\"event\":\"", eval[] = "{\"event\":\"eval\"",
                      done[] = "{\"event\":\"done\"", key[] = "\"code\":";
    long long code = -1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!str_starts_with(line, event) || end[-1] != '}' || str_starts_with(line, eval))
            continue;
        const char *field = str_starts_with(line, done) ? strstr(line, key) : NULL;
        if (!field || sscanf(field + sizeof key - 1, "%lld", &code) != 1) code = NOT_ENDED;
    }
    return code;
}

int progress_exit_code(const char *run_dir)
{
    const int64_t code = search_folder(run_dir, end_of);
    return code < NOT_ENDED ? (int)code : -1;
}
