/* launch.cuh - what .cu files need to launch a kernel, on the device and in the test double.
 *
 *     return CUDA_LAUNCH(cast_kernel, grid, block, stream, in, out, count);
 *
 * enqueues it and is cudaGetLastError(); (kernel<T, 4>) needs the parentheses. Kernels use static
 * shared memory only, so there is no size to pass. */
#ifndef CONVOY_KERNELS_CUDA_LAUNCH_CUH
#define CONVOY_KERNELS_CUDA_LAUNCH_CUH
#include <cuda_runtime.h>
#include <stdint.h>

#ifdef CONVOY_EMU
#define CUDA_LAUNCH(kernel, grid, block, stream, ...)                                              \
    emu_launch(#kernel, kernel, grid, block, stream, __VA_ARGS__)
#else
#define CUDA_LAUNCH(kernel, grid, block, stream, ...)                                              \
    (kernel<<<grid, block, 0, stream>>>(__VA_ARGS__), cudaGetLastError())
#endif

/* For __launch_bounds__: `blocks` on an SM, but one less on Blackwell, for which ptxas (13.0) takes
 * a few registers more than those of `blocks` and spills them. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define LAUNCH_ROOM_FOR(blocks) ((blocks)-1)
#else
#define LAUNCH_ROOM_FOR(blocks) (blocks)
#endif

/* Blocks for `work` items at per_block items each; never 0, and never more than a grid can have. */
static inline unsigned launch_blocks(int64_t work, int64_t per_block)
{
    const int64_t most = 0x7FFFFFFF;
    int64_t blocks = (work + per_block - 1) / per_block;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}
#endif
