/* global_avgpool.h - the mean over an image, and its gradient. */
#ifndef CONVOY_KERNELS_CUDA_GLOBAL_AVGPOOL_H
#define CONVOY_KERNELS_CUDA_GLOBAL_AVGPOOL_H
#include "kernels/cuda/launcher.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

typedef struct AvgpoolShape {
    RowGrid grid; /* of one image: its rows are pixels */
    DType dtype;
    int n;
    float share; /* 1 / pixels */
} AvgpoolShape;
C_LINKAGE cudaError_t cuda_launch_global_avgpool(const AvgpoolShape *k, const void *x, void *y,
                                                 cudaStream_t stream);
/* dy_type: f32 or that of dx */
C_LINKAGE cudaError_t cuda_launch_global_avgpool_bwd(const AvgpoolShape *k, const void *dy,
                                                     DType dy_type, void *dx, cudaStream_t stream);
#endif
