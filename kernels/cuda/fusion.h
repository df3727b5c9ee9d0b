/* fusion.h - which fusions the CUDA backend takes: where cuDNN has engines, and where they were
 * measured to be faster. Entries of the backend's table; see kernels/backend.h. */
#ifndef CONVOY_KERNELS_CUDA_FUSION_H
#define CONVOY_KERNELS_CUDA_FUSION_H
#include "kernels/cuda/cuda.h"

bool cuda_fusion_takes(void *backend, const Fusion *fusion);
void cuda_fusion_describe(const Backend *backend, char *out, size_t bytes);
#endif
