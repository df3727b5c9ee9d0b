/* How many places the programs of a run on text have: few of them are nobody's. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/token_write.h"
#include "trainer/engine/session/canvas.h"

enum { BATCH = 16, TOKENS = 128, SENTENCES = 3000, SEED = 3 };

static void write_text(const char *dir)
{
    StrBuf text = { 0 };
    uint32_t state = 1;
    for (int i = 0; i < SENTENCES; i++) {
        state = state * 1664525 + 1013904223;
        const int words = 1 + (int)((state >> 16) % 60);
        for (int w = 0; w < words; w++) str_printf(&text, "w%d ", (i + w * w) % 50);
        str_add(&text, "\n");
    }
    token_write_set(dir, "train", text.text);
    str_free(&text);
}

/* The share of places that the micro-batches of an epoch take beyond their tokens. */
static double unused(TokenBreak mode, int *count)
{
    int64_t places[CANVAS_MAX], taken = 0, tokens = 0;
    Dataset *d = NULL;
    const DatasetOptions o = { .path = test_scratch(),
                               .format = DATA_FAIRSEQ,
                               .role = DATA_TRAIN,
                               .text = { .tokens = TOKENS, .break_mode = mode, .mask = 0.15 } };
    CHECK_OK(dataset_open(&d, &o));
    if (!d) return 1;
    *count = canvas_choose(d, BATCH, TOKENS, places);
    CHECK(places[*count - 1] == (int64_t)BATCH * TOKENS);
    for (int i = 1; i < *count; i++) CHECK(places[i - 1] < places[i]);
    for (int64_t at = 0; at + BATCH <= dataset_images(d); at += BATCH) {
        const int64_t own = sequences_count(d, SEED, at, BATCH).tokens;
        int i = 0;
        while (places[i] < own) i++;
        taken += places[i];
        tokens += own;
    }
    dataset_close(d);
    return 1 - (double)tokens / (double)taken;
}

TEST(few_places_are_nobodys)
{
    int count;
    write_text(test_scratch());
    CHECK(unused(BREAK_NONE, &count) < 0.01);
    CHECK(count == 1);
    CHECK(unused(BREAK_COMPLETE, &count) < 0.03);
    CHECK(unused(BREAK_EOS, &count) < 0.08);
    CHECK(count == CANVAS_MAX);
}

/* All batches have as many tokens: a program for those, and one for as many as there may be. */
TEST(equal_batches_have_one_number_of_places)
{
    StrBuf text = { 0 };
    int64_t places[CANVAS_MAX];
    Dataset *d = NULL;
    const DatasetOptions o = { .path = test_scratch(),
                               .format = DATA_FAIRSEQ,
                               .role = DATA_TRAIN,
                               .text = { .tokens = TOKENS, .break_mode = BREAK_EOS, .mask = .15 } };
    for (int i = 0; i < SENTENCES; i++) str_add(&text, "a b c d e f\n");
    token_write_set(test_scratch(), "train", text.text);
    str_free(&text);
    REQUIRE_OK(dataset_open(&d, &o));
    CHECK_INT(canvas_choose(d, BATCH, TOKENS, places), 2);
    CHECK(places[0] >= BATCH * 8 && places[0] < BATCH * 16 && places[1] == BATCH * TOKENS);
    dataset_close(d);
}
