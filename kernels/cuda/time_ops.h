/* time_ops.h - a row of ops prepared, or timed, as a network would run them. */
#ifndef CONVOY_KERNELS_CUDA_TIME_OPS_H
#define CONVOY_KERNELS_CUDA_TIME_OPS_H
#include "kernels/cuda/cuda.h"

/* The time of one pass through ops on the device: the median of ten, with random numbers in all
 * tensors. ERR_MEMORY if there is no room for them. */
Status cuda_time_ops(CudaBackend *b, const OpShape *ops, int count, double *ms);
/* OK if every one of ops can be prepared; else as prepare says, ERR_ENV where cuDNN has no
 * engine. */
Status cuda_time_ops_try(CudaBackend *b, const OpShape *ops, int count);
#endif
