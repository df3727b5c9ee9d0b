/* test_rank_watchdog.c - a process without progress ends with 76 and says where it was; one with
 * progress lives on. */
#include "base/clock.h"
#include "tests/test.h"
#include "trainer/engine/comm/launcher.h"
#include "trainer/engine/guard/rank_watchdog.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the place of an mpirun: listens, and tells the process where. */
static int play_mpirun(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof a;
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, bytes) != 0 || listen(fd, 64) != 0) _exit(98);
    if (getsockname(fd, (struct sockaddr *)&a, &bytes) != 0) _exit(98);
    snprintf(address, sizeof address, "1.0;tcp://127.0.0.1:%d", ntohs(a.sin_port));
    setenv(LAUNCHER_ADDRESS, address, 1);
    return fd;
}

static int mpirun; /* of the process under test */

/* Runs work in a process of its own, watched; its exit code, or 128 and the signal. */
static int watched(const RankWatchdogLimits *limits, void (*work)(Comm *c))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        Comm *c = NULL;
        RankWatchdog *w = NULL;
        mpirun = play_mpirun();
        if (comm_self_create(&c) != OK || rank_watchdog_start(&w, c, limits, test_scratch()) != OK)
            _exit(99);
        work(c);
        rank_watchdog_stop(w);
        comm_destroy(c);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void hang_in_a_step(Comm *c)
{
    comm_set_progress(c, 41, "step");
    clock_sleep_s(20);
}

static void hang_at_start(Comm *c)
{
    (void)c;
    clock_sleep_s(20);
}

static void go_on(Comm *c)
{
    comm_set_progress(c, 0, "evaluation");
    for (int i = 0; i < 30; i++, clock_sleep_s(0.1)) comm_beat(c);
}

static void be_cut_off(Comm *c)
{
    comm_set_progress(c, 7, "step");
    clock_sleep_s(1);
    close(mpirun);
    clock_sleep_s(20);
}

static void be_cut_off_and_go_on(Comm *c)
{
    close(mpirun);
    go_on(c);
}

static void be_quiet(Comm *c)
{
    comm_set_progress(c, 7, "step");
    clock_sleep_s(2.5);
}

TEST(a_step_without_end_is_ended)
{
    RankWatchdogLimits limits = { .step_s = 0.5 };
    double start = clock_s();
    CHECK_INT(watched(&limits, hang_in_a_step), 76);
    CHECK(clock_s() - start < 15);
}

TEST(each_phase_has_its_own_limit)
{
    RankWatchdogLimits start = { .start_s = 0.5 },
                       evaluation = { .start_s = 60, .step_s = 0.2, .evaluation_s = 2.5 };
    CHECK_INT(watched(&start, hang_at_start), 76);
    CHECK_INT(watched(&evaluation, go_on), 0); /* three seconds of it, with signs of life */
}

TEST(a_rank_without_progress_that_mpirun_does_not_answer_ends)
{
    RankWatchdogLimits limits = { .disconnect_s = 1 }, none = { .step_s = 3 };
    double start = clock_s();
    CHECK_INT(watched(&limits, be_cut_off), 76);
    CHECK(clock_s() - start > 1.5 && clock_s() - start < 10);
    CHECK_INT(watched(&limits, be_cut_off_and_go_on), 0); /* who makes progress does not ask */
    CHECK_INT(watched(&limits, be_quiet), 0);             /* mpirun answers */
    start = clock_s();
    CHECK_INT(watched(&none, be_cut_off), 76); /* by the step's limit */
    CHECK(clock_s() - start > 2.9);
}
