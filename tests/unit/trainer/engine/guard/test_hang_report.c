/* test_hang_report.c - the file that a rank leaves which its watchdogs end. */
#include "base/arena.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/guard/hang_report.h"
#include <string.h>
#include <unistd.h>

static const char *text_of(const JsonValue *v, const char *key)
{
    const JsonValue *field = json_get(v, key);
    return field && field->type == JSON_STRING ? field->string : "";
}

static bool has_frame(const JsonValue *thread, const char *function)
{
    const JsonValue *stack = json_get(thread, "stack");
    for (const JsonValue *f = stack ? stack->child : NULL; f; f = f->next)
        if (strstr(f->string, function)) return true;
    return false;
}

TEST(a_hang_report_says_where_the_threads_are)
{
    Comm *c = NULL;
    Arena *arena = NULL;
    JsonValue *v = NULL;
    uint8_t *text = NULL;
    size_t bytes = 0;
    REQUIRE_OK(comm_self_create(&c));
    comm_set_progress(c, 41, "step");
    hang_report_prepare();
    hang_report_write(c, test_scratch(), "for this test");
    char *path = fs_join(test_scratch(), "hang-0.json");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, (const char *)text, bytes, &v));
    CHECK_STR(text_of(v, "phase"), "step");
    CHECK_STR(text_of(v, "reason"), "for this test");
    REQUIRE(json_get(v, "step") && json_get(v, "pid") && json_get(v, "threads"));
    CHECK_INT(json_get(v, "step")->integer, 41);
    CHECK_INT(json_get(v, "pid")->integer, getpid());
    const JsonValue *first = json_get(v, "threads")->child;
    REQUIRE(first != NULL);
    CHECK_INT(json_get(first, "thread")->integer, getpid());
    CHECK(text_of(first, "comm")[0] != '\0');
    CHECK(has_frame(first, "hang_report_write"));
    arena_destroy(arena);
    mem_free(text);
    mem_free(path);
    comm_destroy(c);
}
