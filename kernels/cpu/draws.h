/* draws.h - the factors of kernels/drop.h for a run of elements, by vector code. */
#ifndef CONVOY_KERNELS_CPU_DRAWS_H
#define CONVOY_KERNELS_CPU_DRAWS_H
#include "kernels/cpu/cpu.h"
#include "kernels/drop.h"

/* Of elements [first, first + count) of image n of the micro-batch. */
void cpu_draws_factors(const DropAddress *d, int64_t n, int64_t first, int64_t count, float *out);
#endif
