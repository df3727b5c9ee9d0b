/* fast_div.h - division by a number that many threads share: one multiply and a shift instead of a
 * division. Made on the host, used on both sides.
 *
 * With l = ceil(log2 d) and m = floor(2^32 (2^l - d) / d) + 1, floor(n / d) = (floor(m n / 2^32) +
 * n) >> l (Granlund and Montgomery 1994); for n < 2^31 the sum fits into 32 bits. */
#ifndef CONVOY_KERNELS_CUDA_FAST_DIV_H
#define CONVOY_KERNELS_CUDA_FAST_DIV_H
#include "kernels/float_math.h"

typedef struct FastDiv {
    uint32_t divisor, multiplier, shift;
} FastDiv;

/* 1 <= divisor < 2^31 */
static inline FastDiv fast_div_make(uint32_t divisor)
{
    FastDiv d = { divisor, 0, 0 };
    while ((uint64_t)1 << d.shift < divisor) d.shift++;
    d.multiplier =
        (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - divisor)) / divisor + 1);
    return d;
}

/* floor(n / divisor); 0 <= n < 2^31 */
CUDA_BOTH static inline uint32_t fast_div(uint32_t n, FastDiv d)
{
    return ((uint32_t)((uint64_t)d.multiplier * n >> 32) + n) >> d.shift;
}

/* n divided by the divisor, and in *rest what remains. */
CUDA_BOTH static inline uint32_t fast_div_rest(uint32_t n, FastDiv d, uint32_t *rest)
{
    uint32_t quotient = fast_div(n, d);
    *rest = n - quotient * d.divisor;
    return quotient;
}
#endif
