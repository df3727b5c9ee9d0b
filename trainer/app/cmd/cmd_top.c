/* cmd_top.c - convoy top RUN: watches a run from its metrics.jsonl, on this host or any other that
 * sees the folder. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/top_screen.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 65536
#define LINE_MAX    ((size_t)1 << 20) /* many times the longest record */

static const ArgRow rows[] = {
    { "RUN", .help = "the folder of the run" },
    { "--once", .help = "print once and exit (the default if the output is not a terminal)" },
    { "--every", "SECONDS", .help = "refresh interval", .min = 0.01, .max = 1e6, .fallback = 2 },
    ARG_ROW_END,
};

typedef struct Tail { /* of a file that grows */
    char *path;
    off_t done; /* whole lines up to here were read */
    StrBuf rest;
} Tail;

/* Adds the lines that came since the last call. A file that was replaced by a shorter one is read
 * anew. */
static Status read_more(Tail *tail, TopScreen *t)
{
    struct stat now;
    char *block FREED = mem_alloc(BLOCK_BYTES);
    if (!block) return ERR_MEMORY;
    int fd FREED_BY(fs_close) = open(tail->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &now) != 0)
        return fail(ERR_DATA, "%s: cannot read: %s", tail->path, strerror(errno));
    if (!S_ISREG(now.st_mode))
        return fail(ERR_DATA, "%s: cannot read: not a regular file", tail->path);
    if (now.st_size < tail->done) {
        tail->done = 0;
        top_screen_free(t);
        top_screen_init(t);
    }
    str_clear(&tail->rest);
    off_t at = tail->done;
    ssize_t n = 0;
    for (; tail->rest.length < LINE_MAX && (n = pread(fd, block, BLOCK_BYTES, at)) > 0; at += n) {
        str_add_n(&tail->rest, block, (size_t)n);
        const char *line = tail->rest.text, *end;
        for (; line && (end = strchr(line, '\n')); line = end + 1) {
            top_screen_add_line(t, line, (size_t)(end - line));
            tail->done += end + 1 - line;
        }
        size_t used = line ? (size_t)(line - tail->rest.text) : 0;
        if (used > 0) {
            memmove(tail->rest.text, line, tail->rest.length - used + 1);
            tail->rest.length -= used;
        }
    }
    if (n < 0) return fail(ERR_DATA, "%s: cannot read: %s", tail->path, strerror(errno));
    if (tail->rest.length >= LINE_MAX)
        return fail(ERR_DATA, "%s: a line is longer than %zu bytes", tail->path, LINE_MAX);
    return tail->rest.failed ? fail(ERR_MEMORY, "out of memory") : OK;
}

static Status show(const TopScreen *t, const char *name, bool live)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    top_screen_describe(t, name, clock_unix_s(), &text);
    return text.failed ? fail(ERR_MEMORY, "out of memory")
           : live      ? log_print_screen(text.text)
                       : log_print(text.text);
}

/* Until there is a run, or somebody looks no more. */
static Status wait_for_run(const Tail *tail, const char *name, double every_s)
{
    char text[4200];
    snprintf(text, sizeof text, "run         %s: waiting for it to appear\n", name);
    if (!fs_exists(tail->path)) TRY(log_print(text));
    while (!fs_exists(tail->path)) clock_sleep_s(every_s);
    return OK;
}

static Status watch(Tail *tail, const char *name, double every_s, bool live)
{
    TopScreen *t FREED = mem_alloc(sizeof *t);
    if (!t) return ERR_MEMORY;
    top_screen_init(t);
    Status status = OK;
    do {
        status = read_more(tail, t);
        if (status == OK) status = show(t, name, live);
        if (status == OK && live && !t->seen[RECORD_DONE]) clock_sleep_s(every_s);
    } while (status == OK && live && !t->seen[RECORD_DONE]);
    top_screen_free(t);
    return status;
}

static Status command(const Args *args)
{
    double every_s = 0;
    const char *run = args->positional[0];
    TRY(args_number(args, "--every", &every_s));
    Tail tail = { .path = fs_join(run, "metrics.jsonl") };
    if (!tail.path) return ERR_MEMORY;
    bool live = !args_value(args, "--once") && log_console_is_terminal();
    Status status = OK;
    if (live) status = wait_for_run(&tail, run, every_s);
    else if (!fs_exists(tail.path))
        status = fail(ERR_USAGE, "%s: not a run folder: it has no metrics.jsonl", run);
    if (status == OK) status = watch(&tail, run, every_s, live);
    str_free(&tail.rest);
    mem_free(tail.path);
    return status;
}

const Command cmd_top = {
    .name = "top",
    .group = "Look",
    .summary = "show how a run is doing",
    .about =
        "Shows how the run in folder RUN is doing: progress, loss, speed, waits, evaluation, "
        "checkpoint, energy and cost, GPUs. It only reads metrics.jsonl, so it works on any host "
        "that sees the folder. In a terminal it waits for a run that does not exist yet, and exits "
        "when the run ends.",
    .args = rows,
    .alone = command,
};
