/* lanes.h - how the elementwise and reducing kernels of the CPU backend walk memory.
 *
 * A plane is one channel block of one image: hw * b contiguous floats. b is 1, 8 or 16 and divides
 * CPU_LANES, so in steps of CPU_LANES floats lane l always belongs to channel l % b of the block,
 * and a kernel that carries its per-channel constants in tables of CPU_LANES entries is the same
 * code for all three layouts, with a constant trip count that every instruction set vectorises
 * well. What a plane leaves after whole steps is one half step (b = 8, odd hw) or any rest (b = 1,
 * where all lanes are the same channel).
 *
 * In rows (bf16) a step is one position's channels, CPU_LANES of them, what the last block has, or
 * those of a strip (view.h), and the next one lies C elements on. A kernel has its type, and lanes
 * where it can, as constants of the inner function.
 *
 * RULES for the inner functions. They are CPU_CLONES and have no parallel region, which gcc would
 * outline without the target; the region sits in the caller. The loop over lanes is marked `omp
 * simd`: lanes are independent, also where an output lies exactly over an input, and without the
 * mark gcc -O3 vectorises reductions along the run, with shuffles, instead of across the lanes. */
#ifndef CONVOY_KERNELS_CPU_LANES_H
#define CONVOY_KERNELS_CPU_LANES_H
#include "kernels/cpu/cpu.h"
#include "kernels/float_math.h"

enum { CPU_LANES = 16, CPU_HALF_LANES = 8 };

/* Element i of a tensor of f32 or bf16, as f32. type is a constant where the loop is to
 * vectorise. */
CPU_INLINE float cpu_lanes_load(const void *p, int64_t i, DType type)
{
    return type == DTYPE_BF16 ? float_from_bf16(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* To nearest even; not by the instruction for that, which makes zero of subnormal numbers. */
CPU_INLINE void cpu_lanes_store(void *p, int64_t i, float value, DType type)
{
    if (type == DTYPE_BF16) ((uint16_t *)p)[i] = float_to_bf16(value);
    else ((float *)p)[i] = value;
}

/* The address of element i. */
CPU_INLINE const void *cpu_lanes_at(const void *p, int64_t i, DType type)
{
    return (const char *)p + (size_t)i * (type == DTYPE_BF16 ? sizeof(uint16_t) : sizeof(float));
}

CPU_INLINE void *cpu_lanes_at_out(void *p, int64_t i, DType type)
{
    return (char *)p + (size_t)i * (type == DTYPE_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* f(..., type, lanes) for steps of a block, with both as constants where that is what there mostly
 * is. */
#define CPU_WALK(f, type, lanes, ...)                                                              \
    do {                                                                                           \
        if ((type) == DTYPE_F32) f(__VA_ARGS__, DTYPE_F32, CPU_LANES);                             \
        else if ((lanes) == CPU_LANES) f(__VA_ARGS__, DTYPE_BF16, CPU_LANES);                      \
        else if ((lanes) == CPU_HALF_LANES) f(__VA_ARGS__, DTYPE_BF16, CPU_HALF_LANES);            \
        else f(__VA_ARGS__, DTYPE_BF16, lanes);                                                    \
    } while (0)

/* count elements to and from bf16 */
void cpu_lanes_widen(float *restrict to, const uint16_t *restrict from, int64_t count);
void cpu_lanes_narrow(uint16_t *restrict to, const float *restrict from, int64_t count);
/* Sum over the lanes of channel `channel` of a block, in a fixed order. */
double cpu_lanes_sum(const double *lanes, int64_t channel, int64_t b);
/* Writes value to every lane of channel `channel` of a block. */
void cpu_lanes_fill(float *lanes, int64_t channel, int64_t b, float value);
#endif
