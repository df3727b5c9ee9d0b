/* pattern.h - random numbers of ordinary size in device memory, for timing: how fast a matrix unit
 * may go depends on how much its inputs toggle. */
#ifndef CONVOY_KERNELS_CUDA_PATTERN_H
#define CONVOY_KERNELS_CUDA_PATTERN_H
#include "kernels/cuda/cuda.h"

/* 16-bit words that are numbers of size 2^-7 .. 2 as f16, as bf16 and, in pairs, as f32. Waits
 * until they are there. */
Status cuda_pattern_fill(void *data, size_t bytes, cudaStream_t stream);
#endif
