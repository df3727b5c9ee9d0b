/* test.h - what a unit test sees.
 *
 *     TEST(numbers_are_whole) { int64_t v; CHECK(!str_to_i64("7x", &v)); }
 *
 * in tests/unit/base/test_str.c is test "str.numbers_are_whole". Tests register themselves before
 * main() starts, so there is no list to edit. Each runs in a process of its own, with a time
 * limit. A failing CHECK prints file, line and values and goes on; a failing REQUIRE leaves the
 * test. All macros may be used in helper functions (REQUIRE only in those that return void). They
 * must stay on the test's main thread or be the only one that checks. */
#ifndef CONVOY_TESTS_TEST_H
#define CONVOY_TESTS_TEST_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct TestCase {
    const char *file, *name;
    void (*run)(void);
    struct TestCase *next;
} TestCase;
void test_register(TestCase *test);

#define TEST(id)                                                                                   \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void test_register_##id(void)                              \
    {                                                                                              \
        static TestCase test_case = { __FILE__, #id, test_##id, 0 };                               \
        test_register(&test_case);                                                                 \
    }                                                                                              \
    static void test_##id(void)

/* Each returns whether the check held. */
bool test_check(bool good, const char *file, int line, const char *text);
bool test_check_status(Status got, Status want, const char *file, int line, const char *text);
bool test_check_int(int64_t got, int64_t want, const char *file, int line, const char *text);
bool test_check_near(double got, double want, double tolerance, const char *file, int line,
                     const char *text);
bool test_check_string(const char *got, const char *want, const char *file, int line,
                       const char *text);
bool test_check_contains(const char *got, const char *part, const char *file, int line,
                         const char *text);

#define CHECK(cond) ((void)test_check((cond) ? true : false, __FILE__, __LINE__, #cond))
#define CHECK_STATUS(expr, want)                                                                   \
    ((void)test_check_status((expr), (want), __FILE__, __LINE__, #expr))
#define CHECK_OK(expr) ((void)test_check_status((expr), OK, __FILE__, __LINE__, #expr))
#define CHECK_INT(got, want)                                                                       \
    ((void)test_check_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got " == " #want))
#define CHECK_STR(got, want)                                                                       \
    ((void)test_check_string((got), (want), __FILE__, __LINE__, #got " == " #want))
#define CHECK_CONTAINS(got, part)                                                                  \
    ((void)test_check_contains((got), (part), __FILE__, __LINE__, #got))
/* |a - b| <= tol; a NaN on either side fails. */
#define CHECK_NEAR(a, b, tol)                                                                      \
    ((void)test_check_near((double)(a), (double)(b), (double)(tol), __FILE__, __LINE__,            \
                           #a " ~ " #b))
#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!test_check((cond) ? true : false, __FILE__, __LINE__, #cond)) return;                 \
    } while (0)
#define REQUIRE_OK(expr)                                                                           \
    do {                                                                                           \
        if (!test_check_status((expr), OK, __FILE__, __LINE__, #expr)) return;                     \
    } while (0)

/* What follows in this test cannot run here, and the caller returns: the runner prints why, and
 * unless a check failed counts the test as neither passed nor failed. */
void test_skip(const char *why);

/* An empty folder of this test's own, made at the first call, removed after success; kept after
 * failure. */
const char *test_scratch(void);

#endif
