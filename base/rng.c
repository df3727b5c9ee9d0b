/* rng.c - Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3;
 * SC 2011).
 *
 * The formulas below are part of the file formats, so to say: scripts outside C compute the same
 * draws, and a change would make every run in the past unrepeatable.
 *   counter  = (a, b, purpose, index)      key = (low word, high word of the seed)
 *   u32      = the four words of block index = 0, 1, 2, ... in order
 *   uniform  = ((u32 >> 5) * 2^26 + (u32 >> 6)) / 2^53
 *   below n  = u64 (first word high) modulo n, redrawn while it is below 2^64 mod n
 *   normal   = sqrt(-2 ln(1 - u)) cos(2 pi v), u and v uniform
 *   gamma    = Marsaglia and Tsang, A simple method for generating gamma variables (2000): per try
 *              a normal, redrawn while 1 + c x <= 0, then a uniform; a shape below 1 first takes a
 *              uniform u, and u^(1/shape) times the draw of shape + 1 */
#include "base/rng.h"

#include "base/status.h"
#include <math.h>

Rng rng_at(uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b)
{
    return (
        Rng){ .seed = seed, .a = a, .b = b, .purpose = (uint32_t)purpose, .index = 0, .used = 4 };
}

Rng rng_at_repeat(uint64_t seed, RngPurpose purpose, uint32_t repeat, uint32_t a, uint32_t b)
{
    Rng rng = rng_at(seed, purpose, a, b);
    rng.purpose |= repeat << 8;
    return rng;
}

uint32_t rng_u32(Rng *rng)
{
    if (rng->used == 4) {
        uint32_t counter[4] = { rng->a, rng->b, rng->purpose, rng->index++ };
        philox_4x32(rng->seed, counter, rng->words);
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
    uint64_t reject = (0 - n) % n; /* 2^64 mod n: this many values too many for equal shares */
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

static double log_gamma_above_one(Rng *rng, double shape)
{
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = 0, v = 0;
        do {
            x = rng_normal(rng);
            v = 1.0 + c * x;
        } while (v <= 0.0);
        v = v * v * v;
        if (log(1.0 - rng_uniform(rng)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d) + log(v);
    }
}

/* The logarithm of a Gamma(shape, 1) draw, shape > 0: small shapes give numbers too small for a
 * double. */
static double log_gamma(Rng *rng, double shape)
{
    ASSERT(shape > 0);
    if (shape >= 1.0) return log_gamma_above_one(rng, shape);
    double boost = log(1.0 - rng_uniform(rng)) / shape;
    return boost + log_gamma_above_one(rng, shape + 1.0);
}

double rng_beta(Rng *rng, double a, double b)
{
    double x = log_gamma(rng, a), y = log_gamma(rng, b);
    return 1.0 / (1.0 + exp(y - x));
}

void rng_dirichlet(Rng *rng, double alpha, int count, double *out)
{
    double largest = -HUGE_VAL, sum = 0;
    for (int i = 0; i < count; i++) {
        out[i] = log_gamma(rng, alpha);
        largest = out[i] > largest ? out[i] : largest;
    }
    for (int i = 0; i < count; i++) sum += out[i] = exp(out[i] - largest);
    for (int i = 0; i < count; i++) out[i] /= sum;
}
