/* loss_math.h - the target of a class, and binary cross entropy of one logit: host and device
 * compile them alike. Exponentials are in float32, what is made of them in double. */
#ifndef CONVOY_KERNELS_LOSS_MATH_H
#define CONVOY_KERNELS_LOSS_MATH_H
#include "kernels/op_loss.h"
#include <math.h>

/* share: of the class among the image's labels, 0 to 1; classes: that smoothing spreads over, 2 for
 * each by itself */
CUDA_BOTH static inline double loss_math_target(const XentAttr *a, double share, double classes)
{
    const double s = (double)a->label_smoothing, t = (1.0 - s) * share + s / classes;
    return a->loss == LOSS_BCE && a->threshold > 0.0f ? (double)(t > (double)a->threshold) : t;
}

/* log(1 + exp(z)) - t z, and its derivative by z. */
CUDA_BOTH static inline double loss_math_bce(float z, double t, double *slope)
{
    const float e = expf(-fabsf(z));
    const double logistic = (z < 0.0f ? (double)e : 1.0) / (1.0 + (double)e);
    *slope = logistic - t;
    return (z > 0.0f ? (double)z : 0.0) - (double)z * t + (double)log1pf(e);
}
#endif
