/* lerp.h - the rule of OP_LERP for one element, and when there is nothing to do; host and device
 * compile it alike. */
#ifndef CONVOY_KERNELS_OPS_LERP_H
#define CONVOY_KERNELS_OPS_LERP_H
#include "base/both.h"
#include "kernels/op.h"

/* loss_scale: NULL if absent */
CUDA_BOTH static inline bool lerp_is_idle(const LerpAttr *a, const float *scalars,
                                          const float *loss_scale)
{
    const float w = scalars[a->weight];
    if (a->mode == LERP_SWAP) return false;
    return w < 0.0f || (w > 0.0f && loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0.0f);
}

CUDA_BOTH static inline float lerp_towards(float average, float x, float w)
{
    const float way = x - average;
    return w < 0.5f ? average + w * way : x - way * (1.0f - w);
}
#endif
