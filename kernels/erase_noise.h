/* erase_noise.h - what an erased box holds, the same on every backend: normal draws of mean 0 and
 * variance 1 that are functions of the box's key and of the place in the image alone.
 *
 *   counter = (column, row, channel, 0); column and row are 0 where the box has one colour
 *   u, v    = uniforms of the block's four words, as rng_uniform() makes them
 *   value   = sqrt(-2 ln(1 - u)) cos(2 pi v), in double, rounded once */
#ifndef CONVOY_KERNELS_ERASE_NOISE_H
#define CONVOY_KERNELS_ERASE_NOISE_H
#include "base/philox.h"
#include "kernels/op_input.h"
#include <math.h>

CUDA_BOTH static inline double erase_noise_uniform(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)(high >> 5) << 26 | low >> 6) * 0x1p-53;
}

/* Of v turns, 0 to 1. The host reduces v as the device's cospi() does, without rounding. */
CUDA_BOTH static inline double erase_noise_cosine(double v)
{
#ifdef __CUDA_ARCH__
    return cospi(2.0 * v);
#else
    const double pi = 3.141592653589793238463, half = v > 0.5 ? 2.0 - 2.0 * v : 2.0 * v;
    return half > 0.25 && half < 0.75 ? sin(pi * (0.5 - half)) : cos(pi * half);
#endif
}

/* box: ERASE_COUNT words; mode: no ERASE_CONST */
CUDA_BOTH static inline float erase_noise_at(const int32_t *box, EraseMode mode, int channel, int y,
                                             int x)
{
    const bool each = mode == ERASE_PIXEL;
    const uint32_t counter[4] = { each ? (uint32_t)x : 0u, each ? (uint32_t)y : 0u,
                                  (uint32_t)channel, 0u };
    uint32_t words[4];
    philox_4x32((uint64_t)(uint32_t)box[ERASE_KEY_HIGH] << 32 | (uint32_t)box[ERASE_KEY_LOW],
                counter, words);
    const double u = erase_noise_uniform(words[0], words[1]),
                 v = erase_noise_uniform(words[2], words[3]);
    return (float)(sqrt(-2.0 * log(1.0 - u)) * erase_noise_cosine(v));
}
#endif
