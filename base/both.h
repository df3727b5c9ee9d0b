/* both.h - marks a function that host and device code share. */
#ifndef CONVOY_BASE_BOTH_H
#define CONVOY_BASE_BOTH_H
#ifdef __CUDACC__
#define CUDA_BOTH __host__ __device__
#else
#define CUDA_BOTH
#endif
#endif
