/* softmax_xent_math.h - cross entropy of one row once its sums are known; host and device compile it alike.
 *
 *   log p = logit - log(sum exp(logit)),  t = (1-s) one_hot(label) + s/classes,  loss = -sum t log p,
 *   dlogits = scale (p - t)
 *
 * Exponentials are in float32, sums and what is made of them in double: rows are few, and a small loss is the
 * difference of large numbers. */
#ifndef CONVOY_KERNELS_CUDA_SOFTMAX_XENT_MATH_H
#define CONVOY_KERNELS_CUDA_SOFTMAX_XENT_MATH_H
#include "kernels/cuda/half_math.h"
#include <math.h>

typedef struct XentRow {
    float max;             /* of the logits; -infinity before the first */
    double sum;            /* of exp(logit - max) */
    double logits;         /* their sum, for label smoothing */
    int not_below, is_nan; /* other logits that are not below the label's; logits that are no number */
} XentRow;

CUDA_BOTH static inline float xent_exp(float logit, float max)
{
    return expf(logit - max);
}

CUDA_BOTH static inline double xent_loss(const XentRow *row, float label_logit, double smoothing, double classes)
{
    double log_sum = (double)row->max + log(row->sum), loss = (1.0 - smoothing) * (log_sum - (double)label_logit);
    if (smoothing > 0.0) loss += smoothing * (log_sum - row->logits / classes);
    return loss;
}

/* e: xent_exp of the logit; inverse_sum: 1 / row->sum; even: smoothing / classes */
CUDA_BOTH static inline float xent_gradient(float e, double inverse_sum, double even, double label_share, double scale)
{
    return (float)(scale * ((double)e * inverse_sum - even - label_share));
}
#endif
