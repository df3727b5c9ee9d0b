/* input_math.h - one byte of an image as the network sees it: every step rounded to float32, as
 * torchvision's ToTensor and Normalize do, and mixing. Host and device compile it alike; no
 * multiplication in it is fused. */
#ifndef CONVOY_KERNELS_CUDA_INPUT_MATH_H
#define CONVOY_KERNELS_CUDA_INPUT_MATH_H
#include "kernels/float_math.h"

CUDA_BOTH static inline float input_value(int byte, float mean, float std)
{
    float unit = (float)byte / 255.0f;
    return (unit - mean) / std;
}

/* A mixed value: each product is rounded, then the sum. */
CUDA_BOTH static inline float input_mix(float own, float other, float lambda, float rest)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(own, lambda), __fmul_rn(other, rest));
#else
    volatile float a = own * lambda, b = other * rest;
    return a + b;
#endif
}
#endif
