/* pool2d.cu - max and average pooling and blurs over windows of NHWC images (pool2d.cuh). */
#include "kernels/cuda/pool2d.cuh"

/* ---- forward ---- */

template <typename T>
static __global__ void __launch_bounds__(POOL_THREADS, POOL_BLOCKS)
    pool_max_kernel(const Pool2dShape k, const void *x, void *y, uint8_t *index)
{
    constexpr int V = vector_channels<T>;
    const PoolPlace t = pool2d_place(k, k.p, k.by_q);
    if (!t.exists) return;
    const Window v = pool2d_window_at(k, t);
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        const uint4 *image = pool2d_image_at(x, n, k.h * k.w * k.vectors);
        float best[V];
        int at[V];
        pool2d_max<T>(k, t, v, image, best, at, [](uint4 raw) { return raw; });
        const uint32_t to = pool2d_place_index(k, t, t.row, t.column, k.q);
        pool2d_image_at(y, n, k.p * k.q * k.vectors)[to] = vector_narrow<T>(best);
        if (index)
            pool2d_positions_store<T>(index, (int64_t)n * (k.p * k.q * k.vectors) + to,
                                      pool2d_positions_pack<T>(at, k.c - t.vector * V));
    }
}

/* BLUR: pixels are weighted. */
template <typename T, bool BLUR>
static __global__ void __launch_bounds__(POOL_THREADS, POOL_BLOCKS)
    pool_avg_kernel(const Pool2dShape k, const void *x, void *y)
{
    constexpr int V = vector_channels<T>;
    const PoolPlace t = pool2d_place(k, k.p, k.by_q);
    if (!t.exists) return;
    const Window v = pool2d_window_at(k, t);
    const float share = pool2d_share(k, v.row, v.column);
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        const uint4 *image = pool2d_image_at(x, n, k.h * k.w * k.vectors);
        float sum[V] = {};
        for (int row = v.first_row; row <= v.last_row; row++)
#pragma unroll 2
            for (int column = v.first_column; column <= v.last_column; column++) {
                const uint4 raw = vector_load(image + pool2d_place_index(k, t, row, column, k.w));
                const float weight =
                    BLUR ? pool2d_blur_product(k, row, v.row + 1, column, v.column + 1) : 1;
#pragma unroll
                for (int c = 0; c < V; c++)
                    sum[c] += BLUR ? weight * vector_get<T>(raw, c) : vector_get<T>(raw, c);
            }
#pragma unroll
        for (int c = 0; c < V; c++) sum[c] *= share;
        pool2d_image_at(y, n,
                        k.p * k.q * k.vectors)[pool2d_place_index(k, t, t.row, t.column, k.q)] =
            vector_narrow<T>(sum);
    }
}

/* ---- backward ---- */

/* index: of a max; else NULL. */
template <typename T, bool MAX, bool BLUR>
static __global__ void __launch_bounds__(POOL_THREADS, POOL_BLOCKS)
    pool_bwd_kernel(const Pool2dShape k, const void *dy, const uint8_t *index, void *dx)
{
    constexpr int V = vector_channels<T>;
    const PoolPlace t = pool2d_place(k, k.h, k.by_w);
    if (!t.exists) return;
    /* a position is in one tile only */
    const float share =
        MAX ? 1
            : pool2d_share(k, (int)fast_div((uint32_t)t.row, k.by_stride_h) * k.stride_h,
                           (int)fast_div((uint32_t)t.column, k.by_stride_w) * k.stride_w);
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        float sum[V] = {};
        pool2d_gather<T, MAX, BLUR, 2>(k, t, static_cast<const uint4 *>(dy), index,
                                       (int64_t)n * (k.p * k.q * k.vectors), sum);
        if (!MAX)
#pragma unroll
            for (int c = 0; c < V; c++) sum[c] *= share;
        pool2d_image_at(dx, n,
                        k.h * k.w * k.vectors)[pool2d_place_index(k, t, t.row, t.column, k.w)] =
            vector_narrow<T>(sum);
    }
}

/* ---- launchers ---- */

static dim3 pool_blocks(const Pool2dShape *k, int positions)
{
    return dim3(launch_blocks((int64_t)positions * k->vectors, POOL_THREADS),
                (unsigned)(k->n < POOL_MAX_IMAGES ? k->n : POOL_MAX_IMAGES));
}

template <typename T>
static cudaError_t launch_pool(const Pool2dShape *k, const void *x, void *y, uint8_t *index,
                               cudaStream_t stream)
{
    const dim3 grid = pool_blocks(k, k->p * k->q);
    switch (k->kind) {
    case POOL_MAX:
        return CUDA_LAUNCH(pool_max_kernel<T>, grid, POOL_THREADS, stream, *k, x, y, index);
    case POOL_AVG:
    case POOL_AVG_TILES:
        return CUDA_LAUNCH((pool_avg_kernel<T, false>), grid, POOL_THREADS, stream, *k, x, y);
    case POOL_BLUR:
    case POOL_BLUR_REFLECT:
        return CUDA_LAUNCH((pool_avg_kernel<T, true>), grid, POOL_THREADS, stream, *k, x, y);
    case POOL_KIND_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

template <typename T>
static cudaError_t launch_pool_bwd(const Pool2dShape *k, const void *dy, const uint8_t *index,
                                   void *dx, cudaStream_t stream)
{
    const dim3 grid = pool_blocks(k, k->h * k->w);
    switch (k->kind) {
    case POOL_MAX:
        return CUDA_LAUNCH((pool_bwd_kernel<T, true, false>), grid, POOL_THREADS, stream, *k, dy,
                           index, dx);
    case POOL_AVG:
    case POOL_AVG_TILES:
        return CUDA_LAUNCH((pool_bwd_kernel<T, false, false>), grid, POOL_THREADS, stream, *k, dy,
                           index, dx);
    case POOL_BLUR:
    case POOL_BLUR_REFLECT:
        return CUDA_LAUNCH((pool_bwd_kernel<T, false, true>), grid, POOL_THREADS, stream, *k, dy,
                           index, dx);
    case POOL_KIND_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

cudaError_t cuda_launch_pool2d(const Pool2dShape *k, const void *x, void *y, uint8_t *index,
                               cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_pool, k, x, y, index, stream);
}

cudaError_t cuda_launch_pool2d_bwd(const Pool2dShape *k, const void *dy, const uint8_t *index,
                                   void *dx, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_pool_bwd, k, dy, index, dx, stream);
}
