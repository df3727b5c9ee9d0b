/* trust.cu - trust ratios: a block for each chunk adds up its squares, a block for each segment its
 * chunks and makes the ratio.
 *
 * Squares of f32 are exact in double. A thread adds what it has read, then the block's sums are
 * added pairwise: the order is that of element and thread numbers within the segment alone. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/trust.h"
#include "kernels/cuda/update_math.h"
#include "kernels/ops/trust_math.h"

namespace {

constexpr int BLOCK = 256;

struct Sums {
    double value[TRUST_SUM_COUNT];
};

/* The block's totals, for thread 0. */
__device__ __forceinline__ Sums block_totals(const Sums &own)
{
    __shared__ Sums part[BLOCK];
    const int t = (int)threadIdx.x;
    part[t] = own;
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (t >= half) continue;
        for (int i = 0; i < TRUST_SUM_COUNT; i++) part[t].value[i] += part[t + half].value[i];
    }
    return part[0];
}

/* What the parameter is held against. */
__device__ __forceinline__ float other_of(const UpdatePass &pass, int64_t i, const UpdateRates *r)
{
    if (pass.by_gradient) return r->unscale * pass.grad[i];
    UpdateElement e = { pass.param[i], pass.grad[i], pass.state0[i], pass.state1[i] };
    return update_lamb_direction(&e, r);
}

__global__ void __launch_bounds__(BLOCK) trust_squares_kernel(const UpdatePass pass, double *sums)
{
    __shared__ UpdateRates rates; /* one thread divides in double, not all */
    const UpdateChunk chunk = pass.chunks[blockIdx.x];
    if (threadIdx.x == 0) rates = update_rates(&pass, &chunk);
    __syncthreads();
    const UpdateRates r = rates;
    Sums own = {};
#pragma unroll 4
    for (int k = (int)threadIdx.x; k < chunk.count; k += BLOCK) {
        const double p = (double)pass.param[chunk.first + k],
                     other = (double)other_of(pass, chunk.first + k, &r);
        own.value[TRUST_SUM_PARAM] += p * p;
        own.value[TRUST_SUM_OTHER] += other * other;
    }
    own = block_totals(own);
    if (threadIdx.x == 0)
        for (int i = 0; i < TRUST_SUM_COUNT; i++)
            sums[(int64_t)blockIdx.x * TRUST_SUM_COUNT + i] = own.value[i];
}

/* The first chunk whose segment is not below this one. */
__device__ __forceinline__ int64_t first_chunk(const UpdatePass &pass, int segment)
{
    int64_t low = 0, high = pass.chunk_count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (pass.chunks[middle].segment < segment) low = middle + 1;
        else high = middle;
    }
    return low;
}

__global__ void __launch_bounds__(BLOCK)
    trust_ratio_kernel(const UpdatePass pass, const UpdateAttr attr, const double *sums,
                       float *ratios)
{
    const int64_t first = first_chunk(pass, (int)blockIdx.x),
                  end = first_chunk(pass, (int)blockIdx.x + 1);
    Sums own = {};
    for (int64_t k = first + threadIdx.x; k < end; k += BLOCK)
        for (int i = 0; i < TRUST_SUM_COUNT; i++) own.value[i] += sums[k * TRUST_SUM_COUNT + i];
    own = block_totals(own);
    if (threadIdx.x != 0) return;
    float ratio = 1.0f; /* does not adapt */
    if (first < end) {
        const UpdateChunk &chunk = pass.chunks[first];
        const double lr = (double)pass.scalars[SCALAR_LR] * (double)chunk.lr;
        ratio = trust_ratio(&attr, pass.by_gradient, chunk.weight_decay, lr, own.value);
    }
    ratios[blockIdx.x] = ratio;
}

} // namespace

cudaError_t cuda_launch_trust(const UpdatePass *p, const UpdateAttr *attr, double *sums,
                              float *ratios, cudaStream_t stream)
{
    cudaError_t e =
        CUDA_LAUNCH(trust_squares_kernel, (unsigned)p->chunk_count, BLOCK, stream, *p, sums);
    if (e != cudaSuccess) return e;
    return CUDA_LAUNCH(trust_ratio_kernel, (unsigned)attr->segment_count, BLOCK, stream, *p, *attr,
                       sums, ratios);
}
