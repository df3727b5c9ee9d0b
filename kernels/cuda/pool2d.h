/* pool2d.h - pooling; index is NULL or u8, NHWC like y. */
#ifndef CONVOY_KERNELS_CUDA_POOL2D_H
#define CONVOY_KERNELS_CUDA_POOL2D_H
#include "kernels/cuda/fast_div.h"
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct Pool2dShape {
    DType dtype;
    PoolKind kind;
    int n, c, vectors; /* c: unpadded; vectors of 16 bytes in a pixel */
    int h, w, p, q;    /* of x and of y */
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    float share; /* of an average, but of tiles: 1 / (kernel_h * kernel_w); of a blur: 1/16 */
    FastDiv by_vectors, by_w, by_q, by_stride_h, by_stride_w;
} Pool2dShape;
struct OpInstance;
struct OpTensor;
/* x (or dx) and y (or dy) of op are decided. ERR_USAGE: an image is too large. */
Status pool2d_make_shape(const struct OpInstance *op, const Pool2dAttr *a, const struct OpTensor *x,
                         const struct OpTensor *y, Pool2dShape *k);
C_LINKAGE cudaError_t cuda_launch_pool2d(const Pool2dShape *k, const void *x, void *y,
                                         uint8_t *index, cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_pool2d_bwd(const Pool2dShape *k, const void *dy,
                                             const uint8_t *index, void *dx, cudaStream_t stream);
#endif
