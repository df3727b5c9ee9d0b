/* thread.h - threads and the bounded queue they meet in. Wrappers over pthreads that return Status
 * and name the thread.
 */
#ifndef CONVOY_BASE_THREAD_H
#define CONVOY_BASE_THREAD_H
#include "base/status.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a thread named name (at most 15 bytes shown). All signals but STACKS_SIGNAL
 * (base/stacks.h) are blocked in it: the main thread takes them. */
Status thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg);
/* CPUs in this process's affinity mask, capped by a cgroup cpu quota; at least 1 */
int thread_allowed_cpus(void);

/* Queue of pointers with a fixed capacity. Any number of producers and consumers. */
typedef struct Queue Queue;
Status queue_create(Queue **out, size_t capacity);
void queue_destroy(Queue *q);               /* NULL ok; nobody may be waiting in it */
bool queue_put(Queue *q, void *item);       /* waits while full; false if closed */
bool queue_take(Queue *q, void **item);     /* waits while empty; false if closed and empty */
bool queue_try_take(Queue *q, void **item); /* never waits; false if empty */
/* wakes everybody; puts fail, takes drain what is left */
void queue_close(Queue *q);
size_t queue_length(Queue *q);
#endif
