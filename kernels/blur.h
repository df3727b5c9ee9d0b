/* blur.h - the weights of a blur (POOL_BLUR, POOL_BLUR_REFLECT), the same on every backend: of rows
 * times of columns; of an axis
 *
 *   y[p] = sum of weight(at, p) x[at] / 4 over the positions of the image in the window of p
 *
 * Mirrored padding adds to the weight of the position that it is a copy of, so neither direction
 * ever looks outside, and the gradient is the same sum the other way round. */
#ifndef CONVOY_KERNELS_BLUR_H
#define CONVOY_KERNELS_BLUR_H
#include "base/both.h"
#include "kernels/op_layer.h"

static inline bool blur_is(PoolKind kind)
{
    return kind == POOL_BLUR || kind == POOL_BLUR_REFLECT;
}

/* In quarters. at: a position of an axis of `size`, no further than 1 from center, which is p times
 * the stride. */
CUDA_BOTH static inline float blur_weight(int64_t at, int64_t center, int64_t size, bool reflect)
{
    int weight = at == center ? 2 : 1;
    if (reflect && ((center == 0 && at == 1) || (center == size - 1 && at == size - 2))) weight++;
    return (float)weight;
}
#endif
