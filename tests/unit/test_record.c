/* test_record.c - what a supervised run records. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/launch/record.h"
#include <string.h>

static void write_text(const char *name, const char *text)
{
    char *path = fs_join(test_scratch(), name);
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    mem_free(path);
}

TEST(a_torn_event_is_cut_off)
{
    Record *r = NULL;
    uint8_t *text = NULL;
    size_t bytes = 0;
    write_text("launch.jsonl", "{\"event\":\"start\"}\n{\"event\":\"ru");
    REQUIRE_OK(record_open(&r, test_scratch(), 0, 0));
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
