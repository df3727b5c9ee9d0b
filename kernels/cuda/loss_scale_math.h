/* loss_scale_math.h - what is finite, and torch.amp.GradScaler's rule (see LossScaleAttr); host and
 * device compile them alike. */
#ifndef CONVOY_KERNELS_CUDA_LOSS_SCALE_MATH_H
#define CONVOY_KERNELS_CUDA_LOSS_SCALE_MATH_H
#include "kernels/float_math.h"
#include "kernels/op.h"

/* bits of an f32: an exponent of all ones is infinity or NaN */
CUDA_BOTH static inline bool loss_scale_bits_are_finite(uint32_t bits)
{
    return (bits & 0x7f800000u) != 0x7f800000u;
}

CUDA_BOTH static inline void loss_scale_update(const LossScaleAttr *a, float *state)
{
    if (state[LOSS_SCALE_FOUND_INF] != 0.0f) {
        state[LOSS_SCALE_SCALE] *= a->backoff;
        state[LOSS_SCALE_GOOD_STEPS] = 0.0f;
        state[LOSS_SCALE_SKIPPED] += 1.0f;
    } else if (state[LOSS_SCALE_GOOD_STEPS] + 1.0f >= (float)a->interval) {
        float grown = state[LOSS_SCALE_SCALE] * a->growth;
        state[LOSS_SCALE_SCALE] = grown < a->max ? grown : a->max;
        state[LOSS_SCALE_GOOD_STEPS] = 0.0f;
    } else {
        state[LOSS_SCALE_GOOD_STEPS] += 1.0f;
    }
    state[LOSS_SCALE_FOUND_INF] = 0.0f;
}
#endif
