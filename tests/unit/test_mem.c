/* Allocation: counting, alignment, overflow, failing on demand; and the arena. */
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

TEST(arena_blocks_are_aligned_zeroed_and_apart)
{
    Arena *arena;
    unsigned char *blocks[200];
    REQUIRE_OK(arena_create(&arena, 256));
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)(i * 7 % 50); /* some are 0; 200 blocks need many chunks */
        blocks[i] = arena_alloc(arena, bytes);
        REQUIRE(blocks[i] && (uintptr_t)blocks[i] % 16 == 0);
        for (size_t k = 0; k < bytes; k++) CHECK(blocks[i][k] == 0);
        memset(blocks[i], i + 1, bytes);
    }
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < (size_t)(i * 7 % 50); k++)
            CHECK(blocks[i][k] == (unsigned char)(i + 1));
    }
    arena_destroy(arena);
    arena_destroy(NULL);
}

TEST(arena_takes_blocks_larger_than_a_chunk)
{
    Arena *arena;
    REQUIRE_OK(arena_create(&arena, 64));
    char *large = arena_alloc(arena, 100000), *text = arena_printf(arena, "%d-%s", 42, "x");
    REQUIRE(large && text);
    memset(large, 1, 100000);
    CHECK_STR(text, "42-x");
    CHECK_STR(arena_strdup(arena, "copy"), "copy");
    CHECK(arena_alloc(arena, SIZE_MAX) == NULL);
    CHECK(arena_alloc(arena, SIZE_MAX - 20) == NULL);
    arena_destroy(arena);
}

TEST(arena_reports_a_failed_chunk)
{
    Arena *arena;
    mem_fail_at(1);
    CHECK_STATUS(arena_create(&arena, 0), ERR_MEMORY);
    CHECK(arena == NULL);
    REQUIRE_OK(arena_create(&arena, 0));
    mem_fail_at(1);
    CHECK(arena_alloc(arena, 1) == NULL);
    CHECK(arena_alloc(arena, 1) != NULL);
    arena_destroy(arena);
}
