/* pointwise_math.h - ops that look at one element at a time; host and device compile them alike.
 *
 * NaN is no number below zero: it passes a ReLU, forward and backward, as in torch. */
#ifndef CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#define CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#include "kernels/cuda/half_math.h"

CUDA_BOTH static inline float pointwise_relu(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

CUDA_BOTH static inline float pointwise_relu_bwd(float dy, float y)
{
    return y <= 0.0f ? 0.0f : dy;
}
#endif
