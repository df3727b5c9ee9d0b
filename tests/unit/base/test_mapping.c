/* test_mapping.c - a mapped file that is cut short is read as zeros, on any thread, and ends
 * nothing; faults elsewhere end the process as they always did. */
#include "base/fs.h"
#include "base/mapping.h"
#include "base/thread.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

/* A file of ones. */
static int open_file(void)
{
    char path[1200], ones[BYTES];
    snprintf(path, sizeof path, "%s/mapped", test_scratch());
    memset(ones, 1, sizeof ones);
    CHECK_OK(fs_write_atomic(path, ones, sizeof ones));
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void *sum_up(void *arg)
{
    const volatile uint8_t **p = arg;
    uintptr_t sum = 0;
    for (int i = 0; i < BYTES; i += 512) sum += (*p)[i];
    *p = NULL;
    return (void *)sum;
}

static int64_t sum_on_thread(const uint8_t *bytes)
{
    const volatile uint8_t *p = bytes;
    pthread_t thread;
    void *sum = NULL;
    CHECK_OK(thread_start(&thread, "sum", sum_up, &p));
    CHECK(pthread_join(thread, &sum) == 0 && p == NULL);
    return (int64_t)(uintptr_t)sum;
}

TEST(a_mapped_file_that_is_cut_short_becomes_zeros)
{
    for (int shared = 0; shared < 2; shared++) {
        const int fd = open_file();
        uint8_t *p = mapping_open(fd, BYTES, shared);
        uint8_t *other = mapping_open(fd, 4096, false);
        REQUIRE(p && other && p[BYTES - 1] == 1);
        CHECK(ftruncate(fd, 4096) == 0);
        const volatile uint8_t *v = p;
        CHECK_INT(v[0] + v[4095], 2); /* still there */
        CHECK_INT(v[4096], 0);
        CHECK_INT(v[0], 0);   /* all of it */
        if (shared) p[5] = 7; /* goes nowhere */
        CHECK_INT(other[5], 1);
        mapping_close(p, BYTES);
        mapping_close(other, 4096);
        close(fd);
    }
}

TEST(a_mapped_file_may_be_cut_short_under_any_thread)
{
    const int fd = open_file();
    uint8_t *p = mapping_open(fd, BYTES, true);
    REQUIRE(p != NULL);
    CHECK_INT(sum_on_thread(p), BYTES / 512);
    CHECK(ftruncate(fd, 0) == 0);
    CHECK_INT(sum_on_thread(p), 0);
    mapping_close(p, BYTES);
    close(fd);
}

/* The signal that ends a child that does as told. */
static int signal_of(void (*act)(int fd), int fd)
{
    const pid_t child = fork();
    int status = 0;
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGBUS, SIG_DFL);
        if (!mapping_open(fd, BYTES, false)) _exit(1);
        act(fd);
        _exit(2);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void touch_another(int fd)
{
    const volatile uint8_t *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || ftruncate(fd, 0) != 0) _exit(3);
    _exit(p[0]);
}

static void send_signal(int fd)
{
    (void)fd;
    raise(SIGBUS);
}

TEST(faults_outside_of_mappings_end_the_process)
{
    const int fd = open_file();
    CHECK_INT(signal_of(send_signal, fd), SIGBUS);
    CHECK_INT(signal_of(touch_another, fd), SIGBUS);
    close(fd);
}

TEST(closed_mappings_leave_room_for_others)
{
    const int fd = open_file();
    for (int i = 0; i < 1000; i++) {
        void *p = mapping_open(fd, BYTES, i % 2);
        REQUIRE(p != NULL);
        mapping_close(p, BYTES);
    }
    mapping_close(NULL, 0);
    CHECK(mapping_open(-1, BYTES, false) == NULL);
    close(fd);
}
