/* drop.h - y = x f + residual, f of kernels/drop.h; y may be x or residual. */
#ifndef CONVOY_KERNELS_CUDA_DROP_H
#define CONVOY_KERNELS_CUDA_DROP_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct DropPass {
    DropAttr attr;
    DType dtype;             /* of x, residual and y */
    int64_t images, vectors; /* of 16 bytes, in a position */
    int64_t positions, channels;
    const float *scalars;     /* the step's */
    const int32_t *where;     /* OP_DROP's; NULL if absent */
    const void *x, *residual; /* residual: NULL if absent */
    void *y;
} DropPass;
C_LINKAGE cudaError_t cuda_launch_drop(const DropPass *p, cudaStream_t stream);
#endif
