/* slow_files.c - a storage that takes its time: preloaded (LD_PRELOAD), it waits before every open
 * and read of chosen files, and counts them. For tests/e2e and scripts/bench_slow_storage.sh.
 *
 * Environment: SLOW_FILES_MATCH (files whose path as given holds this text, in capitals or not;
 * none without it), SLOW_FILES_MS (milliseconds before each open and read, default 0),
 * SLOW_FILES_LOG (at exit "opens N reads N" is appended there). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FDS 65536

typedef int (*OpenFunction)(const char *path, int flags, ...);
typedef int (*OpenAtFunction)(int folder, const char *path, int flags, ...);
typedef ssize_t (*ReadFunction)(int fd, void *data, size_t bytes);
typedef ssize_t (*PreadFunction)(int fd, void *data, size_t bytes, off_t offset);

static atomic_bool chosen[FDS];
static atomic_long opens, reads;

/* The function behind ours. A union, as ISO C knows no cast from data to function pointers. */
static void (*find(const char *name))(void)
{
    union {
        void *data;
        void (*function)(void);
    } u = { .data = dlsym(RTLD_NEXT, name) };
    if (!u.data) abort();
    return u.function;
}

static bool is_chosen(const char *path)
{
    const char *match = getenv("SLOW_FILES_MATCH");
    return match && match[0] && strcasestr(path, match);
}

static void wait_a_while(void)
{
    const char *text = getenv("SLOW_FILES_MS");
    double ms = text ? strtod(text, NULL) : 0;
    if (ms <= 0) return;
    struct timespec t = { .tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(ms * 1e6) % 1000000000L };
    while (nanosleep(&t, &t) != 0 && errno == EINTR) continue; /* a signal makes no disk faster */
}

static bool before_open(const char *path)
{
    bool slow = is_chosen(path);
    if (!slow) return false;
    atomic_fetch_add(&opens, 1);
    wait_a_while();
    return true;
}

static int after_open(int fd, bool slow)
{
    if (fd >= 0 && fd < FDS) chosen[fd] = slow;
    return fd;
}

static void before_read(int fd)
{
    if (fd < 0 || fd >= FDS || !chosen[fd]) return;
    atomic_fetch_add(&reads, 1);
    wait_a_while();
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(args, int) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    bool slow = before_open(path);
    return after_open(((OpenFunction)find("open"))(path, flags, mode), slow);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    bool slow = before_open(path);
    return after_open(((OpenAtFunction)find("openat"))(folder, path, flags, mode), slow);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    before_read(fd);
    return ((ReadFunction)find("read"))(fd, data, bytes);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    before_read(fd);
    return ((PreadFunction)find("pread"))(fd, data, bytes, offset);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SLOW_FILES_LOG");
    FILE *f = path && opens + reads > 0 ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "opens %ld reads %ld\n", atomic_load(&opens), atomic_load(&reads));
    fclose(f);
}
