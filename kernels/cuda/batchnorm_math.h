/* batchnorm_math.h - the formulas of batch norm, for one element or one channel; host and device
 * compile them alike.
 *
 * THE SIGN. Backward recomputes from x on which side of the ReLU an element was, so what forward
 * normalised and what backward recomputes is one function, written with fmaf so that no compiler
 * may round it differently: from equal mean, inv_std, gamma and beta (all f32, as stored) come
 * equal bits. x - mean comes first: it keeps the digits of channels whose mean is large against
 * their deviation.
 *
 * STATISTICS are sums of x - guess and of its square, guess being a value near the mean: then
 * nothing cancels. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_MATH_H
#define CONVOY_KERNELS_CUDA_BATCHNORM_MATH_H
#include "kernels/float_math.h"
#include <math.h>

CUDA_BOTH static inline float batchnorm_scale(float gamma, float inv_std)
{
    return gamma * inv_std;
}

/* shift is beta */
CUDA_BOTH static inline float batchnorm_affine(float x, float mean, float scale, float shift)
{
    return fmaf(x - mean, scale, shift);
}

/* dy where forward stored y > 0 (or NaN), else 0; z is y, or batchnorm_affine of the same x; zero:
 * FLOAT_F32_ZERO and the others. */
CUDA_BOTH static inline float batchnorm_relu_bwd(float dy, float z, float zero)
{
    return z <= zero ? 0.0f : dy;
}

CUDA_BOTH static inline float batchnorm_inv_std(double var, float eps)
{
    return (float)(1.0 / sqrt(var + (double)eps));
}

/* One channel's statistics from the sums over its count values. */
typedef struct BnMoments {
    double mean, var; /* var: biased */
} BnMoments;
CUDA_BOTH static inline BnMoments batchnorm_moments(double guess, double sum, double square,
                                                    double count)
{
    BnMoments m;
    double offset = sum / count;
    m.mean = guess + offset;
    m.var = square / count - offset * offset;
    if (m.var < 0) m.var = 0; /* a NaN stays one */
    return m;
}

CUDA_BOTH static inline float batchnorm_running(float old, double batch, float momentum)
{
    double m = (double)momentum;
    return (float)((1 - m) * (double)old + m * batch);
}

/* The biased variance that batchnorm_inv_std was given. */
CUDA_BOTH static inline double batchnorm_variance(float inv_std, float eps)
{
    const double var = 1.0 / ((double)inv_std * (double)inv_std) - (double)eps;
    return var < 0 ? 0 : var; /* a NaN stays one */
}

/* dx = scale (dz - mean_dz - (x - mean) slope), where slope = inv_std mean(dz xhat); with constant
 * statistics mean_dz and slope are 0. */
CUDA_BOTH static inline float batchnorm_dx(float dz, float x, float mean, float scale,
                                           float mean_dz, float slope)
{
    return scale * fmaf(-(x - mean), slope, dz - mean_dz);
}
#endif
