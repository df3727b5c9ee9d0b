/* self_kernels.h - kernels on which the double itself is tested
 * (tests/unit/kernels/cuda/test_emu.c): some of them wrong on purpose. */
#ifndef CONVOY_TESTS_EMU_SELF_KERNELS_H
#define CONVOY_TESTS_EMU_SELF_KERNELS_H
#include "cuda_runtime_api.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif
/* out[i] = i turned round within its block of 256, by way of shared memory; correct only with the
 * barrier. */
cudaError_t emu_launch_reverse(int *out, int blocks, bool barrier, cudaStream_t stream);
/* out[0] = sum of 0 .. 256 blocks - 1: shuffles, then the block that draws the last ticket. Needs
 * ticket[0] == 0. */
cudaError_t emu_launch_sum(int *partial, unsigned *ticket, int *out, int blocks,
                           cudaStream_t stream);
/* Half of a warp waits for the block, the other half for the warp. */
cudaError_t emu_launch_deadlock(cudaStream_t stream);
/* Lane 0 asks a lane that has left. */
cudaError_t emu_launch_shuffle_with_the_dead(int *out, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
