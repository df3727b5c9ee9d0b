/* thread.c - starting threads, those that watch, counting CPUs. */
#include "base/thread.h"

#include "base/mem.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CPUS_MAX 65536

Status thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, THREAD_STACK_SIGNAL);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread starts with the mask of its creator */
    int error = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return fail(ERR_ENV, "cannot start thread %s: %s", name, strerror(error));
    char shown[16];
    snprintf(shown, sizeof shown, "%.15s", name);
    pthread_setname_np(*out, shown); /* for debuggers and top only; a failure changes nothing */
    return OK;
}

/* ---- watchers ---- */

void thread_watcher_init(ThreadWatcher *w)
{
    pthread_condattr_t monotonic;
    *w = (ThreadWatcher){ .started = false };
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

Status thread_watcher_start(ThreadWatcher *w, const char *name, void *(*run)(void *), void *arg)
{
    const Status status = w->started ? OK : thread_start(&w->thread, name, run, arg);
    w->started = status == OK;
    return status;
}

bool thread_watcher_sleep(ThreadWatcher *w, double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double end_s = (double)t.tv_nsec * 1e-9 + fmax(seconds, 0);
    t.tv_sec += (time_t)end_s;
    t.tv_nsec = (long)((end_s - floor(end_s)) * 1e9);
    if (w->stop) return false;
    if (seconds < 0) pthread_cond_wait(&w->wake, &w->lock);
    else pthread_cond_timedwait(&w->wake, &w->lock, &t);
    return !w->stop;
}

void thread_watcher_end(ThreadWatcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->started) pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}

/* ---- CPUs ---- */

/* CPUs that a cgroup quota file grants ("max 100000" or "150000 100000"; half a CPU counts as one),
 * 0 for no limit. */
static int quota_in(const char *path)
{
    long long quota = 0, period = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    int fields = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    if (fields != 2 || quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

/* The tightest cpu.max (cgroup v2) on the way from this process's group up to the root, 0 for
 * none. */
int thread_quota_cpus(void)
{
    char line[1024], path[1200];
    int least = 0;
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f) return 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) found = strncmp(line, "0::/", 4) == 0;
    fclose(f);
    if (!found) return 0;
    char *group = line + 3;
    group[strcspn(group, "\n")] = '\0';
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        int quota = quota_in(path);
        if (quota > 0 && (least == 0 || quota < least)) least = quota;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

/* CPUs in the affinity mask; 0 if it cannot be read. The kernel wants a set for all CPUs that there
 * could be, so larger ones are tried: never the number of CPUs online, which may be many more than
 * this process may use. */
static int mask_cpus(void)
{
    for (int bits = 1024; bits <= CPUS_MAX; bits *= 4) {
        size_t bytes = CPU_ALLOC_SIZE(bits);
        cpu_set_t *set FREED = mem_calloc(1, bytes);
        if (set && sched_getaffinity(0, bytes, set) == 0) return CPU_COUNT_S(bytes, set);
    }
    return 0;
}

int thread_allowed_cpus(void)
{
    int cpus = mask_cpus(), quota = thread_quota_cpus();
    if (quota > 0 && (cpus == 0 || quota < cpus)) cpus = quota;
    return cpus < 1 ? 1 : cpus;
}
