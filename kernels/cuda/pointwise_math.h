/* pointwise_math.h - ops that look at one element at a time; host and device compile them alike.
 *
 * SiLU is x s with s the logistic function of x; its derivative is s (1 + x (1 - s)).
 * NaN is no number below zero: it passes a ReLU, forward and backward, as in torch. */
#ifndef CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#define CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#include "kernels/float_math.h"
#include "kernels/op_act.h"
#include <math.h>

CUDA_BOTH static inline float pointwise_relu(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

CUDA_BOTH static inline float pointwise_relu_bwd(float dy, float y)
{
    return y <= 0.0f ? 0.0f : dy;
}

CUDA_BOTH static inline float pointwise_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

CUDA_BOTH static inline float pointwise_silu(float x)
{
    return x * pointwise_sigmoid(x);
}

CUDA_BOTH static inline float pointwise_silu_bwd(float dy, float x)
{
    float s = pointwise_sigmoid(x);
    return dy * (s * fmaf(x, 1.0f - s, 1.0f));
}

CUDA_BOTH static inline float pointwise_normal_cdf(float x)
{
    return 0.5f * (1.0f + erff(x * 0.70710678f));
}

/* (1 + tanh u) / 2 as the logistic function of 2 u */
CUDA_BOTH static inline float pointwise_gelu_gate(float x)
{
    return pointwise_sigmoid(x * fmaf(0.0713548163f, x * x, 1.59576912f));
}

CUDA_BOTH static inline float pointwise_gelu_tanh_bwd(float dy, float x)
{
    float u = x * fmaf(0.0713548163f, x * x, 1.59576912f);
    /* s (1 - s) as e s s: 1 - s would lose the digits that the factor behind it makes large */
    float e = expf(-fabsf(u)), s = 1.0f / (1.0f + e);
    return dy * fmaf(x * (e * s * s), fmaf(0.214064449f, x * x, 1.59576912f), u < 0.0f ? e * s : s);
}

/* Not 1 - tanh^2, which loses the digits of what is small. */
CUDA_BOTH static inline float pointwise_tanh_slope(float z)
{
    float t = expf(-2.0f * fabsf(z)), s = 1.0f / (1.0f + t);
    return 4.0f * t * (s * s);
}

CUDA_BOTH static inline float pointwise_hard_sigmoid(float z)
{
    return z <= -3.0f ? 0.0f : z >= 3.0f ? 1.0f : (z + 3.0f) * (1.0f / 6);
}

/* y = act(z) */
CUDA_BOTH static inline float pointwise_act(ActKind act, float z)
{
    switch (act) {
    case ACT_NONE:
        return z;
    case ACT_RELU:
        return pointwise_relu(z);
    case ACT_SILU:
        return pointwise_silu(z);
    case ACT_GELU:
        return z * pointwise_normal_cdf(z);
    case ACT_GELU_TANH:
        return z * pointwise_gelu_gate(z);
    case ACT_RELU6:
        return z >= 6.0f ? 6.0f : pointwise_relu(z);
    case ACT_HARD_SWISH:
        return z <= -3.0f ? 0.0f : z * pointwise_hard_sigmoid(z);
    case ACT_TANH:
        return tanhf(z);
    case ACT_COUNT:
        break;
    }
    return NAN;
}

/* dy act'(z); an activation by sign (ActDef) takes y for z. */
CUDA_BOTH static inline float pointwise_act_bwd(ActKind act, float dy, float z)
{
    switch (act) {
    case ACT_NONE:
        return dy;
    case ACT_RELU:
        return pointwise_relu_bwd(dy, z);
    case ACT_SILU:
        return pointwise_silu_bwd(dy, z);
    case ACT_GELU:
        return dy * fmaf(z, 0.39894228f * expf(-0.5f * (z * z)), pointwise_normal_cdf(z));
    case ACT_GELU_TANH:
        return pointwise_gelu_tanh_bwd(dy, z);
    case ACT_RELU6:
        return z >= 6.0f ? 0.0f : pointwise_relu_bwd(dy, z);
    case ACT_HARD_SWISH:
        return z <= -3.0f ? 0.0f : z >= 3.0f ? dy : dy * fmaf(z, 1.0f / 3, 0.5f);
    case ACT_TANH:
        return dy * pointwise_tanh_slope(z);
    case ACT_COUNT:
        break;
    }
    return NAN;
}
#endif
