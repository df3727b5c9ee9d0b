/* fusion.h - which fusions the CUDA backend takes: where cuDNN has engines, and where they were measured to be faster.
 */
#ifndef CONVOY_KERNELS_CUDA_FUSION_H
#define CONVOY_KERNELS_CUDA_FUSION_H
#include "kernels/cuda/cuda.h"

typedef struct CudaFusions CudaFusions; /* what was decided so far, by shape; belongs to the backend */

/* Entries of the backend's table; see kernels/backend.h. */
bool cuda_takes_fusion(void *backend, const Fusion *fusion);
void cuda_describe_fusions(const Backend *backend, char *out, size_t bytes);
void cuda_fusions_destroy(CudaFusions *f); /* NULL ok */

/* The time of one pass through ops on the device: the median of ten, with random numbers in all tensors. ERR_MEMORY if
 * there is no room for them. */
Status cuda_time_ops(CudaBackend *b, const OpShape *ops, int count, double *ms);
/* OK if every one of ops can be prepared; else as prepare says, ERR_ENV where cuDNN has no engine. */
Status cuda_try_ops(CudaBackend *b, const OpShape *ops, int count);
#endif
