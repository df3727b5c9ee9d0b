/* test_record.c - the lock of a supervised run, and what it records. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/launch/record.h"
#include <stdio.h>
#include <string.h>

static void write_text(const char *name, const char *text)
{
    char *path = fs_join(test_scratch(), name);
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    mem_free(path);
}

TEST(a_run_has_one_supervisor)
{
    Record *first = NULL, *second = NULL;
    REQUIRE_OK(record_open(&first, test_scratch()));
    CHECK_STATUS(record_open(&second, test_scratch()), ERR_ENV);
    CHECK_CONTAINS(status_message(), "another convoy launch has this run");
    CHECK(second == NULL);
    record_close(first);
    CHECK_OK(record_open(&second, test_scratch()));
    record_close(second);
}

TEST(a_lock_of_another_host_holds_while_it_is_fresh)
{
    char text[128];
    Record *r = NULL;
    snprintf(text, sizeof text, "elsewhere 77 %.0f\n", clock_unix_s() - RECORD_FRESH_S / 2);
    write_text("launch.lock", text);
    CHECK_STATUS(record_open(&r, test_scratch()), ERR_ENV);
    CHECK_CONTAINS(status_message(), "process 77 on elsewhere");
    snprintf(text, sizeof text, "elsewhere 77 %.0f\n", clock_unix_s() - RECORD_FRESH_S - 5);
    write_text("launch.lock", text);
    CHECK_OK(record_open(&r, test_scratch()));
    record_close(r);
    write_text("launch.lock", "");
    CHECK_OK(record_open(&r, test_scratch()));
    record_close(r);
}

TEST(a_torn_event_is_cut_off)
{
    Record *r = NULL;
    uint8_t *text = NULL;
    size_t bytes = 0;
    write_text("launch.jsonl", "{\"event\":\"start\"}\n{\"event\":\"ru");
    REQUIRE_OK(record_open(&r, test_scratch()));
    json_int(record_begin(r, "exit"), "code", 3);
    record_end(r);
    record_close(r);
    char *path = fs_join(test_scratch(), "launch.jsonl");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "{\"event\":\"start\"}\n{\"event\":\"exit\",\"time\":");
    mem_free(text);
    mem_free(path);
}

TEST(status_of_no_run_is_an_error)
{
    CHECK_STATUS(record_print_state(test_scratch()), ERR_DATA);
    write_text("launch.status.json", "{\"state\":");
    CHECK_STATUS(record_print_state(test_scratch()), ERR_DATA);
}
