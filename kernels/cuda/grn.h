/* grn.h - global response normalisation and its gradient: y = first x + second, dx = first dy +
 * second x, with factors of an image and channel. Vectors per channel are f32 of cp, zero from c
 * on. */
#ifndef CONVOY_KERNELS_CUDA_GRN_H
#define CONVOY_KERNELS_CUDA_GRN_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

typedef struct GrnShape {
    DType dtype;
    int n, rows, c, vectors, cp;
    int lanes_log2, tiles, splits; /* blocks: tiles cover a row, splits share an image's rows */
    float eps;
} GrnShape;
/* Floats of the workspace: of partials, factors and, of backward, gradients [2][n][cp] of gamma and
 * beta from each image, which are to be added up. */
enum { GRN_SUMS = 3, GRN_FACTORS = 2, GRN_GRADIENTS = 2 };
typedef struct GrnSpace {
    float *partials, *factors, *gradients;
} GrnSpace;
C_LINKAGE cudaError_t cuda_launch_grn(const GrnShape *k, const void *x, const float *gamma,
                                      const float *beta, void *y, const GrnSpace *space,
                                      cudaStream_t stream);
/* dx may be dy. */
C_LINKAGE cudaError_t cuda_launch_grn_bwd(const GrnShape *k, const void *dy, const void *x,
                                          const float *gamma, void *dx, const GrnSpace *space,
                                          cudaStream_t stream);
#endif
