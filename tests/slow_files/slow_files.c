/* slow_files.c - a storage that takes its time, or fails: preloaded (LD_PRELOAD), it waits before
 * every open and read of chosen files, counts them, and lets some fail. For tests/e2e,
 * scripts/bench/bench_slow_storage.sh and scripts/dev/hunt.sh.
 *
 * Environment: SLOW_FILES_MATCH (files whose path as given holds this text, in capitals or not;
 * none without it), SLOW_FILES_MS (milliseconds before each open and read, default 0),
 * SLOW_FILES_LOG (at exit "opens N reads N" is appended there). SLOW_FILES_ERRNO (an errno): of the
 * calls open, openat, read, pread, stat, fstat, lstat, fstatat, opendir and readdir on chosen
 * files SLOW_FILES_FAIL (1) fail with it, behind the first SLOW_FILES_SKIP (0). How many such calls
 * there were stands in SLOW_FILES_LOG too, as "calls N", where SLOW_FILES_ERRNO is set.
 * SLOW_FILES_BACK: seconds by which CLOCK_REALTIME goes back at every look. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FDS 65536

typedef int (*OpenFunction)(const char *path, int flags, ...);
typedef int (*OpenAtFunction)(int folder, const char *path, int flags, ...);
typedef DIR *(*OpendirFunction)(const char *path);
typedef struct dirent *(*ReaddirFunction)(DIR *dir);
typedef ssize_t (*ReadFunction)(int fd, void *data, size_t bytes);
typedef ssize_t (*PreadFunction)(int fd, void *data, size_t bytes, off_t offset);

static atomic_bool chosen[FDS];
static atomic_long opens, reads, calls, looks;

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

static long number(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : fallback;
}

/* Whether this call is one that fails; then errno is set. */
static bool fails(bool is_ours)
{
    const long error = is_ours ? number("SLOW_FILES_ERRNO", 0) : 0;
    if (error == 0) return false;
    const long call = atomic_fetch_add(&calls, 1) - number("SLOW_FILES_SKIP", 0);
    if (call < 0 || call >= number("SLOW_FILES_FAIL", 1)) return false;
    errno = (int)error;
    return true;
}

static bool is_ours(int fd)
{
    return fd >= 0 && fd < FDS && chosen[fd];
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
    if (!is_ours(fd)) return;
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
    if (fails(slow)) return -1;
    return after_open(((OpenFunction)find("open"))(path, flags, mode), slow);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    bool slow = before_open(path) || is_ours(folder);
    if (fails(slow)) return -1;
    return after_open(((OpenAtFunction)find("openat"))(folder, path, flags, mode), slow);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    before_read(fd);
    if (fails(is_ours(fd))) return -1;
    return ((ReadFunction)find("read"))(fd, data, bytes);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    before_read(fd);
    if (fails(is_ours(fd))) return -1;
    return ((PreadFunction)find("pread"))(fd, data, bytes, offset);
}

/* What _FORTIFY_SOURCE makes of the same calls. */
ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t bytes, off_t offset, size_t room);

ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    if (bytes > room) abort();
    return read(fd, data, bytes);
}

ssize_t __pread_chk(int fd, void *data, size_t bytes, off_t offset, size_t room)
{
    if (bytes > room) abort();
    return pread(fd, data, bytes, offset);
}

int fstat(int fd, struct stat *info)
{
    if (fails(is_ours(fd))) return -1;
    return (int)syscall(SYS_newfstatat, fd, "", info, AT_EMPTY_PATH);
}

int fstatat(int folder, const char *path, struct stat *info, int flags)
{
    if (fails(is_chosen(path) || is_ours(folder))) return -1;
    return (int)syscall(SYS_newfstatat, folder, path, info, flags);
}

int stat(const char *path, struct stat *info)
{
    return fstatat(AT_FDCWD, path, info, 0);
}

int lstat(const char *path, struct stat *info)
{
    return fstatat(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

DIR *opendir(const char *path)
{
    const bool ours = is_chosen(path);
    if (fails(ours)) return NULL;
    DIR *dir = ((OpendirFunction)find("opendir"))(path);
    if (dir) after_open(dirfd(dir), ours);
    return dir;
}

struct dirent *readdir(DIR *dir)
{
    if (fails(is_ours(dirfd(dir)))) return NULL;
    return ((ReaddirFunction)find("readdir"))(dir);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const long back = clock == CLOCK_REALTIME ? number("SLOW_FILES_BACK", 0) : 0;
    const int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (back) t->tv_sec -= back * (1 + atomic_fetch_add(&looks, 1));
    return result;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SLOW_FILES_LOG");
    FILE *f = path && opens + reads + calls > 0 ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "opens %ld reads %ld\n", atomic_load(&opens), atomic_load(&reads));
    if (getenv("SLOW_FILES_ERRNO")) fprintf(f, "calls %ld\n", atomic_load(&calls));
    fclose(f);
}
