/* layernorm.h - layer norm over the channels of a row, and its gradient.
 *
 * `lanes` neighbouring threads of a block, a power of two up to all of them, hold a row in
 * registers, `held` vectors each; the block's other threads hold other rows. So x is read once, and
 * in backward dy too, whatever the width. Vectors per channel are f32 of cp, zero from c on. */
#ifndef CONVOY_KERNELS_CUDA_LAYERNORM_H
#define CONVOY_KERNELS_CUDA_LAYERNORM_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

enum { LAYERNORM_THREADS = 256, LAYERNORM_MAX_HELD = 3 };

typedef struct LayerNormShape {
    DType dtype;
    int64_t rows;
    int c, vectors, cp;
    int lanes_log2, held, blocks;
    float eps;
} LayerNormShape;
C_LINKAGE cudaError_t cuda_launch_layernorm(const LayerNormShape *k, const void *x,
                                            const float *gamma, const float *beta, void *y,
                                            cudaStream_t stream);
/* dx may be dy. partials: f32 [2][blocks][cp], of gamma's and of beta's gradient the sums of each
 * block, to be added up. */
C_LINKAGE cudaError_t cuda_launch_layernorm_bwd(const LayerNormShape *k, const void *dy,
                                                const void *x, const float *gamma, void *dx,
                                                float *partials, cudaStream_t stream);
#endif
