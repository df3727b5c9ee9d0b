/* rng.c - Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011).
 *
 * The formulas below are part of the file formats, so to say: scripts outside C compute the same draws, and a change
 * would make every run in the past unrepeatable.
 *   counter  = (a, b, purpose, index)      key = (low word, high word of the seed)
 *   u32      = the four words of block index = 0, 1, 2, ... in order
 *   uniform  = ((u32 >> 5) * 2^26 + (u32 >> 6)) / 2^53
 *   below n  = u64 (first word high) modulo n, redrawn while it is below 2^64 mod n
 *   normal   = sqrt(-2 ln(1 - u)) cos(2 pi v), u and v uniform */
#include "base/rng.h"

#include "base/status.h"
#include <math.h>

#define PHILOX_ROUNDS 10

void philox4x32(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

Rng rng_at(uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b)
{
    return (Rng){ .seed = seed, .a = a, .b = b, .purpose = (uint32_t)purpose, .index = 0, .used = 4 };
}

uint32_t rng_u32(Rng *rng)
{
    if (rng->used == 4) {
        uint32_t counter[4] = { rng->a, rng->b, rng->purpose, rng->index++ };
        philox4x32(rng->seed, counter, rng->words);
        rng->used = 0;
    }
    return rng->words[rng->used++];
}

double rng_uniform(Rng *rng)
{
    uint64_t high = rng_u32(rng) >> 5, low = rng_u32(rng) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

uint64_t rng_below(Rng *rng, uint64_t n)
{
    ASSERT(n >= 1);
    uint64_t reject = (0 - n) % n; /* 2^64 mod n: so many values too many for an even share */
    for (;;) {
        uint64_t high = rng_u32(rng), x = high << 32 | rng_u32(rng);
        if (x >= reject) return x % n;
    }
}

double rng_normal(Rng *rng)
{
    double u = rng_uniform(rng), v = rng_uniform(rng);
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586476925 * v);
}
