/* loss_math.h - the target of a class, binary cross entropy of one logit, and the part of the loss
 * that a teacher has: host and device compile them alike. Exponentials are in float32, what is made
 * of them in double; sums over a teacher's classes are in double, since their logarithms are nearly
 * alike. */
#ifndef CONVOY_KERNELS_LOSS_MATH_H
#define CONVOY_KERNELS_LOSS_MATH_H
#include "kernels/op_input.h"
#include "kernels/op_loss.h"
#include <math.h>

/* What one image should be recognised as. */
typedef struct LossTarget {
    int labels[2]; /* the image's own, its neighbour's */
    double shares[2];
    const uint8_t *bits[2]; /* rows of bits, which then take the place of the labels; or NULL */
} LossTarget;

/* Of image n. bits, mix: NULL if absent. */
CUDA_BOTH static inline LossTarget loss_math_target(const int32_t *labels, const uint8_t *bits,
                                                    const float *mix, int64_t n, int64_t images,
                                                    int64_t classes)
{
    const int64_t neighbour = op_input_neighbour(n, images), row = (classes + 7) / 8;
    LossTarget t = { { labels[n], labels[n] }, { 1.0, 0.0 }, { NULL, NULL } };
    if (bits) t.bits[0] = t.bits[1] = bits + n * row;
    if (!mix || labels[neighbour] < 0 || labels[neighbour] >= classes) return t;
    t.labels[1] = labels[neighbour];
    if (bits) t.bits[1] = bits + neighbour * row;
    t.shares[0] = (double)mix[MIX_LAMBDA];
    t.shares[1] = (double)mix[MIX_REST];
    return t;
}

/* How much of the target is class k, from 0 to 1, before smoothing. */
CUDA_BOTH static inline double loss_math_share(const LossTarget *t, int64_t k)
{
    const bool own = t->bits[0] ? both_bit(t->bits[0], k) : k == t->labels[0],
               other = t->bits[1] ? both_bit(t->bits[1], k) : k == t->labels[1];
    return (own ? t->shares[0] : 0.0) + (other ? t->shares[1] : 0.0);
}

/* After smoothing, which spreads over all classes, or with rows of bits over yes and no. */
CUDA_BOTH static inline double loss_math_smoothed(const XentAttr *a, const LossTarget *target,
                                                  int64_t k, double classes)
{
    const double s = (double)a->label_smoothing,
                 t = (1.0 - s) * loss_math_share(target, k) + s / (target->bits[0] ? 2.0 : classes);
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

/* Sums over the classes of a row, exponents less the largest logit of each network. */
typedef struct LossSums {
    double student, teacher; /* of exp(logit / T) */
    double apart;            /* of exp(teacher / T) (teacher - student) / T */
} LossSums;
typedef struct LossSoft { /* the teacher's part of a row */
    double temperature;
    double student, teacher; /* the logarithms of the sums of exp(logit / T) */
    double loss;
} LossSoft;

CUDA_BOTH static inline void loss_math_add(LossSums *s, float temperature, const float logits[2],
                                           const float most[2])
{
    const double t = (double)temperature, e = exp(((double)logits[1] - (double)most[1]) / t);
    s->student += exp(((double)logits[0] - (double)most[0]) / t);
    s->teacher += e;
    s->apart += e * ((double)logits[1] - (double)logits[0]) / t;
}

CUDA_BOTH static inline LossSoft loss_math_soft(const LossSums *s, float temperature,
                                                const float most[2])
{
    const double t = (double)temperature;
    LossSoft out = { t, (double)most[0] / t + log(s->student),
                     (double)most[1] / t + log(s->teacher), 0.0 };
    out.loss = t * t * (s->apart / s->teacher - out.teacher + out.student);
    return out;
}

/* The derivative of that loss with respect to the student's logit. */
CUDA_BOTH static inline double loss_math_soft_slope(const LossSoft *s, float student, float teacher)
{
    const double t = s->temperature, p = (double)expf((float)((double)student / t - s->student)),
                 q = (double)expf((float)((double)teacher / t - s->teacher));
    return t * (p - q);
}
#endif
