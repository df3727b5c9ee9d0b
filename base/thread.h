/* thread.h - starts threads that have a name and leave signals to the main thread; counts CPUs. */
#ifndef CONVOY_BASE_THREAD_H
#define CONVOY_BASE_THREAD_H
#include "base/status.h"
#include <pthread.h>
#include <signal.h>

/* Asks a thread where it is (base/process/stacks.h): the one signal that every thread takes. */
#define THREAD_STACK_SIGNAL (SIGRTMIN + 6)

/* Starts a thread named name (at most 15 bytes shown). All signals but THREAD_STACK_SIGNAL and
 * SIGBUS (base/mapping.h) are blocked in it: the main thread takes them. */
Status thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg);
/* CPUs in this process's affinity mask, capped by a cgroup cpu quota; at least 1 */
int thread_allowed_cpus(void);
/* what that quota is, of all processes of the group together; 0: none */
int thread_quota_cpus(void);
#endif
