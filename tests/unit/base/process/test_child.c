/* test_child.c - processes of a supervisor: what they say, how they end, that none is left. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "tests/test.h"
#include "trainer/app/launch/mpirun.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static ChildResult run(const char *script, double timeout_s)
{
    const char *argv[] = { "sh", "-c", script, NULL };
    ChildResult r = { .code = -1 };
    CHECK_OK(child_run_until(&r, argv, timeout_s, NULL));
    return r;
}

TEST(output_errors_and_code_are_kept)
{
    ChildResult r = run("echo out; echo err >&2; exit 7", 10);
    CHECK_INT(r.code, 7);
    CHECK_STR(r.output.text, "out\n");
    CHECK_STR(r.errors.text, "err\n");
    CHECK(!r.timed_out);
    child_result_free(&r);
    r = run("kill -9 $$", 10);
    CHECK_INT(r.code, 128 + SIGKILL);
    child_result_free(&r);
    r = run("/none/such", 10);
    CHECK_INT(r.code, CHILD_CANNOT_START);
    child_result_free(&r);
}

/* Signals that the caller holds back do reach its children. */
TEST(a_child_begins_with_no_signal_blocked)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    REQUIRE(sigprocmask(SIG_BLOCK, &blocked, &before) == 0);
    ChildResult r = run("kill -TERM $$; exit 3", 10);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK_INT(r.code, 128 + SIGTERM);
    child_result_free(&r);
}

/* Whether all children and adopted orphans end by themselves within five seconds. */
static bool all_gone(void)
{
    for (double end = clock_s() + 5; clock_s() < end; clock_sleep_s(0.01))
        while (waitpid(-1, NULL, WNOHANG) != 0)
            if (errno == ECHILD) return true;
    return false;
}

TEST(what_takes_too_long_is_killed_with_all_it_started)
{
    double start = clock_s();
    REQUIRE_OK(child_adopt_orphans());
    ChildResult r = run("sleep 50 & sleep 50", 0.3);
    CHECK(r.timed_out);
    CHECK(clock_s() - start < 5);
    CHECK(all_gone());
    child_result_free(&r);
}

/* timeout makes a group of its own. */
TEST(what_takes_too_long_is_killed_in_whatever_group)
{
    REQUIRE_OK(child_adopt_orphans());
    ChildResult r = run("timeout 55 sh -c 'sleep 50; true'; true", 0.5);
    CHECK(r.timed_out);
    CHECK(all_gone());
    child_result_free(&r);
}

TEST(a_killed_process_takes_along_all_that_its_child_has_started)
{
    char script[1200], *begun = fs_join(test_scratch(), "begun");
    snprintf(script, sizeof script, "sleep 50 & : > '%s'; sleep 50; true", begun);
    REQUIRE_OK(child_adopt_orphans());
    pid_t parent = fork();
    if (parent == 0) {
        ChildResult r = run(script, 40);
        _exit(r.code);
    }
    for (double end = clock_s() + 10; clock_s() < end && !fs_exists(begun);) clock_sleep_s(0.005);
    CHECK(fs_exists(begun));
    kill(parent, SIGKILL);
    CHECK(all_gone());
    mem_free(begun);
}

TEST(a_child_may_kill_its_group_and_leave_something_behind)
{
    ChildResult r = run("kill -TERM 0; sleep 50", 20);
    CHECK_INT(r.code, 128 + SIGTERM);
    child_result_free(&r);
    char script[1200], *file = fs_join(test_scratch(), "file");
    snprintf(script, sizeof script, "{ exec > /dev/null 2>&1; sleep 0.5; : > '%s'; } &", file);
    r = run(script, 20);
    CHECK_INT(r.code, 0);
    CHECK(!fs_exists(file));
    for (double end = clock_s() + 10; clock_s() < end && !fs_exists(file);) clock_sleep_s(0.005);
    CHECK(fs_exists(file));
    child_result_free(&r);
    mem_free(file);
}

/* Those of several commands; nohup does not help them. */
TEST(what_commands_leave_in_the_background_ends_with_their_group)
{
    const char *argv[] = { "sh", "-c", "nohup sleep 500 > /dev/null 2>&1 & echo $!", NULL };
    ChildGroup group = { .leader = 0 };
    int64_t left[2] = { 0, 0 };
    REQUIRE_OK(child_adopt_orphans());
    for (int i = 0; i < 2; i++) {
        ChildResult r = { .code = -1 };
        REQUIRE_OK(child_run_in(&r, &group, argv, 10, NULL));
        CHECK(r.code == 0 && str_to_i64(r.output.text, &left[i]) && left[i] > 1);
        child_result_free(&r);
    }
    for (int i = 0; i < 2; i++) CHECK(left[i] > 1 && kill((pid_t)left[i], 0) == 0);
    child_group_end(&group);
    CHECK(all_gone());
    child_group_end(&group);
}

TEST(a_stream_kept_open_is_not_waited_for)
{
    double start = clock_s();
    ChildResult r = run("sleep 5 & echo done", 10);
    CHECK(!r.timed_out);
    CHECK_STR(r.output.text, "done\n");
    CHECK(clock_s() - start < 4);
    child_result_free(&r);
    child_kill_all();
}

TEST(output_without_end_is_cut)
{
    ChildResult r = run("head -c 3000000 /dev/zero | tr '\\0' x", 20);
    CHECK_INT(r.code, 0);
    CHECK_INT(r.output.length, CHILD_OUTPUT_MAX);
    child_result_free(&r);
}

TEST(a_program_that_is_not_there_is_an_error)
{
    const char *argv[] = { "no-such-mpirun", "-n", "2", NULL };
    pid_t pid = -1;
    CHECK_STATUS(child_start(&pid, argv, -1, -1), ERR_ENV);
    CHECK_STR(status_message(), "cannot start no-such-mpirun: No such file or directory");
    CHECK(pid == -1 && all_gone());
}

/* Not one that reads what its parent was to read. */
TEST(a_program_without_an_input_is_an_error)
{
    const char *argv[] = { "true", NULL };
    pid_t pid = -1;
    struct rlimit before;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    struct rlimit none = { .rlim_cur = STDERR_FILENO + 1, .rlim_max = before.rlim_max };
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    Status status = child_start(&pid, argv, -1, -1);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_STATUS(status, ERR_ENV);
    CHECK_STR(status_message(), "cannot start true: Too many open files");
    CHECK(pid == -1 && all_gone());
}

static double stop_at;

static bool stop(void)
{
    return clock_s() >= stop_at;
}

TEST(a_request_to_stop_ends_what_is_run)
{
    const char *argv[] = { "sleep", "50", NULL };
    double start = clock_s();
    ChildResult r;
    stop_at = start + 0.2;
    REQUIRE_OK(child_run_until(&r, argv, 40, stop));
    CHECK(r.timed_out);
    CHECK(clock_s() - start < 5);
    child_result_free(&r);
}

static int count_children(void)
{
    char text[64];
    snprintf(text, sizeof text, "ps -o pid= --ppid %ld | wc -l", (long)getpid());
    ChildResult r = run(text, 10);
    int count =
        /* without the shell that asks, and its guard */
        r.output.text ? (int)strtol(r.output.text, NULL, 10) - 2 : -1;
    child_result_free(&r);
    return count;
}

TEST(dead_orphans_are_reaped_and_the_child_is_left)
{
    const char *waiting[] = { "sleep", "60", NULL };
    const char *leaving[] = { "sh", "-c", "for i in 1 2 3; do (setsid true &); done", NULL };
    pid_t keep, pid;
    int code = 0;
    REQUIRE_OK(child_adopt_orphans());
    REQUIRE_OK(child_start(&keep, waiting, -1, -1));
    REQUIRE_OK(child_start(&pid, leaving, -1, -1));
    REQUIRE(child_wait(pid, &code, 10));
    for (double end = clock_s() + 2; clock_s() < end; clock_sleep_s(0.02)) {
        child_reap_orphans(keep);
        if (count_children() == 1) break;
    }
    CHECK_INT(count_children(), 1);
    child_signal(keep, SIGTERM);
    CHECK(child_wait(keep, &code, 2));
    CHECK_INT(code, 128 + SIGTERM);
}

TEST(orphans_are_found)
{
    const char *argv[] = { "sh", "-c",
                           "(setsid sleep 60 &) ; (setsid sh -c 'sleep 60 & wait' &) ; exit 3",
                           NULL };
    pid_t pid;
    int code;
    REQUIRE_OK(child_adopt_orphans());
    REQUIRE_OK(child_start(&pid, argv, -1, -1));
    REQUIRE(child_wait(pid, &code, 10));
    CHECK_INT(code, 3);
    child_kill_all();
    char text[64];
    snprintf(text, sizeof text, "pgrep -P %ld sleep", (long)getpid());
    ChildResult r = run(text, 10);
    CHECK(r.output.length == 0);
    child_result_free(&r);
}

TEST(exit_codes_of_a_run_are_understood)
{
    CHECK_STATUS(mpirun_status(0), OK);
    CHECK_STATUS(mpirun_status(64), ERR_USAGE);
    CHECK_STATUS(mpirun_status(65), ERR_DATA);
    CHECK_STATUS(mpirun_status(71), ERR_DIVERGED);
    CHECK_STATUS(mpirun_status(74), ERR_IO);
    CHECK_STATUS(mpirun_status(75), ERR_STOPPED);
    CHECK_STATUS(mpirun_status(76), ERR_PEER);
    CHECK_STATUS(mpirun_status(78), ERR_ENV);
    CHECK_STATUS(mpirun_status(127), ERR_ENV);
    static const int others[] = { 1, 9, 134, 137, 139, 205, 255 };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK_STATUS(mpirun_status(others[i]), ERR_PEER);
}
