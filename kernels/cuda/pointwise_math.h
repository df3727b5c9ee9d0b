/* pointwise_math.h - ops that look at one element at a time; host and device compile them alike.
 *
 * SiLU is x s with s the logistic function of x; its derivative is s (1 + x (1 - s)).
 * NaN is no number below zero: it passes a ReLU, forward and backward, as in torch. */
#ifndef CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#define CONVOY_KERNELS_CUDA_POINTWISE_MATH_H
#include "kernels/cuda/float_math.h"
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
    case ACT_COUNT:
        break;
    }
    return NAN;
}
#endif
