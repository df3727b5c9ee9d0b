/* Masks: how many, which, what is seen, and that all of it goes by its address alone. */
#include "data/tokens/dictionary.h"
#include "data/tokens/mask.h"
#include "tests/test.h"
#include <string.h>

enum { SEQUENCES = 600, LONGEST = 240, WORDS = 4005, MASK = 4004 };

static const TokenOptions usual = { .mask = .15, .mask_keep = .1, .mask_random = .1 };

static int64_t length_of(int i)
{
    return LONGEST - (i * 37) % 120;
}

static void fill(int32_t *ids, int i)
{
    const int64_t n = length_of(i);
    for (int64_t j = 0; j < n; j++) ids[j] = (int32_t)(4 + (j * 31 + i * 17) % 2000);
    ids[0] = TOKEN_BOS;
    ids[n - 1] = TOKEN_EOS;
}

typedef struct Tally {
    int64_t tokens, chosen, masked, kept, random, first, last, more;
    bool good;
} Tally;

static void tally_sequence(Tally *t, int i)
{
    int32_t was[LONGEST], ids[LONGEST], labels[LONGEST];
    const MaskDraw draw = { 42, true, 3, (uint32_t)i };
    const int64_t n = length_of(i);
    int64_t chosen = 0;
    fill(was, i);
    fill(ids, i);
    const int64_t count = mask_apply(&usual, WORDS, MASK, &draw, n, ids, labels);
    for (int64_t j = 0; j < n; j++) {
        t->good = t->good && (labels[j] == -1 ? ids[j] == was[j] : labels[j] == was[j]);
        if (labels[j] < 0) continue;
        chosen++;
        t->masked += ids[j] == MASK;
        t->kept += ids[j] == was[j];
        t->random += ids[j] != MASK && ids[j] != was[j];
        t->good = t->good && (ids[j] == was[j] || (ids[j] >= 4 && ids[j] < WORDS));
    }
    const int64_t least = (int64_t)(.15 * (double)n);
    t->good = t->good && chosen == count && count == mask_count(.15, n, &draw) &&
              (count == least || count == least + 1) && count <= mask_most(.15, n);
    t->tokens += n;
    t->chosen += chosen;
    t->more += count == least + 1;
    t->first += labels[0] >= 0;
    t->last += labels[n - 1] >= 0;
}

TEST(a_share_is_masked_and_four_fifths_of_it_are_seen_as_mask)
{
    Tally t = { .good = true };
    for (int i = 0; i < SEQUENCES; i++) tally_sequence(&t, i);
    const double chosen = (double)t.chosen;
    CHECK(t.good);
    CHECK_NEAR(chosen / (double)t.tokens, .15, .001);
    CHECK_NEAR((double)t.masked / chosen, .8, .01);
    CHECK_NEAR((double)t.kept / chosen, .1, .01);
    CHECK_NEAR((double)t.random / chosen, .1, .01);
    CHECK(t.first > SEQUENCES / 10 && t.first < SEQUENCES / 5);
    CHECK(t.last > SEQUENCES / 10 && t.last < SEQUENCES / 5);
    CHECK(t.more > SEQUENCES / 4 && t.more < 3 * SEQUENCES / 4);
}

TEST(all_places_are_chosen_equally_often)
{
    enum { N = 20, DRAWS = 4000 };
    int32_t ids[N] = { 0 }, labels[N];
    int often[N] = { 0 };
    for (uint32_t i = 0; i < DRAWS; i++) {
        const MaskDraw draw = { 7, true, 0, i };
        (void)mask_apply(&usual, WORDS, MASK, &draw, N, ids, labels);
        for (int j = 0; j < N; j++) {
            often[j] += labels[j] >= 0;
            ids[j] = 9;
        }
    }
    /* 600 expected, deviation 22.6 */
    for (int j = 0; j < N; j++) CHECK(often[j] > 500 && often[j] < 700);
}

static void apply(const MaskDraw *draw, double rate, int32_t *ids, int32_t *labels)
{
    TokenOptions o = usual;
    o.mask = rate;
    for (int i = 0; i < LONGEST; i++) ids[i] = 4 + i;
    (void)mask_apply(&o, WORDS, MASK, draw, LONGEST, ids, labels);
}

TEST(another_epoch_has_other_masks_but_not_in_evaluation)
{
    int32_t ids[LONGEST], again[LONGEST], labels[LONGEST], others[LONGEST];
    apply(&(MaskDraw){ 1, true, 0, 5 }, .15, ids, labels);
    apply(&(MaskDraw){ 1, true, 0, 5 }, .15, again, others);
    CHECK(memcmp(ids, again, sizeof ids) == 0 && memcmp(labels, others, sizeof labels) == 0);
    static const MaskDraw different[] = {
        { 1, true, 1, 5 }, { 2, true, 0, 5 }, { 1, true, 0, 6 }, { 1, false, 0, 5 }
    };
    for (int i = 0; i < 4; i++) {
        apply(&different[i], .15, again, others);
        CHECK(memcmp(labels, others, sizeof labels) != 0);
    }
    apply(&(MaskDraw){ 1, false, 0, 5 }, .15, ids, labels);
    apply(&(MaskDraw){ 1, false, 9, 5 }, .15, again, others);
    CHECK(memcmp(ids, again, sizeof ids) == 0 && memcmp(labels, others, sizeof labels) == 0);
}

TEST(extreme_rates)
{
    int32_t ids[LONGEST], labels[LONGEST];
    int chosen = 0;
    apply(&(MaskDraw){ 1, true, 0, 5 }, 1, ids, labels);
    for (int i = 0; i < LONGEST; i++) chosen += labels[i] == 4 + i;
    CHECK_INT(chosen, LONGEST);
    CHECK_INT(mask_most(1, LONGEST), LONGEST);
    CHECK_INT(mask_most(.15, 512), 77);
    CHECK_INT(mask_most(.15, 1), 1);
}
