/* log.c - the console, the log file and the live progress line behind one mutex.
 *
 * DESIGN. A line is formatted into a local buffer first (control characters are shown escaped, so
 * one event is one line), then written in one call under the mutex: lines of different threads
 * never mix. The live line, if one is on the terminal, is wiped before anything else is printed and
 * comes back with the next log_progress(). The state below is file-scope because a message may come
 * from anywhere, also from a place that has been handed nothing. */
#include "base/log.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define HELD_BYTES ((size_t)1 << 20)
#define WIPE_LINE  "\r\033[K"

/* between lines of progress */
#define TERMINAL_PERIOD_S 0.2
#define PLAIN_PERIOD_S    10.0

#define CLEAR_SCREEN "\033[H\033[J"

typedef struct LogFile {
    FILE *stream; /* NULL: none */
    char path[LINE_BYTES];
    bool told; /* that it cannot be written to */
} LogFile;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LogFile file, added;
static int lost_output; /* errno of a line that standard output did not take */
static int own_rank;
static char program[64] = "convoy"; /* set before there are threads */
static LogLevel console_level = LOG_INFO;
static bool verbose, opened, terminal, live_line, holding;
static StrBuf held; /* lines for files that are not open yet */

static const struct {
    const char *prefix, *file_name;
} levels[] = {
    [LOG_DEBUG] = { "", "debug" },
    [LOG_DETAIL] = { "", "info" },
    [LOG_INFO] = { "", "info" },
    [LOG_WARNING] = { ": warning: ", "warning" },
    [LOG_ERROR] = { ": error: ", "error" },
};

/* What stands before the prefix. */
static const char *speaker(LogLevel level)
{
    return levels[level].prefix[0] ? program : "";
}

void log_set_program(const char *name)
{
    pthread_mutex_lock(&mutex);
    snprintf(program, sizeof program, "%s", name);
    pthread_mutex_unlock(&mutex);
}

void log_set_verbose(void)
{
    verbose = true;
}

const char *log_program(void)
{
    return program;
}

/* Whether somebody watches stdout. mpirun gives its ranks a pseudo-terminal even where its own
 * output goes to a file; such a one is not our controlling terminal (tcgetpgrp fails), and then the
 * parent's stdout decides. In doubt: no, since plain lines are right everywhere. */
static bool stdout_is_watched(void)
{
    char path[64], own[64], parents[64];
    if (!isatty(STDOUT_FILENO)) return false;
    if (tcgetpgrp(STDOUT_FILENO) >= 0) return true;
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    ssize_t n = readlink(path, parents, sizeof parents - 1),
            k = readlink("/proc/self/fd/1", own, sizeof own - 1);
    if (n <= 0 || k <= 0) return false;
    parents[n] = own[k] = '\0';
    bool is_terminal =
        str_starts_with(parents, "/dev/pts/") || str_starts_with(parents, "/dev/tty");
    return is_terminal && strcmp(parents, own) != 0;
}

static Status open_file(LogFile *out, const char *path)
{
    int fd;
    *out = (LogFile){ .stream = NULL };
    TRY(fs_open(&fd, path, O_WRONLY | O_APPEND | O_CREAT));
    FILE *f = out->stream = fdopen(fd, "a");
    if (!f) {
        close(fd);
        return fail(ERR_IO, "%s: cannot open for writing: %s", path, strerror(errno));
    }
    setvbuf(f, NULL, _IOLBF, 0);
    snprintf(out->path, sizeof out->path, "%s", path);
    return OK;
}

static void close_file(LogFile *f)
{
    if (f->stream) fclose(f->stream);
    f->stream = NULL;
}

/* A run does not end for want of its log, but somebody must hear of it. */
static void add_to_file(LogFile *f, const char *text)
{
    if (!f->stream || fputs(text, f->stream) >= 0 || f->told) return;
    fprintf(stderr, "%s: warning: %s: cannot write: %s; some lines are lost\n", program, f->path,
            strerror(errno));
    f->told = true;
}

static void tell_broken(const char *where, int line, const char *cond)
{
    log_error("rank %d: %s:%d: broken invariant: %s", log_rank(), where, line, cond);
}

Status log_open(const char *path, int rank, LogLevel min_level)
{
    LogFile f = { .stream = NULL };
    if (path) TRY(open_file(&f, path));
    log_close();
    status_tell_broken(tell_broken);
    pthread_mutex_lock(&mutex);
    file = f;
    own_rank = rank;
    console_level = verbose && min_level == LOG_INFO ? LOG_DEBUG : min_level;
    opened = true;
    terminal = rank == 0 && stdout_is_watched();
    pthread_mutex_unlock(&mutex);
    return OK;
}

Status log_add_file(const char *path)
{
    LogFile f;
    TRY(open_file(&f, path));
    pthread_mutex_lock(&mutex);
    close_file(&added);
    added = f;
    pthread_mutex_unlock(&mutex);
    return OK;
}

static void wipe_live_line(void)
{
    if (!live_line) return;
    fputs(WIPE_LINE, stdout);
    fflush(stdout);
    live_line = false;
}

void log_close(void)
{
    pthread_mutex_lock(&mutex);
    wipe_live_line();
    close_file(&file);
    close_file(&added);
    opened = terminal = false;
    own_rank = 0;
    console_level = LOG_INFO;
    pthread_mutex_unlock(&mutex);
}

/* Where a console line of this level goes, NULL for nowhere. */
static FILE *console_for(LogLevel level)
{
    if (level == LOG_ERROR) return stderr;
    if (level < console_level || own_rank != 0) return NULL;
    return opened && level <= LOG_INFO ? stdout : stderr;
}

/* Who gets a line: the console and both files; all of them, and the console of every rank; the
 * added file alone. */
typedef enum Audience { ALL, ALL_HERE, ADDED_FILE } Audience;

/* With the mutex held. */
static void write_file_line(LogLevel level, Audience audience, const char *text)
{
    char when[32], rank[24] = "", line[LINE_BYTES + 128];
    clock_format_utc(when, sizeof when);
    if (own_rank != 0) snprintf(rank, sizeof rank, "rank %d: ", own_rank);
    snprintf(line, sizeof line, "%s %s %s%s\n", when, levels[level].file_name, rank, text);
    if (holding && held.length < HELD_BYTES) str_add(&held, line);
    if (holding) return;
    if (audience != ADDED_FILE) add_to_file(&file, line);
    add_to_file(&added, line);
}

void log_hold(void)
{
    pthread_mutex_lock(&mutex);
    holding = true;
    pthread_mutex_unlock(&mutex);
}

void log_release(void)
{
    pthread_mutex_lock(&mutex);
    if (held.text) add_to_file(&file, held.text);
    if (held.text) add_to_file(&added, held.text);
    str_free(&held);
    holding = false;
    pthread_mutex_unlock(&mutex);
}

/* Text of one line: cut to the buffer, with nothing in it that a terminal would act on. */
PRINTF_LIKE(2, 0) static void format_line(char out[LINE_BYTES], const char *format, va_list args)
{
    char raw[LINE_BYTES];
    vsnprintf(raw, sizeof raw, format, args);
    str_visible(out, LINE_BYTES, raw);
}

PRINTF_LIKE(3, 0)
static void log_line(LogLevel level, Audience audience, const char *format, va_list args)
{
    char text[LINE_BYTES];
    format_line(text, format, args);
    pthread_mutex_lock(&mutex);
    FILE *console = audience == ADDED_FILE ? NULL : console_for(level);
    if (console) {
        wipe_live_line();
        if ((fprintf(console, "%s%s%s\n", speaker(level), levels[level].prefix, text) < 0 ||
             fflush(console) != 0) &&
            console == stdout)
            lost_output = errno;
    }
    if (audience == ALL_HERE && own_rank != 0) {
        fprintf(stderr, "%s%srank %d: %s\n", speaker(level), levels[level].prefix, own_rank, text);
        fflush(stderr);
    }
    if (level >= LOG_DETAIL) write_file_line(level, audience, text);
    pthread_mutex_unlock(&mutex);
}

#define LOG_FUNCTION(name, level, audience)                                                        \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        log_line(level, audience, format, args);                                                   \
        va_end(args);                                                                              \
    }

LOG_FUNCTION(log_debug, LOG_DEBUG, ALL)
LOG_FUNCTION(log_detail, LOG_DETAIL, ALL)
LOG_FUNCTION(log_info, LOG_INFO, ALL)
LOG_FUNCTION(log_note, LOG_INFO, ADDED_FILE)
LOG_FUNCTION(log_warning, LOG_WARNING, ALL)
LOG_FUNCTION(log_warning_here, LOG_WARNING, ALL_HERE)
LOG_FUNCTION(log_error, LOG_ERROR, ALL)

static Status cannot_print(int error)
{
    return fail(ERR_IO, "cannot write to standard output: %s", strerror(error));
}

int log_rank(void)
{
    pthread_mutex_lock(&mutex);
    int rank = own_rank;
    pthread_mutex_unlock(&mutex);
    return rank;
}

bool log_console_is_terminal(void)
{
    pthread_mutex_lock(&mutex);
    bool result = terminal;
    pthread_mutex_unlock(&mutex);
    return result;
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* A text that is too wide ends before its last comma, or blank: a number is not cut in two. */
static void cut_to_fields(char *text, size_t width)
{
    if (strlen(text) <= width) return;
    text[width + 1] = '\0';
    char *end = strrchr(text, ',');
    if (!end) end = strrchr(text, ' ');
    if (end) *end = '\0';
}

bool log_progress_due(double *shown_s)
{
    const double now = clock_s();
    if (now - *shown_s < (log_console_is_terminal() ? TERMINAL_PERIOD_S : PLAIN_PERIOD_S))
        return false;
    *shown_s = now;
    return true;
}

void log_progress(const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    format_line(text, format, args);
    va_end(args);
    pthread_mutex_lock(&mutex);
    if (own_rank == 0 && terminal) {
        wipe_live_line();
        cut_to_fields(text, (size_t)terminal_columns() - 1);
        fputs(text, stdout);
        live_line = text[0] != '\0';
        fflush(stdout);
    } else if (own_rank == 0 && text[0]) {
        fprintf(opened ? stdout : stderr, "%s\n", text);
        fflush(opened ? stdout : stderr);
    }
    pthread_mutex_unlock(&mutex);
}

Status log_check_output(void)
{
    pthread_mutex_lock(&mutex);
    const int error = lost_output;
    pthread_mutex_unlock(&mutex);
    return error == 0 ? OK : cannot_print(error);
}

/* Lines and columns of text are the caller's; nothing else in it may steer a terminal. */
static Status print(const char *before, const char *text)
{
    StrBuf shown FREED_BY(str_free) = { 0 };
    str_add(&shown, before);
    str_add_visible(&shown, text, "\n\t");
    if (shown.failed) return ERR_MEMORY;
    pthread_mutex_lock(&mutex);
    wipe_live_line();
    bool good = !shown.text || fputs(shown.text, stdout) >= 0;
    good = fflush(stdout) == 0 && good;
    int error = errno;
    pthread_mutex_unlock(&mutex);
    return good ? OK : cannot_print(error);
}

Status log_print(const char *text)
{
    return log_rank() == 0 ? print("", text) : OK;
}

Status log_print_text(Status status, StrBuf *text)
{
    if (status == OK && text->failed)
        status = fail(ERR_MEMORY, "out of memory while printing the result");
    if (status == OK) status = log_print(text->text ? text->text : "");
    str_free(text);
    return status;
}

Status log_print_screen(const char *text)
{
    return log_rank() == 0 ? print(CLEAR_SCREEN, text) : OK;
}
