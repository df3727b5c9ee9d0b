/* test_on_save.c - the command beside the training: what it is told, that nobody waits for it, and
 * how it fails. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/train/on_save.h"
#include <stdio.h>
#include <string.h>

#define PATIENCE_S 20.0

static OnSave *make(const char *command, double limit_s)
{
    OnSave *h = NULL;
    CHECK_OK(on_save_create(&h, command, test_scratch(), limit_s));
    return h;
}

static bool next(OnSave *h, OnSaveResult *out)
{
    for (double end = clock_s() + PATIENCE_S; clock_s() < end; clock_sleep_s(0.005))
        if (on_save_poll(h, out)) return true;
    return false;
}

static char *path_of(const char *name)
{
    return fs_join(test_scratch(), name);
}

static void touch(const char *name)
{
    char *path = path_of(name);
    CHECK_OK(fs_write_atomic(path, "", 0));
    mem_free(path);
}

static void wait_for(const char *name)
{
    char *path = path_of(name);
    for (double end = clock_s() + PATIENCE_S; clock_s() < end && !fs_exists(path);)
        clock_sleep_s(0.005);
    CHECK(fs_exists(path));
    mem_free(path);
}

TEST(command_is_told_file_step_and_run)
{
    OnSave *h = make("echo \"$CONVOY_CHECKPOINT|$CONVOY_STEP\" > \"$CONVOY_RUN_DIR/told\"", 10);
    OnSaveResult r;
    uint8_t *text = NULL;
    size_t bytes;
    char *path = path_of("told");
    REQUIRE(h != NULL);
    CHECK_OK(on_save_submit(h, 12, "a folder/step 12"));
    REQUIRE(next(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_DONE);
    CHECK_INT(r.step, 12);
    CHECK_INT(r.code, 0);
    CHECK(!on_save_poll(h, &r));
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_STR((const char *)text, "a folder/step 12|12\n");
    CHECK(on_save_idle(h));
    mem_free(text);
    mem_free(path);
    on_save_destroy(h);
}

TEST(failure_and_time_limit_are_results)
{
    OnSaveResult r;
    OnSave *h = make("echo no such bucket >&2; exit 7", 10);
    REQUIRE(h != NULL);
    CHECK_OK(on_save_submit(h, 1, "x"));
    REQUIRE(next(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_FAILED);
    CHECK_INT(r.code, 7);
    on_save_destroy(h);
    h = make("sleep 100 & wait", 0.2); /* a child of its own too */
    REQUIRE(h != NULL);
    double start = clock_s();
    CHECK_OK(on_save_submit(h, 2, "x"));
    REQUIRE(next(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_TIMED_OUT);
    CHECK(r.seconds >= 0.19 && clock_s() - start < PATIENCE_S);
    on_save_destroy(h);
}

/* While one runs the newest waits, those between are skipped, and both files are needed. */
TEST(nobody_waits_and_the_newest_comes_next)
{
    OnSaveResult r;
    OnSave *h = make(
        "cd \"$CONVOY_RUN_DIR\" && : > began.$CONVOY_STEP && until [ -e go ]; do sleep 0.01; done",
        30);
    REQUIRE(h != NULL);
    CHECK_OK(on_save_submit(h, 1, "x"));
    wait_for("began.1");
    double start = clock_s();
    CHECK_OK(on_save_submit(h, 2, "x"));
    CHECK_OK(on_save_submit(h, 3, "x"));
    CHECK(clock_s() - start < 1);
    CHECK(on_save_needs(h, 1) && !on_save_needs(h, 2) && on_save_needs(h, 3));
    REQUIRE(on_save_poll(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_SKIPPED);
    CHECK_STR(on_save_outcome_name(r.outcome), "skipped");
    CHECK_INT(r.step, 2);
    CHECK(!on_save_poll(h, &r) && !on_save_idle(h));
    touch("go");
    for (int64_t step = 1; step <= 3; step += 2) {
        REQUIRE(next(h, &r));
        CHECK_INT(r.step, step);
        CHECK_INT(r.outcome, ON_SAVE_DONE);
    }
    CHECK(on_save_idle(h) && !on_save_needs(h, 3));
    on_save_destroy(h);
}

TEST(the_end_has_a_limit)
{
    OnSaveResult r;
    OnSave *h = make(": > \"$CONVOY_RUN_DIR/began.$CONVOY_STEP\"; sleep 100", 0.4);
    REQUIRE(h != NULL);
    CHECK_OK(on_save_submit(h, 1, "x"));
    wait_for("began.1");
    CHECK_OK(on_save_submit(h, 2, "x"));
    on_save_finish(h);
    double start = clock_s();
    REQUIRE(next(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_TIMED_OUT);
    REQUIRE(next(h, &r));
    CHECK_INT(r.outcome, ON_SAVE_TIMED_OUT);
    CHECK_INT(r.step, 2);
    CHECK(clock_s() - start < PATIENCE_S / 2);
    CHECK(on_save_idle(h));
    on_save_destroy(h);
}
