/* pick.h - single places of a canvas as rows, and back. */
#ifndef CONVOY_KERNELS_CUDA_PICK_H
#define CONVOY_KERNELS_CUDA_PICK_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

typedef struct PickPass {
    DType dtype; /* of the canvas, and of what is picked of it */
    int64_t places, count, cp, vectors;
    const int32_t *rows;
} PickPass;
C_LINKAGE cudaError_t cuda_launch_pick(const PickPass *p, const void *x, void *y,
                                       cudaStream_t stream);
/* dy_type: f32 or that of dx */
C_LINKAGE cudaError_t cuda_launch_pick_bwd(const PickPass *p, const void *dy, DType dy_type,
                                           void *dx, cudaStream_t stream);
#endif
