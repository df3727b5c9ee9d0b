/* test_trace.c - spans in lanes, and the file that viewers read. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/trace.h"
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/train/tracing.h"
#include <math.h>
#include <string.h>

/* The parsed events of the file; *first lives in arena. */
static Status written(Trace *t, Arena *arena, const JsonValue **first)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    JsonValue *root = NULL;
    char *path = fs_join(test_scratch(), "trace.json");
    Status status = trace_write(t, path, 3, "rank 3 on \"n7\"");
    if (status == OK) status = fs_read_file(path, &data, &bytes);
    if (status == OK) status = json_parse(arena, (const char *)data, bytes, &root);
    const JsonValue *events = status == OK ? json_get(root, "traceEvents") : NULL;
    *first = events ? events->child : NULL;
    mem_free(data);
    mem_free(path);
    return status;
}

/* The lane of the n-th span of this name, by its number; -1 if there is none. */
static int64_t thread_of(const JsonValue *first, const char *name, int n, double *ts)
{
    for (const JsonValue *e = first; e; e = e->next) {
        if (strcmp(json_get(e, "ph")->string, "X") || strcmp(json_get(e, "name")->string, name) ||
            n-- > 0)
            continue;
        *ts = json_get(e, "ts")->number;
        CHECK_INT(json_get(e, "pid")->integer, 3);
        return json_get(e, "tid")->integer;
    }
    return -1;
}

static const char *name_of(const JsonValue *first, int64_t thread)
{
    for (const JsonValue *e = first; e; e = e->next)
        if (!strcmp(json_get(e, "name")->string, "thread_name") &&
            json_get(e, "tid")->integer == thread)
            return json_get(json_get(e, "args"), "name")->string;
    return "no such lane";
}

TEST(spans_are_kept_while_it_is_on)
{
    Trace *t = NULL;
    Arena *arena = NULL;
    const JsonValue *first = NULL;
    double ts = 0, now = clock_s(), midnight = fmod(clock_unix_s(), 86400);
    REQUIRE_OK(trace_create(&t));
    REQUIRE_OK(arena_create(&arena, 0));
    int a = trace_lane(t, "a", false), b = trace_lane(t, "b", false);
    CHECK(a >= 0 && b >= 0 && a != b);
    CHECK_INT(trace_lane(t, "a", false), a);
    trace_add(t, a, "before", 1, now, now + 1);
    CHECK(!trace_on(t));
    trace_start(t);
    CHECK(trace_on(t));
    trace_add(t, a, "outer", 7, now, now + 0.5);
    trace_add(t, a, "inner", TRACE_NO_NUMBER, now + 0.125, now + 0.25);
    trace_add(t, -1, "nowhere", 1, now, now);
    trace_stop(t);
    trace_add(t, a, "after", 1, now, now + 1);
    REQUIRE_OK(written(t, arena, &first));
    CHECK_INT(thread_of(first, "before", 0, &ts), -1);
    CHECK_INT(thread_of(first, "after", 0, &ts), -1);
    CHECK_INT(thread_of(first, "nowhere", 0, &ts), -1);
    CHECK_STR(name_of(first, thread_of(first, "inner", 0, &ts)), "a");
    /* microseconds since midnight */
    CHECK_NEAR(fmod(ts / 1e6 + 86400 - midnight, 86400), 0.125, 0.5);
    for (const JsonValue *e = first; e; e = e->next) {
        const char *name = json_get(e, "name")->string;
        const JsonValue *args = json_get(e, "args");
        if (!strcmp(name, "outer")) CHECK_INT(json_get(args, "number")->integer, 7);
        if (!strcmp(name, "outer")) CHECK_NEAR(json_get(e, "dur")->number, 500000, 1e-3);
        if (!strcmp(name, "inner")) CHECK(args == NULL);
        if (!strcmp(name, "process_name"))
            CHECK_STR(json_get(args, "name")->string, "rank 3 on \"n7\"");
    }
    arena_destroy(arena);
    trace_destroy(t);
}

/* Of a spread lane spans that overlap lie in parts of their own, whatever the order in which they
 * came. */
TEST(spread_lanes_keep_overlapping_spans_apart)
{
    Trace *t = NULL;
    Arena *arena = NULL;
    const JsonValue *first = NULL;
    double now = clock_s(), ts;
    REQUIRE_OK(trace_create(&t));
    REQUIRE_OK(arena_create(&arena, 0));
    int lane = trace_lane(t, "sums", true);
    trace_start(t);
    trace_add(t, lane, "c", 0, now + 2.5, now + 3);
    trace_add(t, lane, "b", 0, now + 1, now + 4);
    trace_add(t, lane, "a", 0, now, now + 2);
    trace_stop(t);
    REQUIRE_OK(written(t, arena, &first));
    CHECK_STR(name_of(first, thread_of(first, "a", 0, &ts)), "sums");
    CHECK_STR(name_of(first, thread_of(first, "b", 0, &ts)), "sums 2");
    CHECK_STR(name_of(first, thread_of(first, "c", 0, &ts)), "sums");
    arena_destroy(arena);
    trace_destroy(t);
}

TEST(no_trace_keeps_nothing)
{
    CHECK_INT(trace_lane(NULL, "a", false), -1);
    trace_start(NULL);
    CHECK(!trace_on(NULL));
    trace_add(NULL, 0, "a", 0, 0, 1);
    trace_stop(NULL);
    trace_destroy(NULL);
}

TEST(steps_are_a_range)
{
    int64_t first = 0, last = 0;
    CHECK_OK(config_parse_trace_steps("3-5", &first, &last));
    CHECK(first == 3 && last == 5);
    CHECK_OK(config_parse_trace_steps("12", &first, &last));
    CHECK(first == 12 && last == 12);
    static const char *const wrong[] = { "0-3", "5-3", "a", "3-", "-3", "3-4-5", "3,4", "" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_STATUS(config_parse_trace_steps(wrong[i], &first, &last), ERR_USAGE);
}
