/* progress.c - see progress.h. */
#include "trainer/app/launch/progress.h"

#include "base/fs.h"
#include "base/mem.h"
#include "trainer/engine/events/records.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BLOCK_BYTES ((off_t)65536) /* of metrics.jsonl at a time; a record is shorter */

static int open_metrics(const char *run_dir)
{
    char *path FREED = fs_join(run_dir, "metrics.jsonl");
    return path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
}

/* ---- the lock ---- */

bool progress_is_locked(const char *run_dir, int64_t *bytes)
{
    int fd FREED_BY(fs_close) = open_metrics(run_dir);
    if (bytes) *bytes = fd >= 0 ? (int64_t)lseek(fd, 0, SEEK_END) : -1;
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* ---- records ---- */

enum { NOT_FOUND = -1, NOT_ENDED = 1000 }; /* the latter more than any exit code */

/* The furthest step since the last resume. A checkpoint is recorded when it is written, so records
 * of later steps may stand before it. */
static void find_step(const RunRecord *r, int64_t *found)
{
    if (r->kind == RECORD_RESUME) *found = r->resume.step;
    if (r->kind == RECORD_STEP && r->step.step > *found) *found = r->step.step;
    if (r->kind == RECORD_CHECKPOINT && r->checkpoint.step > *found) *found = r->checkpoint.step;
}

/* Of the last record that training has written: the exit code, or NOT_ENDED. Evaluations are told
 * of before a run has ended, or by convoy eval. */
static void find_end(const RunRecord *r, int64_t *found)
{
    if (r->kind == RECORD_EVAL) return;
    *found = r->kind == RECORD_DONE && r->done.code >= 0 ? r->done.code : NOT_ENDED;
}

typedef void Find(const RunRecord *r, int64_t *found);

/* Lines that are no whole record are passed over. */
static void search_lines(const char *text, Find *find, int64_t *found)
{
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        Arena *arena FREED_BY(arena_destroy_at) = NULL;
        JsonValue *object = NULL;
        RunRecord record;
        if (arena_create(&arena, 4096) != OK) return;
        if (json_parse(arena, line, (size_t)(end - line), &object) != OK) continue;
        records_read(&record, object);
        if (object->type == JSON_OBJECT) find(&record, found);
    }
}

/* What find says of the last block of whole lines of which it says anything. Backwards: records
 * that tell nothing may be any number. */
static int64_t search(const char *run_dir, Find *find)
{
    int fd FREED_BY(fs_close) = open_metrics(run_dir);
    char *buffer FREED = mem_alloc((size_t)BLOCK_BYTES + 1);
    int64_t found = NOT_FOUND;
    for (off_t end = fd >= 0 && buffer ? lseek(fd, 0, SEEK_END) : 0; end > 0 && found < 0;) {
        off_t from = end > BLOCK_BYTES ? end - BLOCK_BYTES : 0;
        ssize_t n = pread(fd, buffer, (size_t)(end - from), from);
        if (n <= 0) break;
        buffer[n] = '\0';
        char *first = from > 0 ? strchr(buffer, '\n') : NULL; /* whole line */
        first = first && first[1] ? first + 1 : buffer;
        end = from + (first - buffer);
        search_lines(first, find, &found);
    }
    return found;
}

int64_t progress_last_step(const char *run_dir)
{
    const int64_t step = search(run_dir, find_step);
    return step > 0 ? step : 0;
}

int progress_exit_code(const char *run_dir)
{
    const int64_t code = search(run_dir, find_end);
    return code < NOT_ENDED ? (int)code : -1;
}
