/* softmax_xent_math.h - cross entropy of one row once its sums are known; host and device compile
 * it alike.
 *
 *   log p = logit - log(sum exp(logit)),  loss = -sum t log p,  dlogits = scale (p - t),
 *   t = (1-s) (lambda one_hot(label) + rest one_hot(neighbour's label)) + s/classes
 *
 * Exponentials are in float32, sums and what is made of them in double: rows are few, and a small
 * loss is the difference of large numbers. */
#ifndef CONVOY_KERNELS_CUDA_SOFTMAX_XENT_MATH_H
#define CONVOY_KERNELS_CUDA_SOFTMAX_XENT_MATH_H
#include "kernels/float_math.h"
#include "kernels/loss_math.h"
#include <math.h>

typedef struct XentRow {
    float max;     /* of the logits; -infinity before the first */
    double sum;    /* of exp(logit - max) */
    double logits; /* their sum, for label smoothing */
    /* other logits that are not below the label's; logits that are no number */
    int not_below, is_nan;
} XentRow;

CUDA_BOTH static inline int softmax_xent_counted_label(const LossTarget *t)
{
    return t->shares[1] > t->shares[0] ? t->labels[1] : t->labels[0];
}

CUDA_BOTH static inline float softmax_xent_exp(float logit, float max)
{
    return expf(logit - max);
}

/* label_logits: of the target's labels */
CUDA_BOTH static inline double softmax_xent_loss(const XentRow *row, const LossTarget *t,
                                                 const float *label_logits, double smoothing,
                                                 double classes)
{
    double log_sum = (double)row->max + log(row->sum);
    double loss = (1.0 - smoothing) * t->shares[0] * (log_sum - (double)label_logits[0]);
    if (t->shares[1] > 0.0)
        loss += (1.0 - smoothing) * t->shares[1] * (log_sum - (double)label_logits[1]);
    if (smoothing > 0.0) loss += smoothing * (log_sum - row->logits / classes);
    return loss;
}

/* e: softmax_xent_exp of the logit; inverse_sum: 1 / row->sum; even: smoothing / classes */
CUDA_BOTH static inline float softmax_xent_gradient(float e, double inverse_sum, double even,
                                                    double label_share, double scale)
{
    return (float)(scale * ((double)e * inverse_sum - even - label_share));
}
#endif
