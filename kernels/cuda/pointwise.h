/* pointwise.h - elementwise kernels over count elements. Results are of dtype, as is the first
 * input, over which they may lie; over the second too, where that is of the same type. */
#ifndef CONVOY_KERNELS_CUDA_POINTWISE_H
#define CONVOY_KERNELS_CUDA_POINTWISE_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

/* act is not ACT_NONE; unless it is by sign (ActDef) the y of its gradient is x. */
C_LINKAGE cudaError_t cuda_launch_pointwise_activation(ActKind act, const void *x, void *y,
                                                       DType dtype, int64_t count,
                                                       cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_pointwise_activation_bwd(ActKind act, const void *dy,
                                                           const void *y, void *dx, DType dtype,
                                                           DType y_type, int64_t count,
                                                           cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_pointwise_add(const void *a, const void *b, void *y, DType dtype,
                                                DType b_type, int64_t count, cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_pointwise_scale(const void *x, float factor, void *y, DType dtype,
                                                  int64_t count, cudaStream_t stream);
#endif
