/* The epoch permutation: a bijection, repeatable, and as good as random by chi-square on positions,
 * pairs and whole permutations. */
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include <math.h>

/* Chi-square of counts against equal expectation, as standard deviations from its mean (df = cells
 * - 1). */
static double chi_square_sigma(const int64_t *counts, int64_t cells, double expected)
{
    double sum = 0;
    for (int64_t i = 0; i < cells; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    double df = (double)cells - 1;
    return (sum - df) / sqrt(2 * df);
}

static void check_bijection(uint64_t seed, int64_t images, int64_t epoch)
{
    uint8_t *seen = mem_calloc((size_t)images, 1);
    REQUIRE(seen != NULL);
    int64_t distinct = 0;
    for (int64_t i = 0; i < images; i++) {
        int64_t id = sampler_id(seed, images, epoch * images + i);
        if (id < 0 || id >= images) continue;
        distinct += !seen[id];
        seen[id] = 1;
    }
    CHECK_INT(distinct, images);
    mem_free(seen);
}

TEST(every_epoch_is_a_permutation)
{
    static const int64_t sizes[] = { 1,  2,  3,  4,   5,   6,    7,    8,    9,    10,    15,
                                     16, 17, 99, 100, 101, 1000, 4095, 4096, 4097, 50000, 65537 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int64_t epoch = 0; epoch < 3; epoch++) check_bijection(5 + i, sizes[i], epoch);
}

TEST(large_sets_stay_in_range)
{
    const int64_t images = ((int64_t)1 << 40) + 12345;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t id = sampler_id(1, images, images * 3 + i);
        CHECK(id >= 0 && id < images);
    }
}

TEST(seed_and_epoch_matter)
{
    int same_seed = 0, same_epoch = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t id = sampler_id(1, 1000, i);
        CHECK_INT(sampler_id(1, 1000, i), id);
        same_seed += sampler_id(2, 1000, i) == id;
        same_epoch += sampler_id(1, 1000, i + 1000) == id;
    }
    CHECK(same_seed < 10); /* one in the mean */
    CHECK(same_epoch < 10);
}

TEST(positions_and_ids_are_independent)
{
    enum { IMAGES = 10007, CELLS = 32, EPOCHS = 8 };
    static int64_t counts[CELLS * CELLS];
    for (int64_t p = 0; p < (int64_t)EPOCHS * IMAGES; p++)
        counts[(p % IMAGES) * CELLS / IMAGES * CELLS + sampler_id(9, IMAGES, p) * CELLS / IMAGES]++;
    double sigma =
        chi_square_sigma(counts, CELLS * CELLS, (double)EPOCHS * IMAGES / (CELLS * CELLS));
    /* A permutation fills rows and columns evenly, so the sum lies a little below that of free
     * draws: -1.4 sigma expected. */
    CHECK_NEAR(sigma, -1.4, 4.0);
}

TEST(neighbours_are_independent)
{
    enum { IMAGES = 100000, CELLS = 64 };
    static int64_t counts[CELLS], pairs[CELLS * CELLS];
    int64_t before = sampler_id(3, IMAGES, IMAGES - 1);
    for (int64_t p = 0; p < IMAGES; p++) {
        int64_t id = sampler_id(3, IMAGES, p);
        /* distance between neighbours in the stream */
        counts[(id - before + IMAGES) % IMAGES * CELLS / IMAGES]++;
        pairs[before * CELLS / IMAGES * CELLS + id * CELLS / IMAGES]++;
        before = id;
    }
    CHECK_NEAR(chi_square_sigma(counts, CELLS, (double)IMAGES / CELLS), 0.0, 4.0);
    CHECK_NEAR(chi_square_sigma(pairs, CELLS * CELLS, (double)IMAGES / (CELLS * CELLS)), 0.0, 5.0);
}

TEST(all_permutations_of_five_are_equally_likely)
{
    enum { IMAGES = 5, CODES = 3125, EPOCHS = 24000 };
    static int64_t by_code[CODES], counts[120];
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t code = 0;
        for (int64_t i = 0; i < IMAGES; i++)
            code = code * IMAGES + sampler_id(21, IMAGES, epoch * IMAGES + i);
        by_code[code]++;
    }
    int found = 0;
    for (int i = 0; i < CODES; i++)
        if (by_code[i] && found < 120) counts[found++] = by_code[i];
    CHECK_INT(found, 120);
    CHECK_NEAR(chi_square_sigma(counts, 120, EPOCHS / 120.0), 0.0, 4.0);
}

TEST(batches_mix_the_classes)
{
    /* Ids of a class are neighbours, so the spread of class counts over batches must be that of
     * draws without replacement. */
    enum { IMAGES = 50000, CLASSES = 10, BATCH = 250 };
    double sum = 0;
    for (int64_t b = 0; b < IMAGES / BATCH; b++) {
        int64_t counts[CLASSES] = { 0 };
        for (int64_t i = 0; i < BATCH; i++)
            counts[sampler_id(77, IMAGES, b * BATCH + i) / (IMAGES / CLASSES)]++;
        for (int c = 0; c < CLASSES; c++)
            sum += (double)((counts[c] - BATCH / CLASSES) * (counts[c] - BATCH / CLASSES));
    }
    double variance = sum / (IMAGES / BATCH * CLASSES);
    /* 22.4 with the correction for a finite set; its error is 0.75 */
    CHECK_NEAR(variance, BATCH * 0.1 * 0.9, 2.0);
}
