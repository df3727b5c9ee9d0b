/* bias.cu - y += bias and db = sum over rows of dy: of a block's rows first, in f32 and a fixed
 * order, then of the blocks by linear.h's sum over rows. */
#include "kernels/cuda/bias.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.cuh"

constexpr int BIAS_THREADS = 256, BIAS_UNROLL = 4;

template <typename T>
static __global__ void __launch_bounds__(BIAS_THREADS)
    bias_kernel(uint4 *y, const float *bias, int64_t count, int vectors)
{
    constexpr int V = vector_channels<T>;
    const int64_t i = (int64_t)blockIdx.x * BIAS_THREADS + threadIdx.x;
    if (i >= count) return;
    float values[V], b[V];
    vector_widen<T>(vector_load(y + i), values);
    vector_load_values<V>(b, bias, i % vectors * V);
#pragma unroll
    for (int c = 0; c < V; c++) values[c] += b[c];
    y[i] = vector_narrow<T>(values);
}

template <typename T>
static __global__ void __launch_bounds__(ROWS_THREADS)
    bias_gradient_kernel(const RowGrid g, const void *dy, float *partials, int64_t cp)
{
    constexpr int V = vector_channels<T>, U = BIAS_UNROLL;
    __shared__ LaneSums<V> shared;
    RowWalk w = row_walk<U>(g, false);
    uint4 raw[U];
    float sums[V] = {};
    const bool inside = w.vector < g.vectors;
    while (w.chunks > 0) {
        rows_load<U>(raw, dy, w, g);
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int c = 0; c < V; c++)
                if (row_exists(w, u)) sums[c] += vector_get<T>(raw[u], c);
        row_advance(&w, g);
    }
    row_lanes_add(&shared, sums, g, w.lane);
    if ((int)threadIdx.x >> g.lanes_log2 || !inside) return;
    const int64_t part = (int64_t)blockIdx.z * g.splits + blockIdx.y;
#pragma unroll
    for (int c = 0; c < V; c++)
        partials[part * cp + w.vector * V + c] = row_lanes_total(&shared, c, w.lane);
}

template <typename T>
static cudaError_t launch_bias(void *y, const float *bias, int64_t rows, int64_t vectors,
                               cudaStream_t stream)
{
    const int64_t count = rows * vectors;
    return CUDA_LAUNCH(bias_kernel<T>, launch_blocks(count, BIAS_THREADS), BIAS_THREADS, stream,
                       static_cast<uint4 *>(y), bias, count, (int)vectors);
}

template <typename T>
static cudaError_t launch_gradient(const RowGrid *g, const void *dy, float *partials, int64_t cp,
                                   cudaStream_t stream)
{
    return CUDA_LAUNCH(bias_gradient_kernel<T>, row_blocks(*g), ROWS_THREADS, stream, *g, dy,
                       partials, cp);
}

cudaError_t cuda_launch_bias(void *y, DType dtype, const float *bias, int64_t rows, int64_t vectors,
                             cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(dtype, launch_bias, y, bias, rows, vectors, stream);
}

cudaError_t cuda_launch_bias_gradient(const RowGrid *g, const void *dy, DType dtype, float *db,
                                      int64_t cp, bool accumulate, float *partials,
                                      cudaStream_t stream)
{
    const cudaError_t error = LAUNCH_BY_TYPE(dtype, launch_gradient, g, dy, partials, cp, stream);
    if (error != cudaSuccess) return error;
    return cuda_launch_linear_bias_gradient(partials, DTYPE_F32, db, row_grid_partials(g), cp,
                                            accumulate, stream);
}
