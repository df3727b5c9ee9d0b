/* The arena: alignment, zeroes, chunks, failing on demand. */
#include "base/arena.h"
#include "base/mem.h"
#include "tests/test.h"
#include <string.h>

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
