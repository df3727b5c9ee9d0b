/* batchnorm_pool.cu - a batch norm and the max pooling behind it on the device: what is normalised
 * is compared in registers, rounded as it would have been written, and never is. An element is
 * normalised once for each window that it is in. */
#include "kernels/cuda/batchnorm.cuh"
#include "kernels/cuda/pointwise_math.h"
#include "kernels/cuda/pool2d.cuh"

/* Images that a thread goes through, by what it has loaded per channel; blocks on an SM. */
constexpr int BN_POOL_IMAGES = 4, BN_POOL_BLOCKS = 3;

/* Images last to first: what the pass before read last is still in the cache. */
template <typename T>
static __global__ void __launch_bounds__(POOL_THREADS, BN_POOL_BLOCKS)
    bn_pool_kernel(const BnForward f, const BnPool p)
{
    constexpr int V = vector_channels<T>;
    const Pool2dShape &k = p.shape;
    const PoolPlace t = pool2d_place(k, k.p, k.by_q);
    if (!t.exists) return;
    const Window v = pool2d_window_at(k, t);
    const int64_t outputs = (int64_t)k.p * k.q * k.vectors;
    BnLane<V> lane;
    batchnorm_lane_load(&lane, f.statistics, f.gamma, f.beta, t.vector * V, f.cp);
    const auto normalise = [&lane](uint4 x) {
        float y[V];
#pragma unroll
        for (int c = 0; c < V; c++)
            y[c] = pointwise_act(ACT_RELU, batchnorm_affine(vector_get<T>(x, c), lane.mean[c],
                                                            lane.scale[c], lane.shift[c]));
        return vector_narrow<T>(y);
    };
    for (int n = k.n - 1 - (int)blockIdx.y; n >= 0; n -= (int)gridDim.y) {
        float best[V];
        int at[V];
        pool2d_max<T>(k, t, v, pool2d_image_at(f.x, n, k.h * k.w * k.vectors), best, at, normalise);
        const int64_t to = n * outputs + pool2d_place_index(k, t, t.row, t.column, k.q);
        static_cast<uint4 *>(f.y)[to] = vector_narrow<T>(best);
        pool2d_positions_store<T>(p.index, to, pool2d_positions_pack<T>(at, k.c - t.vector * V));
    }
}

template <typename T>
static cudaError_t launch_pool(const BnForward *f, const BnPool *p, cudaStream_t stream)
{
    const Pool2dShape *k = &p->shape;
    const dim3 grid(launch_blocks((int64_t)k->p * k->q * k->vectors, POOL_THREADS),
                    min(launch_blocks(k->n, BN_POOL_IMAGES), (unsigned)POOL_MAX_IMAGES));
    return CUDA_LAUNCH(bn_pool_kernel<T>, grid, POOL_THREADS, stream, *f, *p);
}

cudaError_t cuda_launch_batchnorm_pool(const BnForward *f, const BnPool *p, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(f->dtype, launch_pool, f, p, stream);
}
