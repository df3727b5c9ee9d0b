/* both.h - marks a function that host and device code share; and one that all of them do. */
#ifndef CONVOY_BASE_BOTH_H
#define CONVOY_BASE_BOTH_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __CUDACC__
#define CUDA_BOTH __host__ __device__
#else
#define CUDA_BOTH
#endif

/* Of a row of bits, the lowest of each byte first. */
CUDA_BOTH static inline bool both_bit(const uint8_t *bits, int64_t at)
{
    return (bits[at / 8] >> (at % 8) & 1) != 0;
}
#endif
