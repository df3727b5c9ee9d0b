/* parallel.c - a shared counter hands out the numbers; the first failure by number is kept.
 *
 * Numbers are handed out in rising order, so when one has failed all lower ones have been started,
 * and they are finished before the call returns: the lowest failure does not depend on timing. */
#include "base/parallel.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct Team {
    Status (*work)(void *cookie, int64_t i);
    void *cookie;
    int64_t count;
    _Atomic int64_t next;
    atomic_bool failed;
    pthread_mutex_t mutex; /* guards what follows */
    int64_t failed_at;
    Status status;
    char sentence[1024];
} Team;

static void keep_failure(Team *t, int64_t i, Status status)
{
    pthread_mutex_lock(&t->mutex);
    if (t->status == OK || i < t->failed_at) {
        t->status = status;
        t->failed_at = i;
        snprintf(t->sentence, sizeof t->sentence, "%s", status_message());
    }
    pthread_mutex_unlock(&t->mutex);
    t->failed = true;
}

static void *run_member(void *arg)
{
    Team *t = arg;
    while (!t->failed) {
        int64_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->count) break;
        Status status = t->work(t->cookie, i);
        if (status != OK) keep_failure(t, i, status);
    }
    return NULL;
}

Status parallel_run(int threads, int64_t count, const char *name,
                    Status (*work)(void *cookie, int64_t i), void *cookie)
{
    pthread_t others[PARALLEL_MAX];
    int wanted = threads > PARALLEL_MAX ? PARALLEL_MAX : threads, started = 0;
    if (wanted > count) wanted = (int)count;
    Team t = { .work = work, .cookie = cookie, .count = count, .mutex = PTHREAD_MUTEX_INITIALIZER };
    while (started < wanted - 1 && thread_start(&others[started], name, run_member, &t) == OK)
        started++;
    run_member(&t); /* also where no thread could be started */
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
    pthread_mutex_destroy(&t.mutex);
    return t.status == OK ? OK : fail(t.status, "%s", t.sentence);
}
