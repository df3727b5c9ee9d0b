/* subsample.h - every stride-th pixel, padded with zero channels, and its gradient. */
#ifndef CONVOY_KERNELS_CUDA_SUBSAMPLE_H
#define CONVOY_KERNELS_CUDA_SUBSAMPLE_H
#include "kernels/cuda/fast_div.h"
#include "kernels/cuda/launcher.h"

typedef struct SubsampleShape {
    int n, h, w, p, q, stride;        /* h, w: of x (large); p, q: of y (small) */
    int large_vectors, small_vectors; /* vectors of 16 bytes in a pixel */
    int channel_bytes;                /* of x, unpadded */
    FastDiv by_large_vectors, by_small_vectors, by_w, by_q, by_stride;
} SubsampleShape;
C_LINKAGE cudaError_t cuda_launch_subsample(const SubsampleShape *k, const void *x, void *y,
                                            cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_subsample_bwd(const SubsampleShape *k, const void *dy, void *dx,
                                                cudaStream_t stream);
#endif
