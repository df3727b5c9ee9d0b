/* grad_norm.cu - the norm of all gradients: a block for each chunk adds its squares up, one block
 * adds the chunks.
 *
 * Squares of f32 are exact in double. A thread adds what it has read, then the block's sums are
 * added pairwise: the order is that of chunk and thread numbers alone, so the same gradients give
 * the same bits on every device. */
#include "kernels/cuda/grad_norm.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/ops/grad_norm_math.h"

namespace {

constexpr int BLOCK = 256, CHUNK = GRAD_SQUARES_CHUNK, VECTORS = CHUNK / (4 * BLOCK);

/* The block's total, for thread 0. */
__device__ __forceinline__ double block_total(double sum)
{
    __shared__ double part[BLOCK];
    const int t = (int)threadIdx.x;
    part[t] = sum;
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    return part[0];
}

__device__ __forceinline__ double square(float x)
{
    return (double)x * (double)x;
}

__global__ void __launch_bounds__(BLOCK)
    grad_squares_kernel(const float *x, int64_t count, double *sums)
{
    const int64_t first = (int64_t)blockIdx.x * CHUNK;
    const int left = (int)(count - first < CHUNK ? count - first : CHUNK);
    const uint4 *from = reinterpret_cast<const uint4 *>(x + first);
    double sum = 0;
    uint4 v[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        v[k] = uint4{ 0, 0, 0, 0 };
        if ((k * BLOCK + (int)threadIdx.x) * 4 + 4 <= left)
            v[k] = vector_load(from + k * BLOCK + threadIdx.x);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum += square(vector_get<float>(v[k], i));
    const int tail = left / 4 * 4 + (int)threadIdx.x;
    if (tail < left) sum += square(x[first + tail]);
    sum = block_total(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(BLOCK)
    grad_norm_kernel(const GradNormAttr attr, const double *sums, int64_t count,
                     const float *loss_scale, float *clip)
{
    double sum = 0;
    for (int64_t k = threadIdx.x; k < count; k += BLOCK) sum += sums[k];
    sum = block_total(sum);
    if (threadIdx.x == 0) grad_norm_finish(&attr, sum, loss_scale, clip);
}

} // namespace

cudaError_t cuda_launch_grad_norm_squares(const float *x, int64_t count, double *sums,
                                          cudaStream_t stream)
{
    if (!vector_is_aligned(x)) return cudaErrorInvalidValue;
    return CUDA_LAUNCH(grad_squares_kernel, launch_blocks(count, CHUNK), BLOCK, stream, x, count,
                       sums);
}

cudaError_t cuda_launch_grad_norm(const GradNormAttr *attr, const double *sums, int64_t count,
                                  const float *loss_scale, float *clip, cudaStream_t stream)
{
    return CUDA_LAUNCH(grad_norm_kernel, 1, BLOCK, stream, *attr, sums, count, loss_scale, clip);
}
