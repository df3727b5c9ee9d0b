/* cpu_math.h - e^x, the logistic function and activations as inline code that vectorises, for the
 * loops of the CPU backend.
 *
 * e^x = 2^n e^r with n the nearest whole number to x / ln 2, so |r| <= 0.35, and e^r a polynomial
 * fitted to within 3.1e-9 of it by Remez' exchange: within 2 units of the last place. x is held to
 * [-87, 88], where the result is a normal number; a NaN stays one. Adding MAGIC rounds to a whole
 * number and leaves that number in the low bits of the sum. */
#ifndef CONVOY_KERNELS_CPU_CPU_MATH_H
#define CONVOY_KERNELS_CPU_CPU_MATH_H
#include "kernels/cpu/cpu.h"
#include "kernels/float_math.h"
#include <math.h>
#include <string.h>

#define CPU_EXP_MAGIC 12582912.0f /* 1.5 * 2^23 */

/* Where take is set a, else b. No choice that gcc sees: it would go on with both sides of one, up
 * to a division, which is then done twice. */
CPU_INLINE float cpu_either(bool take, float a, float b)
{
    const uint32_t mask = 0u - (uint32_t)take;
    return float_from_bits((float_to_bits(a) & mask) | (float_to_bits(b) & ~mask));
}

CPU_INLINE float cpu_exp(float x)
{
    x = cpu_either(x < -87.0f, -87.0f, x);
    x = cpu_either(x > 88.0f, 88.0f, x);
    const float shifted = x * 1.44269504f + CPU_EXP_MAGIC, n = shifted - CPU_EXP_MAGIC;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.381457798e-3f;
    p = p * r + 8.368725353e-3f;
    p = p * r + 4.166838892e-2f;
    p = p * r + 1.666652056e-1f;
    p = p * r + 4.999999344e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    float power;
    memcpy(&bits, &shifted, sizeof bits);
    /* the low bits of shifted are those of n, its high bits leave by the shift */
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

CPU_INLINE float cpu_sigmoid(float z)
{
    return 1.0f / (1.0f + cpu_exp(-z));
}

CPU_INLINE float cpu_silu(float z)
{
    return z * cpu_sigmoid(z);
}

CPU_INLINE float cpu_silu_slope(float z)
{
    const float s = cpu_sigmoid(z);
    return s + z * (s * (1.0f - s));
}

/* The normal distribution's Phi(z); *bell gets e^(-z^2/2). Phi(-|z|) is that times t P(t) with t =
 * 1 / (1 + 0.27 |z|), where P was fitted to within 3e-8 of it for |z| up to 13. */
CPU_INLINE float cpu_normal_cdf(float z, float *bell)
{
    const float t = 1.0f / (1.0f + 0.27f * fabsf(z));
    float p = 2.881169862e-2f;
    p = p * t - 1.257324115e-1f;
    p = p * t + 1.681654449e-1f;
    p = p * t - 6.727291778e-2f;
    p = p * t + 1.064203184e-1f;
    p = p * t + 7.268097906e-2f;
    p = p * t + 1.016394242e-1f;
    p = p * t + 1.075684223e-1f;
    p = p * t + 1.077190532e-1f;
    *bell = cpu_exp(-0.5f * (z * z));
    const float tail = *bell * (p * t);
    return cpu_either(z < 0.0f, tail, 1.0f - tail);
}

CPU_INLINE float cpu_gelu(float z)
{
    float bell;
    return z * cpu_normal_cdf(z, &bell);
}

/* Where a slope of GELU is 0 or 1 to the last bit; beyond, cpu_exp(), which ends above 0, would be
 * multiplied by powers of z. A NaN stays one. */
CPU_INLINE float cpu_gelu_bounded(float z)
{
    z = cpu_either(z > 30.0f, 30.0f, z);
    return cpu_either(z < -30.0f, -30.0f, z);
}

CPU_INLINE float cpu_gelu_slope(float at)
{
    const float z = cpu_gelu_bounded(at);
    float bell;
    const float cdf = cpu_normal_cdf(z, &bell);
    return cdf + z * (0.39894228f * bell);
}

/* (1 + tanh u) / 2 is the logistic function of 2 u. */
CPU_INLINE float cpu_gelu_tanh(float z)
{
    return z * cpu_sigmoid(z * (1.59576912f + 0.0713548163f * (z * z)));
}

CPU_INLINE float cpu_gelu_tanh_slope(float at)
{
    const float z = cpu_gelu_bounded(at);
    const float square = z * z, u = z * (1.59576912f + 0.0713548163f * square);
    /* s (1 - s) as e s s: 1 - s would lose the digits that the factor behind it makes large */
    const float e = cpu_exp(-fabsf(u)), s = 1.0f / (1.0f + e);
    return cpu_either(u < 0.0f, e * s, s) + z * (e * s * s) * (1.59576912f + 0.214064449f * square);
}

/* With t = e^(-2|z|) it is 1 - 2 t / (1 + t) with the sign of z, and its slope 4 t / (1 + t)^2.
 * Near 0, where that would lose digits, z + z^3 P(z^2), with P fitted to within 7e-9 of tanh z for
 * |z| up to 0.65. */
CPU_INLINE float cpu_tanh(float z)
{
    const float t = cpu_exp(-2.0f * fabsf(z)), square = z * z;
    float p = -5.515161899e-3f;
    p = p * square + 2.046941803e-2f;
    p = p * square - 5.368802251e-2f;
    p = p * square + 1.333083034e-1f;
    p = p * square - 3.333325985e-1f;
    return cpu_either(fabsf(z) < 0.625f, z + z * (square * p),
                      copysignf(1.0f - 2.0f * t / (1.0f + t), z));
}

CPU_INLINE float cpu_tanh_slope(float z)
{
    const float t = cpu_exp(-2.0f * fabsf(z)), s = 1.0f / (1.0f + t);
    return 4.0f * t * (s * s);
}

/* The hard ones are written so that a NaN stays one. */
CPU_INLINE float cpu_relu6(float z)
{
    return z <= 0.0f ? 0.0f : z >= 6.0f ? 6.0f : z;
}

CPU_INLINE float cpu_relu6_bwd(float dy, float z)
{
    return z <= 0.0f || z >= 6.0f ? 0.0f : dy;
}

CPU_INLINE float cpu_hard_sigmoid(float z)
{
    return z <= -3.0f ? 0.0f : z >= 3.0f ? 1.0f : (z + 3.0f) * (1.0f / 6);
}

CPU_INLINE float cpu_hard_swish(float z)
{
    return z <= -3.0f ? 0.0f : z >= 3.0f ? z : z * ((z + 3.0f) * (1.0f / 6));
}

CPU_INLINE float cpu_hard_swish_bwd(float dy, float z)
{
    return z <= -3.0f ? 0.0f : z >= 3.0f ? dy : dy * (z * (1.0f / 3) + 0.5f);
}
#endif
