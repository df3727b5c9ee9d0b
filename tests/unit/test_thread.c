/* Threads, the count of CPUs, the bounded queue. */
#include "base/clock.h"
#include "base/thread.h"
#include "tests/test.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
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

TEST(queue_is_first_in_first_out)
{
    Queue *q;
    int items[5];
    void *item = NULL;
    REQUIRE_OK(queue_create(&q, 3));
    for (int round = 0; round < 4; round++) { /* goes around the ring */
        for (int i = 0; i < 3; i++) CHECK(queue_put(q, &items[i]));
        CHECK_INT(queue_length(q), 3);
        for (int i = 0; i < 3; i++) CHECK(queue_take(q, &item) && item == &items[i]);
        CHECK(!queue_try_take(q, &item));
        CHECK(queue_put(q, &items[4]) && queue_try_take(q, &item) && item == &items[4]);
    }
    queue_destroy(q);
    queue_destroy(NULL);
}

TEST(closed_queue_drains_and_refuses)
{
    Queue *q;
    int items[2];
    void *item = NULL;
    REQUIRE_OK(queue_create(&q, 2));
    CHECK(queue_put(q, &items[0]) && queue_put(q, &items[1]));
    queue_close(q);
    CHECK(!queue_put(q, &items[0]));
    CHECK(queue_take(q, &item) && item == &items[0]);
    CHECK(queue_take(q, &item) && item == &items[1]);
    CHECK(!queue_take(q, &item));
    queue_destroy(q);
}

static void *put_one(void *arg)
{
    static int item;
    return queue_put(arg, &item) ? &item : NULL;
}

static void *take_one(void *arg)
{
    void *item = NULL;
    return queue_take(arg, &item) ? item : NULL;
}

TEST(close_wakes_those_who_wait)
{
    Queue *full, *empty;
    pthread_t putter, taker;
    int item;
    void *put = &item, *taken = &item;
    REQUIRE_OK(queue_create(&full, 1));
    REQUIRE_OK(queue_create(&empty, 1));
    CHECK(queue_put(full, &item));
    REQUIRE_OK(thread_start(&putter, "putter", put_one, full));
    REQUIRE_OK(thread_start(&taker, "taker", take_one, empty));
    clock_sleep_s(0.02); /* most likely both wait by now; if not, the result is the same */
    queue_close(full);
    queue_close(empty);
    pthread_join(putter, &put);
    pthread_join(taker, &taken);
    CHECK(put == NULL && taken == NULL);
    queue_destroy(full);
    queue_destroy(empty);
}

enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS_EACH = 2000 };
static unsigned char pool[PRODUCERS * ITEMS_EACH];
static atomic_int taken_times[PRODUCERS * ITEMS_EACH];
typedef struct Producer {
    Queue *queue;
    int first;
} Producer;

static void *produce(void *arg)
{
    const Producer *p = arg;
    for (int i = 0; i < ITEMS_EACH; i++) queue_put(p->queue, &pool[p->first + i]);
    return NULL;
}

static void *consume(void *arg)
{
    void *item;
    while (queue_take(arg, &item)) atomic_fetch_add(&taken_times[(unsigned char *)item - pool], 1);
    return NULL;
}

TEST(many_producers_and_consumers_lose_nothing)
{
    Queue *q;
    Producer producers[PRODUCERS];
    pthread_t producing[PRODUCERS], consuming[CONSUMERS];
    REQUIRE_OK(queue_create(&q, 4));
    for (int i = 0; i < CONSUMERS; i++)
        REQUIRE_OK(thread_start(&consuming[i], "consumer", consume, q));
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (Producer){ q, i * ITEMS_EACH };
        REQUIRE_OK(thread_start(&producing[i], "producer", produce, &producers[i]));
    }
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producing[i], NULL);
    queue_close(q);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consuming[i], NULL);
    int wrong = 0;
    for (int i = 0; i < PRODUCERS * ITEMS_EACH; i++) wrong += taken_times[i] != 1;
    CHECK_INT(wrong, 0);
    queue_destroy(q);
}
