/* linear.h - what is around a linear layer's matrix products: its input as rows of C,H,W, and
 * db. */
#ifndef CONVOY_KERNELS_CUDA_LINEAR_H
#define CONVOY_KERNELS_CUDA_LINEAR_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

/* x: NHWC [n][h][w][cp] of c channels; flat: [n][flat_cp], the elements of an image in the order
 * C,H,W. Both are of the same type; padding is written as zero. */
typedef struct LinearFlatten {
    int64_t n, c, h, w, cp, flat_cp;
    int element_bytes; /* 2 or 4 */
} LinearFlatten;
C_LINKAGE cudaError_t cuda_launch_linear_flatten(const LinearFlatten *f, const void *x, void *flat,
                                                 cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_linear_unflatten(const LinearFlatten *f, const void *flat,
                                                   void *x, cudaStream_t stream);
/* db[kp] = or += the sum of the n rows of dy. */
C_LINKAGE cudaError_t cuda_launch_linear_bias_gradient(const void *dy, DType dtype, float *db,
                                                       int64_t n, int64_t kp, bool accumulate,
                                                       cudaStream_t stream);
#endif
