/* JSON both ways: exact numbers, escapes, and refusal of everything that is not JSON. */
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/test.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(writer_places_commas)
{
    StrBuf b = { 0 };
    JsonWriter w = { .out = &b };
    for (int line = 0; line < 2; line++) {
        json_begin_object(&w, NULL);
        json_string(&w, "event", "step");
        json_begin_array(&w, "list");
        json_int(&w, NULL, -3);
        json_begin_object(&w, NULL);
        json_end_object(&w);
        json_bool(&w, NULL, 1);
        json_end_array(&w);
        json_begin_object(&w, "empty");
        json_end_object(&w);
        json_number(&w, "loss", 0.1);
        json_end_object(&w);
        str_add(&b, "\n");
    }
    const char *line = "{\"event\":\"step\",\"list\":[-3,{},true],\"empty\":{},\"loss\":0.1}\n";
    CHECK_INT(b.length, 2 * strlen(line));
    CHECK(str_starts_with(b.text, line));
    CHECK_STR(b.text + strlen(line), line);
    str_free(&b);
}

static void check_number(double value, const char *want)
{
    StrBuf b = { 0 };
    JsonWriter w = { .out = &b };
    json_number(&w, NULL, value);
    CHECK_STR(b.text, want);
    str_free(&b);
}

TEST(numbers_are_shortest_and_exact)
{
    check_number(0.1, "0.1");
    check_number(1.0 / 3, "0.3333333333333333");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_number(5, "5");
    check_number(-1e300, "-1e+300");
    check_number((double)NAN, "null");
    check_number(-(double)INFINITY, "null");
    double hard[] = {
        DBL_MIN, DBL_MAX, DBL_TRUE_MIN, 5e-324, 9007199254740993.0, 2.2250738585072011e-308
    };
    for (int i = 0; i < 6; i++) {
        StrBuf b = { 0 };
        JsonWriter w = { .out = &b };
        json_number(&w, NULL, hard[i]);
        CHECK(strtod(b.text, NULL) == hard[i]);
        str_free(&b);
    }
}

TEST(strings_are_escaped)
{
    StrBuf b = { 0 };
    JsonWriter w = { .out = &b };
    json_string(&w, "k\"", "a\"b\\c\n\t\x01 \xC3\xA9 \xFF \xE2\x82 \xED\xA0\x80 \xF0\x9F\x98\x80");
    CHECK_STR(b.text,
              "\"k\\\"\":\"a\\\"b\\\\c\\n\\t\\u0001 \xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD "
              "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xF0\x9F\x98\x80\"");
    str_free(&b);
}

/* A record may be printed: what steers a terminal is escaped, and reads back as it was. */
TEST(strings_do_not_steer_a_terminal)
{
    const char *text = "\x1b[2J\x7f\xC2\x80\xC2\x9B\xC2\xA0\xE2\x80\xAE\xE2\x80\xAF\xE2\x81\xA6";
    Arena *arena;
    JsonValue *back = NULL;
    StrBuf b = { 0 };
    JsonWriter w = { .out = &b };
    json_string(&w, NULL, text);
    CHECK_STR(b.text, "\"\\u001b[2J\\u007f\\u0080\\u009b\xC2\xA0\\u202e\xE2\x80\xAF\\u2066\"");
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, b.text, b.length, &back));
    CHECK_STR(back->string, text);
    arena_destroy(arena);
    str_free(&b);
}

TEST(a_tree_is_made_visible)
{
    const char *text = "[\"a\\u001b\\n\",{\"k\":\"\\u009b\"},\"plain\",\"\"]";
    Arena *arena;
    JsonValue *root = NULL;
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, text, strlen(text), &root));
    REQUIRE_OK(json_make_visible(arena, root));
    const JsonValue *first = root->child;
    CHECK_STR(first->string, "a\\x1b\\n");
    CHECK_STR(json_get(first->next, "k")->string, "\\xc2\\x9b");
    CHECK_STR(first->next->next->string, "plain");
    CHECK_STR(first->next->next->next->string, "");
    arena_destroy(arena);
}

TEST(utf8_is_what_the_rfc_says_at_each_of_its_edges)
{
    const char *good[] = { "\x7F",         "\xC2\x80",         "\xDF\xBF",
                           "\xE0\xA0\x80", "\xED\x9F\xBF",     "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF" };
    const char *bad[] = { "\x80",
                          "\xC1\xBF",
                          "\xDF\xC0",
                          "\xDF",
                          "\xE0\x9F\xBF",
                          "\xED\xA0\x80",
                          "\xEF\xBF",
                          "\xEF\x7F\xBF",
                          "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) CHECK(json_is_utf8(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) CHECK(!json_is_utf8(bad[i]));
}

TEST(reader_builds_the_tree)
{
    const char *text =
        " {\"a\": [1, -2.5e1, true, false, null, \"x\\u00e9\\ud83d\\ude00\\n\\/\"], \"b\": {\"c\": "
        "9007199254740993} } ";
    Arena *arena;
    JsonValue *root;
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, text, strlen(text), &root));
    const JsonValue *v = json_get(root, "a");
    REQUIRE(v && v->type == JSON_ARRAY);
    v = v->child;
    CHECK(v->type == JSON_NUMBER && v->is_integer && v->integer == 1 && v->number == 1 &&
          v->key == NULL);
    v = v->next;
    CHECK(v->type == JSON_NUMBER && !v->is_integer && v->number == -25);
    v = v->next;
    CHECK(v->type == JSON_BOOL && v->number == 1);
    v = v->next;
    CHECK(v->type == JSON_BOOL && v->number == 0);
    v = v->next;
    CHECK(v->type == JSON_NULL);
    v = v->next;
    CHECK(v->type == JSON_STRING && v->next == NULL);
    CHECK_STR(v->string, "x\xC3\xA9\xF0\x9F\x98\x80\n/");
    CHECK_INT(json_get(json_get(root, "b"), "c")->integer, 9007199254740993);
    CHECK(json_get(root, "none") == NULL && json_get(NULL, "a") == NULL &&
          json_get(v, "a") == NULL);
    arena_destroy(arena);
}

TEST(reader_refuses_what_is_not_json)
{
    static const char *const rows[] = {
        "",        " ",        "{",         "}",           "[1,]",     "[1 2]",
        "{\"a\"}", "{\"a\":}", "{a:1}",     "{\"a\":1,}",  "01",       "-",
        "1.",      ".5",       "1e",        "+1",          "nul",      "truex",
        "\"abc",   "\"\\x\"",  "\"\\u12\"", "\"\\u0000\"", "\"a\nb\"", "[1]]",
        "1e999",   "\"\\",     "\"\\u",     "[\"a\",",     "NaN",      "{\"a\":1 \"b\":2}"
    };
    Arena *arena;
    REQUIRE_OK(arena_create(&arena, 0));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i]);
        /* exactly n bytes, so that the sanitizer sees a read past the end */
        char *copy = mem_alloc(n);
        JsonValue *root;
        memcpy(copy, rows[i], n);
        Status status = json_parse(arena, copy, n, &root);
        if (status != ERR_DATA || root) CHECK_STR(rows[i], "refused");
        mem_free(copy);
    }
    CHECK_CONTAINS(status_message(), "JSON: byte ");
    arena_destroy(arena);
}

/* Each value takes many times its bytes in the text. */
TEST(reader_bounds_the_number_of_values)
{
    enum { VALUES = 3 << 20 };
    Arena *arena;
    JsonValue *root;
    char *text = mem_alloc((size_t)2 * VALUES + 1);
    REQUIRE(text != NULL);
    for (int i = 0; i < 2 * VALUES; i += 2) memcpy(text + i, ",0", 2);
    text[0] = '[';
    text[2 * VALUES] = ']';
    REQUIRE_OK(arena_create(&arena, 0));
    CHECK_STATUS(json_parse(arena, text, (size_t)2 * VALUES + 1, &root), ERR_DATA);
    CHECK_CONTAINS(status_message(), "too many values");
    arena_destroy(arena);
    mem_free(text);
}

TEST(reader_stops_at_every_cut)
{
    const char *text = "{\"a\":[1.5e3,\"x\\u00e9\\n\",true,null],\"b\":{\"c\":[]}}";
    Arena *arena;
    JsonValue *root;
    REQUIRE_OK(arena_create(&arena, 0));
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = mem_alloc(n);
        memcpy(copy, text, n);
        CHECK_STATUS(json_parse(arena, copy, n, &root), ERR_DATA);
        mem_free(copy);
    }
    CHECK_OK(json_parse(arena, text, strlen(text), &root));
    arena_destroy(arena);
}

TEST(depth_is_bounded)
{
    char text[41];
    Arena *arena;
    JsonValue *root;
    REQUIRE_OK(arena_create(&arena, 0));
    for (int depth = 1; depth <= 20; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        CHECK_STATUS(json_parse(arena, text, (size_t)depth * 2, &root),
                     depth <= 16 ? OK : ERR_DATA);
    }
    arena_destroy(arena);
}

TEST(reader_survives_every_failed_allocation)
{
    const char *text = "{\"key\":[\"some text\",{\"x\":1}]}";
    int failures = 0;
    for (int k = 1;; k++) {
        Arena *arena;
        JsonValue *root = NULL;
        mem_fail_at(k);
        Status status = arena_create(&arena, 16);
        if (status == OK) status = json_parse(arena, text, strlen(text), &root);
        mem_fail_at(0);
        arena_destroy(arena);
        if (status == OK) break;
        CHECK_STATUS(status, ERR_MEMORY);
        failures++;
    }
    CHECK(failures > 5);
}
