/* Threads and the count of CPUs. */
#include "base/thread.h"
#include "tests/test.h"
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct Seen {
    char name[32];
    bool blocked;
} Seen;

static void *look_around(void *arg)
{
    Seen *seen = arg;
    sigset_t mask;
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1;
    return seen;
}

TEST(started_threads_block_signals)
{
    Seen seen = { 0 };
    sigset_t mask;
    pthread_t thread;
    void *result = NULL;
    REQUIRE_OK(thread_start(&thread, "a name longer than fifteen", look_around, &seen));
    pthread_join(thread, &result);
    CHECK(result == &seen && seen.blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK(!sigismember(&mask, SIGTERM)); /* the starter's own mask came back */
}

TEST(cpus_follow_the_affinity_mask)
{
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    int cpus = thread_allowed_cpus(), first = 0;
    CHECK(cpus >= 1 && cpus <= CPU_COUNT(&all));
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_INT(thread_allowed_cpus(), 1);
}
