/* grad_norm_math.h - from the sum of squares to norm and factor (torch.nn.utils.clip_grad_norm_);
 * host and device compile it alike. */
#ifndef CONVOY_KERNELS_OPS_GRAD_NORM_MATH_H
#define CONVOY_KERNELS_OPS_GRAD_NORM_MATH_H
#include "base/both.h"
#include "kernels/op_update.h"
#include <math.h>

/* loss_scale: NULL if absent */
CUDA_BOTH static inline void grad_norm_finish(const GradNormAttr *a, double sum,
                                              const float *loss_scale, float *clip)
{
    double norm = sqrt(sum) / (loss_scale ? (double)loss_scale[LOSS_SCALE_SCALE] : 1.0);
    double factor = (double)a->max_norm / (norm + a->eps);
    clip[CLIP_NORM] = (float)norm;
    clip[CLIP_FACTOR] = a->max_norm == 0.0f || factor > 1.0 ? 1.0f : (float)factor;
    if (a->length > 0.0f) clip[CLIP_FACTOR] = (float)((double)a->length / (norm + 1e-12));
}
#endif
