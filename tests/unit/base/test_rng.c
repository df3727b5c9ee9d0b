/* Philox against the known answers of Random123, and the distributions built on it. */
#include "base/rng.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>

TEST(philox_known_answers)
{
    static const struct {
        uint64_t key;
        uint32_t counter[4], want[4];
    } rows[] = {
        { 0, { 0, 0, 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX,
          { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { 0x299f31d0a4093822,
          { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (int i = 0; i < 3; i++) {
        uint32_t got[4];
        philox_4x32(rows[i].key, rows[i].counter, got);
        CHECK(memcmp(got, rows[i].want, sizeof got) == 0);
    }
}

TEST(stream_is_the_blocks_in_order)
{
    Rng rng = rng_at(0x123456789abcdef0, RNG_CROP, 5, 6);
    for (uint32_t block = 0; block < 3; block++) {
        uint32_t counter[4] = { 5, 6, RNG_CROP, block }, want[4];
        philox_4x32(0x123456789abcdef0, counter, want);
        for (int k = 0; k < 4; k++) CHECK_INT(rng_u32(&rng), want[k]);
    }
}

TEST(every_part_of_the_address_matters)
{
    Rng base = rng_at(1, RNG_CROP, 2, 3);
    Rng others[] = { rng_at(1ull << 32 | 1, RNG_CROP, 2, 3), rng_at(2, RNG_CROP, 2, 3),
                     rng_at(1, RNG_FLIP, 2, 3), rng_at(1, RNG_CROP, 3, 3),
                     rng_at(1, RNG_CROP, 2, 4) };
    uint32_t first = rng_u32(&base);
    for (int i = 0; i < 5; i++) CHECK(rng_u32(&others[i]) != first);
    Rng again = rng_at(1, RNG_CROP, 2, 3);
    CHECK_INT(rng_u32(&again), first);
}

TEST(uniform_covers_the_unit_interval)
{
    Rng rng = rng_at(7, RNG_TEST, 0, 0);
    double sum = 0, squares = 0, least = 1, most = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        double u = rng_uniform(&rng);
        sum += u;
        squares += u * u;
        least = fmin(least, u);
        most = fmax(most, u);
    }
    CHECK(least >= 0 && most < 1);
    CHECK_NEAR(least, 0, 1e-3);
    CHECK_NEAR(most, 1, 1e-3);
    CHECK_NEAR(sum / n, 0.5, 0.004); /* standard error 0.0009 */
    CHECK_NEAR(squares / n, 1.0 / 3, 0.004);
}

TEST(below_is_even_and_in_range)
{
    Rng rng = rng_at(8, RNG_TEST, 0, 0);
    int counts[7] = { 0 };
    const int n = 70000;
    for (int i = 0; i < n; i++) {
        uint64_t v = rng_below(&rng, 7);
        REQUIRE(v < 7);
        counts[v]++;
    }
    for (int i = 0; i < 7; i++) CHECK_NEAR(counts[i], n / 7, 500); /* standard deviation 93 */
    CHECK_INT(rng_below(&rng, 1), 0);
    /* For n = 2^63 + 1 nearly half of all words must be rejected; without rejection small values
     * would come twice as often. */
    int low = 0;
    for (int i = 0; i < 10000; i++) low += rng_below(&rng, (1ull << 63) + 1) < (1ull << 62);
    CHECK_NEAR(low, 5000, 300);
}

TEST(normal_has_the_right_moments)
{
    Rng rng = rng_at(9, RNG_TEST, 0, 0);
    double sum = 0, squares = 0, fourth = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        double x = rng_normal(&rng);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    CHECK_NEAR(sum / n, 0, 0.015);
    CHECK_NEAR(squares / n, 1, 0.025);
    CHECK_NEAR(fourth / n, 3, 0.2);
}

TEST(repeats_have_streams_of_their_own)
{
    Rng first = rng_at_repeat(1, RNG_CROP, 0, 2, 3), plain = rng_at(1, RNG_CROP, 2, 3);
    Rng second = rng_at_repeat(1, RNG_CROP, 1, 2, 3);
    uint32_t word = rng_u32(&plain);
    CHECK_INT(rng_u32(&first), word);
    CHECK(rng_u32(&second) != word);
}

/* Mean and variance of Beta(a, a): 1/2 and 1 / (4 (2a + 1)). */
TEST(beta_has_its_moments)
{
    static const double shapes[] = { 0.1, 0.2, 1.0, 4.0 };
    enum { DRAWS = 40000 };
    for (int k = 0; k < 4; k++) {
        Rng rng = rng_at(3, RNG_TEST, (uint32_t)k, 0);
        double sum = 0, squares = 0;
        for (int i = 0; i < DRAWS; i++) {
            double v = rng_beta(&rng, shapes[k], shapes[k]);
            REQUIRE(v >= 0 && v <= 1);
            sum += v;
            squares += (v - 0.5) * (v - 0.5);
        }
        CHECK_NEAR(sum / DRAWS, 0.5, 0.01);
        CHECK_NEAR(squares / DRAWS, 1 / (4 * (2 * shapes[k] + 1)), 0.004);
    }
    Rng rng = rng_at(3, RNG_TEST, 9, 0);
    double tiny = rng_beta(&rng, 1e-6, 1e-6); /* where the gammas themselves would be zero */
    CHECK(tiny >= 0 && tiny <= 1);
}

TEST(dirichlet_sums_to_one)
{
    enum { DRAWS = 20000 };
    Rng rng = rng_at(4, RNG_TEST, 0, 0);
    double mean[3] = { 0 }, square = 0;
    for (int i = 0; i < DRAWS; i++) {
        double v[3];
        rng_dirichlet(&rng, 1.0, 3, v);
        CHECK_NEAR(v[0] + v[1] + v[2], 1, 1e-12);
        for (int k = 0; k < 3; k++) mean[k] += v[k] / DRAWS;
        square += (v[0] - 1.0 / 3) * (v[0] - 1.0 / 3) / DRAWS;
    }
    for (int k = 0; k < 3; k++) CHECK_NEAR(mean[k], 1.0 / 3, 0.01);
    CHECK_NEAR(square, 1.0 / 18, 0.003);
}
