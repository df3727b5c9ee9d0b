/* muon.cu - Muon's momentum with the squares of what it gives, a block for each chunk; the division
 * by their root; the factors of the iteration's polynomial.
 *
 * Squares of f32 are exact in double. A thread adds what it has made, then the block's sums are
 * added pairwise: the same bits on every device. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/muon.h"
#include <math.h>

namespace {

constexpr int BLOCK = 256;

/* The block's total, for all threads. */
__device__ __forceinline__ double block_total(double sum)
{
    __shared__ double part[BLOCK];
    const int t = (int)threadIdx.x;
    part[t] = sum;
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    __syncthreads();
    return part[0];
}

__device__ __forceinline__ bool is_skipped(const MuonPass &p)
{
    return p.loss_scale && p.loss_scale[LOSS_SCALE_FOUND_INF] != 0.0f;
}

__global__ void __launch_bounds__(BLOCK) muon_momentum_kernel(const MuonPass p)
{
    if (is_skipped(p)) return;
    const int64_t first = (int64_t)blockIdx.x * MUON_CHUNK,
                  end = first + MUON_CHUNK < p.count ? first + MUON_CHUNK : p.count;
    float by = p.loss_scale ? 1.0f / p.loss_scale[LOSS_SCALE_SCALE] : 1.0f;
    if (p.clip) by *= p.clip[CLIP_FACTOR];
    double sum = 0;
#pragma unroll 4
    for (int64_t i = first + threadIdx.x; i < end; i += BLOCK) {
        const float g = by * p.grad[i], m = p.momentum[i], next = m + p.gain * (g - m),
                    u = p.nesterov ? next + p.gain * (g - next) : next;
        p.momentum[i] = next;
        p.grad[i] = u;
        sum += (double)u * (double)u;
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) p.sums[blockIdx.x] = sum;
}

/* Every block adds up all sums, in the same order. */
__global__ void __launch_bounds__(BLOCK) muon_divide_kernel(const MuonPass p, float *x)
{
    const bool skipped = is_skipped(p);
    const int64_t first = (int64_t)blockIdx.x * MUON_CHUNK,
                  end = first + MUON_CHUNK < p.count ? first + MUON_CHUNK : p.count,
                  chunks = (p.count + MUON_CHUNK - 1) / MUON_CHUNK;
    double sum = 0;
    for (int64_t k = threadIdx.x; !skipped && k < chunks; k += BLOCK) sum += p.sums[k];
    float norm = (float)sqrt(block_total(sum));
    if (norm < p.eps) norm = p.eps;
    for (int64_t i = first + threadIdx.x; i < end; i += BLOCK)
        x[i] = skipped ? 0.0f : p.grad[i] / norm;
}

__global__ void __launch_bounds__(BLOCK)
    muon_factors_kernel(const float *gram, int64_t side, float a, float b, float c, float *inner,
                        float *outer)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= side * side) return;
    const bool diagonal = i / side == i % side;
    inner[i] = c * gram[i] + (diagonal ? b : 0.0f);
    outer[i] = diagonal ? a : 0.0f;
}

} // namespace

cudaError_t cuda_launch_muon_momentum(const MuonPass *p, cudaStream_t stream)
{
    return CUDA_LAUNCH(muon_momentum_kernel, launch_blocks(p->count, MUON_CHUNK), BLOCK, stream,
                       *p);
}

cudaError_t cuda_launch_muon_divide(const MuonPass *p, float *x, cudaStream_t stream)
{
    return CUDA_LAUNCH(muon_divide_kernel, launch_blocks(p->count, MUON_CHUNK), BLOCK, stream, *p,
                       x);
}

cudaError_t cuda_launch_muon_factors(const float *gram, int64_t side, float a, float b, float c,
                                     float *inner, float *outer, cudaStream_t stream)
{
    return CUDA_LAUNCH(muon_factors_kernel, launch_blocks(side * side, BLOCK), BLOCK, stream, gram,
                       side, a, b, c, inner, outer);
}
