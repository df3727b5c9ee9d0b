/* float_math.h - bf16 and f16 as bits, to and from f32. Host and device compile these functions
 * alike.
 *
 * Rounding is to nearest, ties to even. What is beyond the largest finite number becomes infinity,
 * subnormals are exact (nothing is flushed), zeros keep their sign, and a NaN stays a NaN: quiet,
 * with its sign and the leading bits of its payload. Widening is exact, and narrowing what was
 * widened gives the same bits (signalling NaNs come back quiet). */
#ifndef CONVOY_KERNELS_FLOAT_MATH_H
#define CONVOY_KERNELS_FLOAT_MATH_H
#include "base/both.h"
#include <stdint.h>
#include <string.h>

CUDA_BOTH static inline uint32_t float_to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CUDA_BOTH static inline float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* bits >> shift, rounded to nearest even; 1 <= shift <= 31, and bits is far enough from
 * overflow. */
CUDA_BOTH static inline uint32_t float_shift_to_nearest_even(uint32_t bits, int shift)
{
    uint32_t half = 1u << (shift - 1), kept = bits >> shift, rest = bits & ((half << 1) - 1u);
    return kept + (rest > half || (rest == half && (kept & 1u)));
}

/* The largest numbers that are stored as zero, by type: half the smallest subnormal, a tie that
 * goes to even. */
#define FLOAT_F32_ZERO  0.0f
#define FLOAT_BF16_ZERO 0x1p-134f
#define FLOAT_F16_ZERO  0x1p-25f

CUDA_BOTH static inline float float_from_bf16(uint16_t bits)
{
    return float_from_bits((uint32_t)bits << 16);
}

CUDA_BOTH static inline uint16_t float_to_bf16(float x)
{
    /* Without a branch, and in the fewest instructions of a vector: loops are bound by these. A
     * carry into the exponent is right, up to infinity. */
    const uint32_t bits = float_to_bits(x), up = 0x7fffu + (bits >> 16 & 1u),
                   quiet = ~bits & 0x400000u;
    return (uint16_t)((bits + (x != x ? quiet : up)) >> 16);
}

CUDA_BOTH static inline float float_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu,
             fraction = bits & 0x3ffu;
    if (exponent == 0x1fu) return float_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent) return float_from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
    float magnitude = (float)fraction * 5.9604644775390625e-8f; /* 2^-24, exact */
    return sign ? -magnitude : magnitude;
}

CUDA_BOTH static inline uint16_t float_to_f16(float x)
{
    uint32_t bits = float_to_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 up: infinity */
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | float_shift_to_nearest_even(magnitude - 0x38000000u, 13));
    if (magnitude < 0x33000000u) return (uint16_t)sign; /* below 2^-25: zero */
    /* subnormal: the significand in units of 2^-24; 126 - exponent is 14 for the largest and 24 for
     * the smallest */
    uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign |
                      float_shift_to_nearest_even(significand, 126 - (int)(magnitude >> 23)));
}

#endif
