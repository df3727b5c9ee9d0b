/* loss_math.h - the target of a class, binary cross entropy of one logit, and the part of the loss
 * that a teacher has: host and device compile them alike. Exponentials are in float32, what is made
 * of them in double; sums over a teacher's classes are in double, since their logarithms are nearly
 * alike. */
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

/* Over the classes of a row, each by the largest of its own logits. */
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

/* The derivative of its loss by the row's own logit. */
CUDA_BOTH static inline double loss_math_soft_slope(const LossSoft *s, float student, float teacher)
{
    const double t = s->temperature, p = (double)expf((float)((double)student / t - s->student)),
                 q = (double)expf((float)((double)teacher / t - s->teacher));
    return t * (p - q);
}
#endif
