/* test_lock.c - one supervisor for a run; the lock that a dead host left. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "tests/test.h"
#include "trainer/app/launch/lock.h"
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

/* As another host's supervisor would have written it, by its clock; not held by flock(). */
static void write_holder(double time_s)
{
    char *path = fs_join(test_scratch(), "launch.lock");
    FILE *f = fopen(path, "w"); /* in place, as a renewal is */
    CHECK(f && fprintf(f, "elsewhere 77 %.0f\n", time_s) > 0 && fclose(f) == 0);
    mem_free(path);
}

TEST(a_run_has_one_supervisor)
{
    LaunchLock *first = NULL, *second = NULL;
    double start = clock_s();
    REQUIRE_OK(lock_take(&first, test_scratch(), 600, 600));
    /* of this host: nothing to wait for */
    CHECK_STATUS(lock_take(&second, test_scratch(), 600, 600), ERR_ENV);
    CHECK(clock_s() - start < 60);
    CHECK_CONTAINS(status_message(), "another convoy launch supervises this run");
    CHECK(second == NULL);
    CHECK(lock_holder_lives(test_scratch(), process_host(), 0));
    lock_release(first);
    CHECK_OK(lock_take(&second, test_scratch(), 600, 0));
    lock_release(second);
}

TEST(a_lock_of_another_host_is_given_back)
{
    LaunchLock *l = NULL;
    double start = clock_s();
    write_holder(0);
    CHECK_OK(lock_take(&l, test_scratch(), 600, 0));
    CHECK(clock_s() - start < 60);
    lock_release(l);
}

/* Whatever its clock says. */
TEST(a_lock_that_nobody_renews_is_taken)
{
    const double ahead_s[] = { -1e6, 0, 1e6 };
    for (size_t i = 0; i < sizeof ahead_s / sizeof ahead_s[0]; i++) {
        LaunchLock *l = NULL;
        double start = clock_s();
        write_holder(clock_unix_s() + ahead_s[i]);
        CHECK_OK(lock_take(&l, test_scratch(), 0.3, 0));
        CHECK(clock_s() - start >= 0.3);
        lock_release(l);
    }
}

/* On behalf of a host that died: held, and nobody writes to it. */
TEST(a_lock_that_a_server_still_holds_is_waited_for)
{
    LaunchLock *l = NULL;
    write_holder(clock_unix_s());
    char *path = fs_join(test_scratch(), "launch.lock");
    pid_t server = fork();
    if (server == 0) {
        FILE *f = fopen(path, "r+");
        if (!f || flock(fileno(f), LOCK_EX) != 0) _exit(1);
        clock_sleep_s(2);
        _exit(0);
    }
    clock_sleep_s(0.5);
    CHECK_STATUS(lock_take(&l, test_scratch(), 0.1, 0), ERR_ENV);
    CHECK_CONTAINS(status_message(), "process 77 on elsewhere");
    CHECK_OK(lock_take(&l, test_scratch(), 0.1, 600));
    lock_release(l);
    int status = 0;
    CHECK(waitpid(server, &status, 0) == server && status == 0);
    mem_free(path);
}

TEST(a_lock_that_is_renewed_is_not_waited_for)
{
    LaunchLock *l = NULL;
    write_holder(1000);
    pid_t other = fork();
    if (other == 0) {
        clock_sleep_s(0.7);
        write_holder(1010);
        _exit(0);
    }
    CHECK_STATUS(lock_take(&l, test_scratch(), 600, 600), ERR_ENV);
    CHECK_CONTAINS(status_message(), "process 77 on elsewhere");
    CHECK(waitpid(other, NULL, 0) == other);
}

TEST(a_lock_that_is_given_back_meanwhile_is_taken)
{
    LaunchLock *l = NULL;
    write_holder(1000);
    pid_t other = fork();
    if (other == 0) {
        clock_sleep_s(0.7);
        write_holder(0);
        _exit(0);
    }
    double start = clock_s();
    CHECK_OK(lock_take(&l, test_scratch(), 600, 600));
    CHECK(clock_s() - start < 60);
    lock_release(l);
    CHECK(waitpid(other, NULL, 0) == other);
}

TEST(a_lock_that_another_host_took_is_not_renewed)
{
    LaunchLock *l = NULL;
    uint8_t *text = NULL;
    size_t bytes = 0;
    REQUIRE_OK(lock_take(&l, test_scratch(), 600, 0));
    CHECK(lock_renew(l));
    write_holder(clock_unix_s());
    CHECK(!lock_renew(l));
    lock_release(l);
    char *path = fs_join(test_scratch(), "launch.lock");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "elsewhere 77 ");
    mem_free(text);
    mem_free(path);
}

TEST(a_lock_file_of_nobody_is_free)
{
    LaunchLock *l = NULL;
    char *path = fs_join(test_scratch(), "launch.lock");
    CHECK_OK(fs_write_atomic(path, "", 0));
    REQUIRE_OK(lock_take(&l, test_scratch(), 600, 0));
    CHECK(truncate(path, 0) == 0);
    CHECK(lock_renew(l)); /* nobody's name is not another's */
    lock_release(l);
    mem_free(path);
}
