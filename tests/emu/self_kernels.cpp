// self_kernels.cpp - see self_kernels.h.
#include "self_kernels.h"
#include "kernels/cuda/launch.cuh"

namespace {

constexpr int BLOCK = 256;

__global__ void reverse_kernel(int *out, bool barrier)
{
    __shared__ int value[BLOCK];
    int i = int(blockIdx.x * BLOCK + threadIdx.x);
    value[threadIdx.x] = i;
    if (barrier) __syncthreads();
    out[i] = value[BLOCK - 1 - threadIdx.x];
    if (barrier) __syncthreads(); // the next block's writes come after all reads
}

__global__ void sum_kernel(int *partial, unsigned *ticket, int *out)
{
    __shared__ int warp_sums[BLOCK / 32];
    __shared__ bool last;
    int sum = int(blockIdx.x * BLOCK + threadIdx.x);
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int warp_sum : warp_sums) total += warp_sum;
        partial[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    if (!__syncthreads_or(threadIdx.x == 0 && last) || threadIdx.x != 0) return;
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; i++) total += partial[i];
    out[0] = total;
}

__global__ void deadlock_kernel(int)
{
    if (threadIdx.x < 16) __syncthreads();
    else __syncwarp();
}

__global__ void shuffle_with_the_dead_kernel(int *out)
{
    if (threadIdx.x == 31) return;
    out[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x), 31);
}

} // namespace

cudaError_t emu_launch_reverse(int *out, int blocks, bool barrier, cudaStream_t stream)
{
    return CUDA_LAUNCH(reverse_kernel, blocks, BLOCK, stream, out, barrier);
}

cudaError_t emu_launch_sum(int *partial, unsigned *ticket, int *out, int blocks,
                           cudaStream_t stream)
{
    return CUDA_LAUNCH(sum_kernel, blocks, BLOCK, stream, partial, ticket, out);
}

cudaError_t emu_launch_deadlock(cudaStream_t stream)
{
    return CUDA_LAUNCH(deadlock_kernel, 1, 32, stream, 0);
}

cudaError_t emu_launch_shuffle_with_the_dead(int *out, cudaStream_t stream)
{
    return CUDA_LAUNCH(shuffle_with_the_dead_kernel, 1, 32, stream, out);
}
