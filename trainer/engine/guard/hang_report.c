/* hang_report.c - see hang_report.h. */
#include "trainer/engine/guard/hang_report.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/process/stacks.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_S 0.3 /* for threads that can answer at all; mpirun may leave the process a second */

enum { FILES = 3 };
/* of /proc/self/task/THREAD */
static const char *const files[FILES] = { "comm", "syscall", "wchan" };

void hang_report_prepare(void)
{
    stacks_prepare();
}

/* The first line of a file in /proc/self/task/THREAD, "" if it cannot be read. */
static void read_line(char *out, size_t bytes, int thread, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", thread, file);
    fs_read_head(path, out, bytes);
    out[strcspn(out, "\n")] = '\0';
}

/* what the kernel says; before the thread is asked, which changes it */
typedef struct ThreadReport {
    int id;
    char line[FILES][256];
} ThreadReport;

static void read_thread(ThreadReport *r, int id)
{
    r->id = id;
    for (int f = 0; f < FILES; f++) read_line(r->line[f], sizeof r->line[f], id, files[f]);
}

static void describe_thread(JsonWriter *w, const ThreadReport *r, const ThreadStack *stack)
{
    StrBuf frame = { 0 };
    json_begin_object(w, NULL);
    json_int(w, "thread", r->id);
    for (int f = 0; f < FILES; f++) json_string(w, files[f], r->line[f]);
    json_begin_array(w, "stack");
    for (int i = 0; stack && i < stack->depth; i++) {
        str_clear(&frame);
        stacks_describe(&frame, stack, i);
        if (!frame.failed) json_string(w, NULL, frame.text);
    }
    json_end_array(w);
    json_end_object(w);
    str_free(&frame);
}

typedef struct HangReport { /* as all was before threads were asked, which may wake them */
    int rank;
    int64_t step;
    const char *phase, *run_dir, *reason;
    double time_s;
    ThreadReport *thread;
    size_t threads;
} HangReport;

static void write_file(const HangReport *r, const ThreadStack *stacks)
{
    StrBuf text = { 0 }, path = { 0 };
    JsonWriter w = { .out = &text };
    json_begin_object(&w, NULL);
    json_number(&w, "time", r->time_s);
    json_int(&w, "rank", r->rank);
    json_string(&w, "host", process_host());
    json_int(&w, "pid", getpid());
    json_int(&w, "step", r->step);
    json_string(&w, "phase", r->phase ? r->phase : "start");
    json_string(&w, "reason", r->reason);
    json_begin_array(&w, "threads");
    for (size_t i = 0; i < r->threads; i++)
        describe_thread(&w, &r->thread[i], stacks ? &stacks[i] : NULL);
    json_end_array(&w);
    json_end_object(&w);
    str_printf(&path, "%s/hang-%d.json", r->run_dir, r->rank);
    if (!text.failed && !path.failed) (void)fs_write_atomic(path.text, text.text, text.length);
    str_free(&text);
    str_free(&path);
}

/* The file is written before threads are asked too: a lock that unwinding needs may be what the
 * process hangs on. */
static void write_twice(const HangReport *r)
{
    int *ids = r->threads ? mem_calloc(r->threads, sizeof *ids) : NULL;
    write_file(r, NULL);
    for (size_t i = 0; ids && i < r->threads; i++) ids[i] = r->thread[i].id;
    const ThreadStack *stacks = ids ? stacks_ask(ids, r->threads, ANSWER_S) : NULL;
    if (stacks) write_file(r, stacks);
    mem_free(ids);
}

void hang_report_write(const Comm *comm, const char *run_dir, const char *reason)
{
    char **names = NULL;
    int64_t count = 0;
    HangReport r = { .rank = comm->rank,
                     .step = comm->step,
                     .phase = comm->phase,
                     .run_dir = run_dir,
                     .reason = reason,
                     .time_s = clock_unix_s() };
    if (fs_list("/proc/self/task", &names, &count) != OK) count = 0;
    r.thread = count ? mem_calloc((size_t)count, sizeof *r.thread) : NULL;
    for (int64_t i = 0, id; r.thread && i < count; i++)
        if (str_to_i64(names[i], &id)) read_thread(&r.thread[r.threads++], (int)id);
    write_twice(&r);
    mem_free(r.thread);
    mem_free(names);
}

/* Of names, files and their times: a report is a new file each time. */
uint64_t hang_report_mark(const char *run_dir)
{
    char **names = NULL;
    int64_t count = 0;
    uint64_t mark = 0;
    if (fs_list(run_dir, &names, &count) != OK) count = 0;
    for (int64_t i = 0; i < count; i++) {
        struct stat file;
        char *path = str_starts_with(names[i], "hang-") ? fs_join(run_dir, names[i]) : NULL;
        if (path && stat(path, &file) == 0)
            mark = mark * 31 + (uint64_t)file.st_ino * 7 + (uint64_t)file.st_mtim.tv_sec * 3 +
                   (uint64_t)file.st_mtim.tv_nsec;
        mem_free(path);
    }
    mem_free(names);
    return mark;
}
