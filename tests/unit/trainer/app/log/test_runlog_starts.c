/* test_runlog_starts.c - a run folder in which convoy starts more than once, one after another or
 * at the same time. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/log/runlog.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_scratch(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", test_scratch(), name);
}

static Config *some_config(void)
{
    Config *c = NULL;
    CHECK_OK(config_load(&c, NULL, NULL, 0));
    return c;
}

/* A start of the run in the folder "parts", of max_steps steps. */
static void start_part(int64_t max_steps)
{
    char dir[512];
    RunLog *r = NULL;
    Config *c = some_config();
    in_scratch(dir, "parts");
    c->train.max_steps = max_steps;
    REQUIRE_OK(runlog_open(&r, dir, 0, c));
    REQUIRE_OK(runlog_begin(r, c, 1));
    CHECK_OK(runlog_record(r, RECORD_START,
                           &(StartRecord){ .model = "resnet20",
                                           .dataset = "idx",
                                           .backend = "cpu",
                                           .host = "h",
                                           .version = "1",
                                           .device = "cpu",
                                           .precision = "fp32",
                                           .device_reason = "cpu in fp32" }));
    runlog_close(r);
    config_destroy(c);
}

static void check_steps(const char *name, const char *want)
{
    char path[512];
    uint8_t *text = NULL;
    size_t bytes;
    in_scratch(path, name);
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, want);
    mem_free(text);
}

TEST(every_other_configuration_stays)
{
    char path[512];
    for (int64_t steps = 101; steps <= 103; steps++) {
        start_part(steps);
        start_part(steps); /* the same: nothing to keep */
    }
    check_steps("parts/config-1.yaml", "max_steps: 101");
    check_steps("parts/config-2.yaml", "max_steps: 102");
    check_steps("parts/config.yaml", "max_steps: 103");
    in_scratch(path, "parts/config-3.yaml");
    CHECK(!fs_exists(path));
    /* one that somebody removed is written again, and there is nothing to keep */
    in_scratch(path, "parts/config.yaml");
    REQUIRE(unlink(path) == 0);
    start_part(104);
    check_steps("parts/config.yaml", "max_steps: 104");
    in_scratch(path, "parts/config-3.yaml");
    CHECK(!fs_exists(path));
}

/* However often it failed before. */
TEST(a_folder_in_which_a_run_began_late_is_not_new)
{
    static const char start[] = "{\"event\":\"start\"}\n";
    char dir[512], path[512];
    StrBuf text = { 0 };
    Config *c = some_config();
    in_scratch(dir, "late");
    in_scratch(path, "late/metrics.jsonl");
    REQUIRE_OK(fs_make_dirs(dir));
    for (int i = 0; i < 40; i++) {
        RunLog *r = NULL;
        str_clear(&text);
        str_printf(&text, "%*s\n%s", 8150 + i, "", i < 39 ? start : "");
        REQUIRE_OK(fs_write_atomic(path, text.text, text.length));
        REQUIRE_OK(runlog_open(&r, dir, 0, c));
        CHECK_INT(runlog_is_new(r), i == 39);
        runlog_close(r);
    }
    str_free(&text);
    config_destroy(c);
}

/* Holds the folder's lock for some seconds, in a process of its own. */
static pid_t hold(const char *dir, double seconds)
{
    RunLog *other = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        if (runlog_open(&other, dir, 0, NULL) != OK) _exit(1);
        clock_sleep_s(seconds);
        _exit(0);
    }
    clock_sleep_s(0.3);
    return pid;
}

TEST(another_start_that_ends_is_waited_for)
{
    char dir[512];
    RunLog *r = NULL;
    Config *c = some_config();
    in_scratch(dir, "taken");
    pid_t pid = hold(dir, 1);
    double start = clock_s();
    CHECK_OK(runlog_open(&r, dir, 0, c));
    CHECK(clock_s() - start > 0.3);
    runlog_close(r);
    CHECK(waitpid(pid, NULL, 0) == pid);
    pid = hold(dir, 1);
    c->comm.timeout_s = 0.2; /* after which other ranks would miss this one */
    CHECK_STATUS(runlog_open(&r, dir, 0, c), ERR_IO);
    CHECK_CONTAINS(status_message(), "another convoy is writing to this run folder");
    CHECK_STATUS(runlog_open(&r, dir, 0, NULL), ERR_IO); /* no run: no waiting */
    CHECK(waitpid(pid, NULL, 0) == pid);
    config_destroy(c);
}
