/* sampler.c - the epoch permutation as a function: no list of a million ids, no work at the start
 * of an epoch, any position in O(1).
 *
 * Ids 0..N-1 are laid on a grid of a x b cells, a = ceil(sqrt N), b = ceil(N / a), as (left,
 * right). A Feistel network over that grid, left += F(right) mod a, then right += F(left) mod b, is
 * a bijection whatever F is; F is Philox addressed by (seed, epoch, round, half). A result outside
 * 0..N-1 goes in again (cycle walking), which keeps it a bijection on 0..N-1; fewer than sqrt(N) +
 * 1 cells are outside, so that is rare. Unlike a network on powers of two this one has no parity
 * restriction and hardly walks. Eight double rounds pass the tests in test_sampler.c: positions,
 * pairs, and all permutations of five. */
#include "data/load/sampler.h"
#include "base/rng.h"
#include "base/status.h"

#define DOUBLE_ROUNDS 8

static int64_t ceil_sqrt(int64_t n)
{
    int64_t root = 1;
    for (int64_t step = (int64_t)1 << 31; step > 0; step >>= 1)
        if ((root + step - 1) <= (n - 1) / (root + step - 1)) root += step;
    return root; /* the largest r with (r-1)^2 <= n-1, i.e. (r-1)^2 < n <= r^2 */
}

/* 64 random bits for (seed, epoch, round, half); the counter layout is rng_at's: a, b, purpose,
 * index. */
static uint64_t round_bits(uint64_t seed, uint32_t epoch, uint32_t round, int64_t half)
{
    uint32_t counter[4] = { epoch, (uint32_t)half, RNG_SHUFFLE, round }, words[4];
    philox_4x32(seed, counter, words);
    return (uint64_t)words[1] << 32 | words[0];
}

static int64_t permute(uint64_t seed, uint32_t epoch, int64_t x, int64_t a, int64_t b)
{
    int64_t left = x / b, right = x % b;
    for (uint32_t round = 0; round < 2 * DOUBLE_ROUNDS; round += 2) {
        left = (left + (int64_t)(round_bits(seed, epoch, round, right) % (uint64_t)a)) % a;
        right = (right + (int64_t)(round_bits(seed, epoch, round + 1, left) % (uint64_t)b)) % b;
    }
    return left * b + right;
}

int64_t sampler_id(uint64_t seed, int64_t images, int64_t position)
{
    ASSERT(images > 0 && position >= 0);
    uint32_t epoch = (uint32_t)(position / images);
    int64_t a = ceil_sqrt(images), b = (images + a - 1) / a;
    int64_t x = position % images;
    do x = permute(seed, epoch, x, a, b);
    while (x >= images);
    return x;
}
