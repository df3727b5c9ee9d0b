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

/* Decides t like model (same shape, same memory) or checks that it is so already. */
Status cpu_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op);
/* Error unless t was decided with at least one byte: inputs that some earlier node had to make. */
Status cpu_require_decided(const OpTensor *t, const OpInstance *op);
/* The same for an activation of other height and width: decides t to have the channel blocks of
 * model, or checks it. */
Status cpu_decide_like_blocks(OpTensor *t, const OpTensor *model, const OpInstance *op);
Status cpu_bind_nothing(OpInstance *op);
/* Threads worth waking for that many elements: the team, or 1 where starting it costs more than the
 * work. */
int cpu_team(const OpInstance *op, int64_t elements);
/* y[i] = f(a[i], b[i]) over count floats, shared out to the team; b NULL where f reads none. y may
 * lie over a or b. */
typedef void (*CpuPointwise)(float *y, const float *a, const float *b, int64_t count, float factor);
void cpu_pointwise(const OpInstance *op, CpuPointwise f, float *y, const float *a, const float *b,
                   int64_t count, float factor);
/* Channels of a block that exist: b, or fewer in the last one. */
int64_t cpu_block_channels(const CpuView *view, int64_t block);
/* Sum over the lanes of channel `channel` of a block, in a fixed order. */
double cpu_lanes_sum(const double *lanes, int64_t channel, int64_t b);
/* Writes value to every lane of channel `channel` of a block. */
void cpu_lanes_fill(float *lanes, int64_t channel, int64_t b, float value);
CpuBackend *cpu_backend_of(const OpInstance *op);
#endif
