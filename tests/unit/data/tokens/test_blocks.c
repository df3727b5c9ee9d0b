/* Break modes: small lists of sentences, cut by hand as fairseq's rules say. */
#include "base/str.h"
#include "data/tokens/blocks.h"
#include "tests/test.h"
#include <stdio.h>

/* "start+length ..." of the blocks, then "| long: how many, tokens in them, first sentence+tokens"
 * where some were left out. */
static void check_blocks(TokenBreak mode, int64_t most, const int *sizes, int count,
                         const char *want)
{
    Blocks b;
    StrBuf text = { 0 };
    int64_t tokens = 0;
    blocks_begin(&b, mode, most);
    for (int i = 0; i < count; i++) {
        REQUIRE_OK(blocks_add(&b, sizes[i]));
        tokens += sizes[i];
    }
    REQUIRE_OK(blocks_end(&b));
    for (int64_t i = 0; i < b.count; i++)
        str_printf(&text, "%s%lld+%d", i ? " " : "", (long long)b.start[i], b.length[i]);
    if (b.too_long > 0)
        str_printf(&text, " | long: %lld, %lld, %lld+%lld", (long long)b.too_long,
                   (long long)b.too_long_tokens, (long long)b.first_sentence,
                   (long long)b.first_tokens);
    CHECK_STR(text.text ? text.text : "", want);
    CHECK_INT(b.sentences, count);
    CHECK_INT(b.tokens, tokens);
    str_free(&text);
    blocks_free(&b);
}

#define CHECK_BLOCKS(mode, most, want, ...)                                                        \
    check_blocks(mode, most, (const int[]){ __VA_ARGS__ },                                         \
                 sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int), want)

#define MIXED 5, 3, 1, 4, 9, 2, 1, 1, 6

TEST(the_four_break_modes_cut_as_fairseq_does)
{
    CHECK_BLOCKS(BREAK_NONE, 8, "0+8 8+8 16+8 24+8", MIXED);
    CHECK_BLOCKS(BREAK_NONE, 5, "0+5 5+4", 2, 6, 1);
    CHECK_BLOCKS(BREAK_NONE, 9, "0+9", 2, 6, 1);
    CHECK_BLOCKS(BREAK_COMPLETE, 8, "0+8 8+5 22+4 26+6 | long: 1, 9, 5+9", MIXED);
    CHECK_BLOCKS(BREAK_COMPLETE_DOC, 8, "0+8 9+4 22+2 26+6 | long: 1, 9, 5+9", MIXED);
    CHECK_BLOCKS(BREAK_EOS, 8, "0+5 5+3 8+1 9+4 22+2 24+1 25+1 26+6 | long: 1, 9, 5+9", MIXED);
    CHECK_BLOCKS(BREAK_EOS, 0, "0+5 5+900", 5, 900);
}

TEST(a_block_takes_a_sentence_that_fits_exactly_and_an_empty_block_takes_any)
{
    CHECK_BLOCKS(BREAK_COMPLETE, 8, "0+8 8+8", 3, 5, 8);
    CHECK_BLOCKS(BREAK_COMPLETE, 8, "0+7 7+2", 7, 2);
    CHECK_BLOCKS(BREAK_COMPLETE, 8, "20+1 | long: 2, 20, 1+11", 11, 9, 1);
    CHECK_BLOCKS(BREAK_COMPLETE_DOC, 8, "12+3 | long: 1, 11, 1+11", 11, 1, 3);
    CHECK_BLOCKS(BREAK_COMPLETE_DOC, 8, "", 1, 1, 1);
    CHECK_BLOCKS(BREAK_COMPLETE_DOC, 8, "0+8 8+2", 3, 5, 2);
}
