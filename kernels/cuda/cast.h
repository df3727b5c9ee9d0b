/* cast.h - flat conversions between f32, bf16 and f16; count elements. */
#ifndef CONVOY_KERNELS_CUDA_CAST_H
#define CONVOY_KERNELS_CUDA_CAST_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

C_LINKAGE cudaError_t cuda_launch_cast(const void *in, DType from, void *out, DType to,
                                       int64_t count, cudaStream_t stream);
/* out f32 += in */
C_LINKAGE cudaError_t cuda_launch_cast_add(const void *in, DType from, float *out, int64_t count,
                                           cudaStream_t stream);
#endif
