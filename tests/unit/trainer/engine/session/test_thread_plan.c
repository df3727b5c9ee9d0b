/* test_thread_plan.c - how many threads a rank gets, from its affinity mask and the
 * configuration. */
#include "base/thread.h"
#include "tests/test.h"
#include "trainer/engine/session/thread_plan.h"
#include <sched.h>

static ThreadPlan plan(const char *set, bool device)
{
    Comm *comm = NULL;
    Config *c = NULL;
    ThreadPlan p = { 0 };
    CHECK_OK(comm_self_create(&comm));
    CHECK_OK(config_load(&c, NULL, &set, set ? 1 : 0));
    if (comm && c) p = thread_plan_choose(comm, c, device);
    config_destroy(c);
    comm_destroy(comm);
    return p;
}

static int at_least_one(int n)
{
    return n > 0 ? n : 1;
}

TEST(decode_threads_leave_room_for_what_computes)
{
    int cpus = thread_allowed_cpus();
    ThreadPlan cpu = plan(NULL, false), device = plan(NULL, true);
    CHECK_INT(cpu.allowed, cpus);
    CHECK_INT(cpu.compute, cpus);
    CHECK_INT(cpu.decode, at_least_one(cpus / 4));
    CHECK_INT(device.decode, at_least_one(cpus - 2));
    CHECK_INT(plan("data.threads=7", false).decode, 7);
    CHECK_INT(plan("data.threads=7", true).decode, 7);
}

/* The mask counts, not the machine. */
TEST(mask_of_one_cpu)
{
    cpu_set_t set, one;
    REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_INT(thread_allowed_cpus(), 1);
    ThreadPlan p = plan(NULL, true);
    CHECK_INT(p.allowed, 1);
    CHECK_INT(p.compute, 1);
    CHECK_INT(p.decode, 1);
}
