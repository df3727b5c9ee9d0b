/* Allocation: counting, alignment, overflow, failing on demand. */
#include "base/mem.h"
#include "tests/test.h"
#include <string.h>

TEST(every_allocation_counts)
{
    int64_t before = mem_allocation_count();
    void *a = mem_alloc(10), *b = mem_calloc(3, 4), *c = mem_alloc_aligned(100, 256);
    char *d = mem_strdup("text");
    a = mem_realloc(a, 20);
    CHECK_INT(mem_allocation_count() - before, 5);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    mem_free(NULL);
    CHECK_INT(mem_allocation_count() - before, 5);
}

TEST(zero_bytes_is_a_pointer)
{
    void *a = mem_alloc(0), *b = mem_alloc(0);
    CHECK(a && b && a != b);
    mem_free(a);
    mem_free(b);
    CHECK(mem_strdup(NULL) == NULL);
}

TEST(alignment_holds)
{
    for (size_t align = MEM_ALIGN; align <= 4096; align *= 2) {
        void *p = mem_alloc_aligned(33, align);
        CHECK(p && (uintptr_t)p % align == 0);
        mem_free(p);
    }
}

TEST(calloc_is_zeroed_and_checks_overflow)
{
    unsigned char *p = mem_calloc(100, 10);
    REQUIRE(p);
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += p[i];
    CHECK_INT(sum, 0);
    mem_free(p);
    CHECK(mem_calloc(SIZE_MAX / 2, 3) == NULL);
    CHECK_CONTAINS(status_message(), "out of memory");
}

TEST(checked_arithmetic)
{
    size_t out = 7;
    CHECK(mem_mul(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    CHECK(mem_mul(0, SIZE_MAX, &out) && out == 0);
    CHECK(!mem_mul(SIZE_MAX / 2 + 1, 2, &out));
    CHECK(mem_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    CHECK(!mem_add(SIZE_MAX, 1, &out));
}

TEST(nth_allocation_fails_once)
{
    mem_fail_at(2);
    void *a = mem_alloc(8), *b = mem_alloc(8), *c = mem_alloc(8);
    CHECK(a && !b && c);
    CHECK_CONTAINS(status_message(), "8 bytes");
    mem_free(a);
    mem_free(c);
    mem_fail_at(1);
    mem_fail_at(0);
    a = mem_alloc(8);
    CHECK(a);
    mem_free(a);
}

TEST(failed_realloc_keeps_the_block)
{
    char *p = mem_strdup("kept");
    mem_fail_at(1);
    CHECK(mem_realloc(p, 1000) == NULL);
    CHECK_STR(p, "kept");
    mem_free(p);
}

static int ended;

static void end_one(int *number)
{
    ended = 10 * ended + *number;
}

static bool leave_early(bool early)
{
    int first FREED_BY(end_one) = 1, second FREED_BY(end_one) = 2;
    char *block FREED = mem_alloc(8);
    if (early) return block != NULL;
    int third FREED_BY(end_one) = 3;
    return first + second + third == 6;
}

TEST(what_a_scope_owns_ends_with_it_the_last_one_first)
{
    ended = 0;
    CHECK(leave_early(false));
    CHECK(ended == 321);
    ended = 0;
    CHECK(leave_early(true));
    CHECK(ended == 21);
}
