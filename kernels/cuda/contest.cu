/* contest.cu - how far two results are from each other: each block adds up its share, in an order
 * that follows from block and thread numbers alone. */
#include "kernels/cuda/contest.h"
#include "kernels/cuda/vector.cuh"

namespace {

constexpr int BLOCK = 256;

__device__ __forceinline__ bool is_finite(float x)
{
    return x - x == 0.0f;
}

__device__ __forceinline__ double gap(float x, float y)
{
    if (is_finite(x) && is_finite(y)) return (double)x - (double)y;
    const bool same = x == y || (x != x && y != y);
    return same ? 0.0 : (double)float_from_bits(0x7f800000u);
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    contest_difference_kernel(const T *a, const T *b, int64_t count, double *sums)
{
    __shared__ double part[2][BLOCK];
    const int t = (int)threadIdx.x;
    double squares = 0, gaps = 0;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + t; i < count; i += (int64_t)gridDim.x * BLOCK) {
        const float x = vector_load_element(a + i), y = vector_load_element(b + i);
        const double d = gap(x, y);
        if (is_finite(x)) squares += (double)x * (double)x;
        gaps += d * d;
    }
    part[0][t] = squares;
    part[1][t] = gaps;
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        __syncthreads();
        for (int k = 0; k < 2; k++)
            if (t < half) part[k][t] += part[k][t + half];
    }
    for (int k = 0; k < 2; k++)
        if (t == 0) sums[2 * blockIdx.x + k] = part[k][0];
}

template <typename T>
cudaError_t launch(const void *a, const void *b, int64_t count, double *sums, cudaStream_t stream)
{
    const unsigned wanted = launch_blocks(count, BLOCK), most = CONTEST_DIFFERENCE_BLOCKS;
    return CUDA_LAUNCH(contest_difference_kernel<T>, wanted < most ? wanted : most, BLOCK, stream,
                       static_cast<const T *>(a), static_cast<const T *>(b), count, sums);
}

} // namespace

cudaError_t cuda_launch_contest_difference(const void *a, const void *b, DType type, int64_t count,
                                           double *sums, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(type, launch, a, b, count, sums, stream);
}
