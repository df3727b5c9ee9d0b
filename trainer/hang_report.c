/* hang_report.c - see hang_report.h. */
#include "trainer/hang_report.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/stacks.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_S 1.0 /* for threads that can answer at all */

enum { FILES = 3 };
static const char *const files[FILES] = { "comm", "syscall", "wchan" }; /* of /proc/self/task/THREAD */

void hang_report_prepare(void)
{
    stacks_prepare();
}

/* The first line of a file in /proc/self/task/THREAD, "" if it cannot be read. */
static void read_line(char *out, size_t bytes, const char *thread, const char *file)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, bytes - 1) : 0;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

typedef struct ThreadReport { /* what the kernel says; before the thread is asked, which changes it */
    int id;
    char line[FILES][256];
} ThreadReport;

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

static void describe_threads(JsonWriter *w, char **names, size_t count)
{
    ThreadReport *report = mem_calloc(count, sizeof *report);
    int *ids = mem_calloc(count, sizeof *ids);
    for (size_t i = 0; report && ids && i < count; i++) {
        int64_t id = 0;
        if (str_to_i64(names[i], &id)) report[i].id = ids[i] = (int)id;
        for (int f = 0; f < FILES; f++) read_line(report[i].line[f], sizeof report[i].line[f], names[i], files[f]);
    }
    const ThreadStack *stacks = report && ids ? stacks_ask(ids, count, ANSWER_S) : NULL;
    for (size_t i = 0; report && ids && i < count; i++) describe_thread(w, &report[i], stacks ? &stacks[i] : NULL);
    mem_free(ids);
    mem_free(report);
}

void hang_report_write(const Comm *comm, const char *run_dir, const char *reason)
{
    StrBuf text = { 0 }, path = { 0 };
    JsonWriter json = { .out = &text };
    const char *phase = comm->phase;
    char host[256] = "", **names = NULL;
    int64_t count = 0;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    if (fs_list("/proc/self/task", &names, &count) != OK) count = 0;
    json_begin_object(&json, NULL);
    json_number(&json, "time", clock_unix_s());
    json_int(&json, "rank", comm->rank);
    json_string(&json, "host", host);
    json_int(&json, "pid", getpid());
    json_int(&json, "step", comm->step);
    json_string(&json, "phase", phase ? phase : "start");
    json_string(&json, "reason", reason);
    json_begin_array(&json, "threads");
    describe_threads(&json, names, (size_t)count);
    json_end_array(&json);
    json_end_object(&json);
    str_printf(&path, "%s/hang-%d.json", run_dir, comm->rank);
    if (!text.failed && !path.failed) (void)fs_write_atomic(path.text, text.text, text.length);
    mem_free(names);
    str_free(&text);
    str_free(&path);
}
