/* thread.h - starts threads that have a name and leave signals to the main thread; counts CPUs. */
#ifndef CONVOY_BASE_THREAD_H
#define CONVOY_BASE_THREAD_H
#include "base/status.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* Asks a thread where it is (base/process/stacks.h): the one signal that every thread takes. */
#define THREAD_STACK_SIGNAL (SIGRTMIN + 6)

/* Starts a thread named name (at most 15 bytes shown). All signals but THREAD_STACK_SIGNAL and
 * SIGBUS (base/mapping.h) are blocked in it: the main thread takes them. */
Status thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg);
/* A thread that looks at something again and again until it is told to end. */
typedef struct ThreadWatcher {
    pthread_mutex_t lock; /* of what it shares with others */
    pthread_cond_t wake;
    pthread_t thread;
    bool started, stop;
} ThreadWatcher;
void thread_watcher_init(ThreadWatcher *w);
/* Once: of a thread that runs OK. */
Status thread_watcher_start(ThreadWatcher *w, const char *name, void *(*run)(void *), void *arg);
/* Under the lock: waits until woken, or at most this many seconds (below 0: no limit). False: the
 * end. */
bool thread_watcher_sleep(ThreadWatcher *w, double seconds);
void thread_watcher_end(ThreadWatcher *w); /* also of one without a thread */
/* CPUs in this process's affinity mask, capped by a cgroup cpu quota; at least 1 */
int thread_allowed_cpus(void);
/* what that quota is, of all processes of the group together; 0: none */
int thread_quota_cpus(void);
#endif
