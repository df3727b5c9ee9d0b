/* lanes.h - how the elementwise and reducing kernels of the CPU backend walk memory.
 *
 * A plane is one channel block of one image: hw * b contiguous floats. b is 1, 8 or 16 and divides
 * CPU_LANES, so in steps of CPU_LANES floats lane l always belongs to channel l % b of the block,
 * and a kernel that carries its per-channel constants in tables of CPU_LANES entries is the same
 * code for all three layouts, with a constant trip count that every instruction set vectorises
 * well. What a plane leaves after whole steps is one half step (b = 8, odd hw) or any rest (b = 1,
 * where all lanes are the same channel).
 *
 * RULES for the inner functions. They are CPU_CLONES and have no parallel region, which gcc would
 * outline without the target; the region sits in the caller. The loop over lanes is marked `omp
 * simd`: lanes are independent, also where an output lies exactly over an input, and without the
 * mark gcc -O3 vectorises reductions along the run, with shuffles, instead of across the lanes. */
#ifndef CONVOY_KERNELS_CPU_LANES_H
#define CONVOY_KERNELS_CPU_LANES_H
#include "kernels/cpu/cpu.h"

enum { CPU_LANES = 16, CPU_HALF_LANES = 8 };

/* Sum over the lanes of channel `channel` of a block, in a fixed order. */
double cpu_lanes_sum(const double *lanes, int64_t channel, int64_t b);
/* Writes value to every lane of channel `channel` of a block. */
void cpu_lanes_fill(float *lanes, int64_t channel, int64_t b, float value);
#endif
