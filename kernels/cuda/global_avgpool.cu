/* global_avgpool.cu - the mean over each image's pixels, and its gradient: a block per image and
 * group of channels. */
#include "kernels/cuda/global_avgpool.h"
#include "kernels/cuda/rows.cuh"

constexpr int AVGPOOL_MAX_IMAGES = 65535;

/* Sums are f32: a thread adds up every so many pixels, then the block adds up its threads in a
 * fixed order. */
template <typename T>
static __global__ void __launch_bounds__(ROWS_THREADS)
    avgpool_kernel(const AvgpoolShape k, const void *x, void *y)
{
    constexpr int V = vector_channels<T>;
    __shared__ LaneSums<V> shared;
    const int lane = (int)threadIdx.x & ((1 << k.grid.lanes_log2) - 1),
              depth = ROWS_THREADS >> k.grid.lanes_log2;
    const int vector = ((int)blockIdx.x << k.grid.lanes_log2) + lane,
              first = (int)threadIdx.x >> k.grid.lanes_log2;
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        const uint4 *image =
            static_cast<const uint4 *>(x) + (int64_t)n * k.grid.rows * k.grid.vectors + vector;
        float sums[V] = {};
        if (vector < k.grid.vectors)
#pragma unroll 4
            for (int row = first; row < k.grid.rows; row += depth) {
                uint4 raw = vector_load(image + (int64_t)row * k.grid.vectors);
#pragma unroll
                for (int c = 0; c < V; c++) sums[c] += vector_get<T>(raw, c);
            }
        row_lanes_add(&shared, sums, k.grid, lane);
        if (first == 0 && vector < k.grid.vectors) {
#pragma unroll
            for (int c = 0; c < V; c++) sums[c] = row_lanes_total(&shared, c, lane) * k.share;
            static_cast<uint4 *>(y)[(int64_t)n * k.grid.vectors + vector] = vector_narrow<T>(sums);
        }
        __syncthreads(); /* before the next image's sums overwrite these */
    }
}

/* DY: the type of dy, that of dx or f32; its rows have as many channels as those of dx. */
template <typename T, typename DY>
static __global__ void __launch_bounds__(ROWS_THREADS)
    avgpool_bwd_kernel(const AvgpoolShape k, const DY *dy, void *dx)
{
    constexpr int V = vector_channels<T>;
    const int lane = (int)threadIdx.x & ((1 << k.grid.lanes_log2) - 1),
              depth = ROWS_THREADS >> k.grid.lanes_log2;
    const int vector = ((int)blockIdx.x << k.grid.lanes_log2) + lane;
    if (vector >= k.grid.vectors) return;
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        float share[V];
#pragma unroll
        for (int c = 0; c < V; c++)
            share[c] =
                vector_load_element(dy + ((int64_t)n * k.grid.vectors + vector) * V + c) * k.share;
        const uint4 value = vector_narrow<T>(share);
        uint4 *image =
            static_cast<uint4 *>(dx) + (int64_t)n * k.grid.rows * k.grid.vectors + vector;
        for (int row = (int)threadIdx.x >> k.grid.lanes_log2; row < k.grid.rows; row += depth)
            image[(int64_t)row * k.grid.vectors] = value;
    }
}

/* ---- launchers ---- */

static dim3 avgpool_blocks(const AvgpoolShape *k)
{
    return dim3((unsigned)k->grid.tiles,
                (unsigned)(k->n < AVGPOOL_MAX_IMAGES ? k->n : AVGPOOL_MAX_IMAGES));
}

template <typename T>
static cudaError_t launch_avgpool(const AvgpoolShape *k, const void *x, void *y,
                                  cudaStream_t stream)
{
    return CUDA_LAUNCH(avgpool_kernel<T>, avgpool_blocks(k), ROWS_THREADS, stream, *k, x, y);
}

template <typename T>
static cudaError_t launch_avgpool_bwd(const AvgpoolShape *k, const void *dy, DType dy_type,
                                      void *dx, cudaStream_t stream)
{
    if (dy_type == DTYPE_F32)
        return CUDA_LAUNCH((avgpool_bwd_kernel<T, float>), avgpool_blocks(k), ROWS_THREADS, stream,
                           *k, static_cast<const float *>(dy), dx);
    if (dy_type != k->dtype) return cudaErrorInvalidValue;
    return CUDA_LAUNCH((avgpool_bwd_kernel<T, T>), avgpool_blocks(k), ROWS_THREADS, stream, *k,
                       static_cast<const T *>(dy), dx);
}

cudaError_t cuda_launch_global_avgpool(const AvgpoolShape *k, const void *x, void *y,
                                       cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_avgpool, k, x, y, stream);
}

cudaError_t cuda_launch_global_avgpool_bwd(const AvgpoolShape *k, const void *dy, DType dy_type,
                                           void *dx, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_avgpool_bwd, k, dy, dy_type, dx, stream);
}
