/* test_progress.c - how far a run has come by its metrics.jsonl, and whether somebody writes
 * there. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/launch/progress.h"
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define STEP   "{\"event\":\"step\",\"time\":1.5,\"epoch\":0,\"step\":%d,\"loss\":2.25}\n"
#define SAVED  "{\"event\":\"checkpoint\",\"time\":1.5,\"step\":%d,\"path\":\"step\"}\n"
#define RESUME "{\"event\":\"resume\",\"time\":1.5,\"step\":%d,\"path\":\"x\"}\n"
#define GPU                                                                                        \
    "{\"event\":\"gpu\",\"time\":1.5,\"gpu\":0,\"uuid\":\"GPU-01234567-89ab-cdef-0123-"            \
    "456789abcdef\",\"utilization\":"                                                              \
    "97}\n"

static StrBuf text;

static void write_metrics(void)
{
    char *path = fs_join(test_scratch(), "metrics.jsonl");
    REQUIRE(path != NULL && !text.failed);
    CHECK_OK(fs_write_atomic(path, text.text, text.length));
    mem_free(path);
}

static int64_t last_step(void)
{
    write_metrics();
    return progress_last_step(test_scratch());
}

TEST(the_last_step_is_read_from_the_end)
{
    CHECK_INT(progress_last_step(test_scratch()), 0);
    str_add(&text, "{\"event\":\"start\",\"steps\":900}\n");
    CHECK_INT(last_step(), 0);
    for (int i = 1; i <= 2000; i++) str_printf(&text, STEP, i);
    str_add(&text, "{\"event\":\"step\",\"st"); /* torn */
    CHECK_INT(last_step(), 2000);
    str_free(&text);
}

TEST(records_without_a_step_do_not_hide_it)
{
    str_printf(&text, STEP, 500);
    for (int i = 0; i < 3000; i++) str_add(&text, GPU); /* several blocks */
    CHECK_INT(last_step(), 500);
    str_clear(&text);
    for (int i = 0; i < 3000; i++) str_add(&text, GPU);
    CHECK_INT(last_step(), 0);
    str_free(&text);
}

TEST(checkpoints_and_resumes_show_progress_too)
{
    str_printf(&text, STEP, 1000);
    str_printf(&text, SAVED, 1300);
    CHECK_INT(last_step(), 1300);
    str_printf(&text, STEP, 1400);
    str_printf(&text, SAVED, 1390); /* was being written meanwhile */
    CHECK_INT(last_step(), 1400);
    str_printf(&text, RESUME, 1390);
    CHECK_INT(last_step(), 1390);
    str_printf(&text, STEP, 1395);
    CHECK_INT(last_step(), 1395);
    str_free(&text);
}

TEST(a_line_without_end_is_no_endless_search)
{
    str_printf(&text, STEP, 5);
    for (int i = 0; i < 3000; i++) str_printf(&text, "%64s", "");
    str_add(&text, "\n");
    CHECK_INT(last_step(), 5);
    str_free(&text);
}

TEST(a_lock_is_seen_and_not_kept)
{
    int64_t bytes;
    CHECK(!progress_is_locked(test_scratch(), &bytes));
    CHECK_INT(bytes, -1);
    str_add(&text, "12345");
    write_metrics();
    char *path = fs_join(test_scratch(), "metrics.jsonl");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK(progress_is_locked(test_scratch(), &bytes));
    CHECK_INT(bytes, 5);
    close(fd);
    CHECK(!progress_is_locked(test_scratch(), &bytes));
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    close(fd);
    mem_free(path);
    str_free(&text);
}

TEST(the_exit_code_is_that_of_the_last_record)
{
    CHECK_INT(progress_exit_code(test_scratch()), -1);
    str_printf(&text, STEP, 1);
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), -1);
    str_add(&text, "{\"event\":\"done\",\"time\":1.5,\"code\":71,\"reason\":\"x\"}\n");
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), 71);
    static const char *const torn[] = { "{", "\n\n", "{\"ev", "\n", "{\"event\":\"done\",\"time\"",
                                        "\n" };
    for (size_t i = 0; i < sizeof torn / sizeof torn[0]; i++) {
        str_add(&text, torn[i]);
        write_metrics();
        CHECK_INT(progress_exit_code(test_scratch()), 71);
    }
    for (int i = 1; i <= 2000; i++) str_printf(&text, STEP, i);
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), -1);
    str_add(&text, "{\"event\":\"done\",\"time\":1.5,\"code\":0,\"reason\":\"completed\"}\n");
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), 0);
    str_free(&text);
}

#define BY_HAND "{\"event\":\"eval\",\"time\":1.5,\"step\":9,\"checkpoint\":\"best\"}\n"

/* convoy eval adds to a run that has ended, whatever its end was; training's own come before. */
TEST(evaluations_by_hand_do_not_hide_the_end)
{
    str_printf(&text, STEP, 9);
    str_add(&text, BY_HAND);
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), -1);
    str_add(&text, "{\"event\":\"done\",\"time\":1.5,\"code\":72,\"reason\":\"x\"}\n");
    str_add(&text, BY_HAND);
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), 72);
    str_add(&text, "{\"event\":\"eval\",\"ti"); /* torn */
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), 72);
    str_add(&text, "\n");
    for (int i = 0; i < 3000; i++) str_add(&text, BY_HAND); /* several blocks */
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), 72);
    CHECK_INT(progress_last_step(test_scratch()), 9);
    str_add(&text, "{\"event\":\"start\",\"steps\":900}\n");
    str_add(&text, BY_HAND);
    write_metrics();
    CHECK_INT(progress_exit_code(test_scratch()), -1);
    str_free(&text);
}
