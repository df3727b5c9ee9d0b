/* lock.c - see lock.h. */
#include "trainer/app/launch/lock.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/engine/guard/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define HOST_BYTES 256
#define TRIES      5
#define PAUSE_S    0.05
#define POLL_S     0.5
#define YOUNG_S    60.0

struct LaunchLock {
    char *path;
    int fd;
};

typedef struct Holder { /* what the file says */
    char host[HOST_BYTES];
    int64_t pid;
    double time_s;
} Holder;

/* Reads "HOST PID TIME"; an empty or foreign file gives no host. */
static Holder read_holder(int fd)
{
    char text[512] = { 0 };
    long long pid = 0;
    Holder h = { .host = "" };
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0 || sscanf(text, "%255s %lld %lf", h.host, &pid, &h.time_s) != 3)
        return (Holder){ .host = "" };
    h.pid = pid;
    return h;
}

static void write_holder(const LaunchLock *l, double time_s)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s %ld %.0f\n", process_host(), (long)getpid(), time_s);
    if (pwrite(l->fd, text, (size_t)n, 0) != n || ftruncate(l->fd, n) != 0)
        log_warning("%s: cannot be renewed: %s", l->path, strerror(errno));
}

typedef enum Lock {
    LOCK_OURS,
    LOCK_HELD,
    LOCK_UNKNOWN /* files cannot be locked here */,
    LOCK_BROKEN
} Lock;

/* LOCK_BROKEN sets errno. lock_holder_lives() holds the lock for an instant to see whether it is
 * free: so not at the first try alone. */
static Lock try_lock(int fd)
{
    for (int i = 0;; i++, clock_sleep_s(PAUSE_S)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return LOCK_OURS;
        if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return LOCK_UNKNOWN;
        if (errno != EWOULDBLOCK && errno != EINTR) return LOCK_BROKEN;
        if (i >= TRIES) return LOCK_HELD;
    }
}

static Status wait_for(const LaunchLock *l, double silent_s, double wait_s)
{
    const Holder first = read_holder(l->fd);
    const double start_s = clock_s();
    for (bool said = false;; said = true, clock_sleep_s(POLL_S)) {
        const Lock lock = try_lock(l->fd);
        if (lock == LOCK_BROKEN)
            return fail(ERR_IO, "%s: cannot be locked: %s", l->path, strerror(errno));
        const double watched_s = clock_s() - start_s;
        const Holder h = read_holder(l->fd);
        /* Of one host the lock itself tells; where there is none, this host's holder is watched
         * like another's. */
        const bool told = lock != LOCK_UNKNOWN && strcmp(h.host, process_host()) == 0;
        const bool given_back = !h.host[0] || h.time_s == 0,
                   renewed = !given_back && (h.time_s != first.time_s || h.pid != first.pid ||
                                             strcmp(h.host, first.host) != 0);
        if (lock != LOCK_HELD && (given_back || (!renewed && (told || watched_s >= silent_s))))
            return OK;
        if (lock == LOCK_OURS) flock(l->fd, LOCK_UN);
        if (renewed || (lock == LOCK_HELD && (told || !h.host[0])) ||
            watched_s >= fmax(silent_s, wait_s))
            return fail(ERR_ENV,
                        "%s: another convoy launch supervises this run (process %lld on %s)",
                        l->path, (long long)h.pid, h.host[0] ? h.host : "this host");
        if (signals_stop_requested())
            return fail(ERR_STOPPED, "asked to stop while waiting for %s", l->path);
        if (!said)
            log_info("%s: held by process %lld on %s; waiting to see whether it is alive", l->path,
                     (long long)h.pid, h.host);
    }
}

Status lock_take(LaunchLock **out, const char *run_dir, double silent_s, double wait_s)
{
    *out = NULL;
    LaunchLock *l = mem_calloc(1, sizeof *l);
    if (!l) return ERR_MEMORY;
    l->path = fs_join(run_dir, "launch.lock");
    l->fd = -1;
    Status status = l->path ? fs_open(&l->fd, l->path, O_RDWR | O_CREAT) : ERR_MEMORY;
    if (status == OK) status = wait_for(l, silent_s, wait_s);
    if (status == OK) {
        write_holder(l, clock_unix_s());
        *out = l;
        return OK;
    }
    if (l->fd >= 0) close(l->fd); /* what stands in it belongs to the other */
    mem_free(l->path);
    mem_free(l);
    return status;
}

/* Another's name says so; that nothing can be read does not. */
static bool is_taken(const LaunchLock *l)
{
    Holder h = read_holder(l->fd);
    return h.host[0] && (h.pid != getpid() || strcmp(h.host, process_host()) != 0);
}

bool lock_renew(LaunchLock *l)
{
    if (is_taken(l)) return false;
    write_holder(l, clock_unix_s());
    return true;
}

void lock_release(LaunchLock *l)
{
    if (!l) return;
    if (!is_taken(l)) write_holder(l, 0); /* free for a supervisor on any host */
    close(l->fd);
    mem_free(l->path);
    mem_free(l);
}

static int open_lock(const char *run_dir, int flags)
{
    char *path FREED = fs_join(run_dir, "launch.lock");
    return path ? open(path, flags | O_CLOEXEC) : -1;
}

bool lock_is_held(const char *run_dir)
{
    int fd FREED_BY(fs_close) = open_lock(run_dir, O_RDONLY);
    if (fd < 0) return false;
    Holder h = read_holder(fd);
    return h.host[0] && h.time_s != 0 && lock_holder_lives(run_dir, h.host, h.time_s);
}

bool lock_holder_lives(const char *run_dir, const char *host, double time_s)
{
    if (strcmp(process_host(), host) != 0) return clock_unix_s() - time_s < YOUNG_S;
    int fd FREED_BY(fs_close) = open_lock(run_dir, O_RDWR);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return false;
    return errno == EWOULDBLOCK || clock_unix_s() - time_s < YOUNG_S; /* else no locks here */
}
