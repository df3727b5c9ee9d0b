/* gate.cu - y = x sigmoid(g) with one gate per image and channel, and its gradient.
 *
 * A block stands on neighbouring vectors of a row and, with others, goes through an image's rows;
 * it finds its gates once. Backward adds up dy x on the way: f32 in a thread and over the block in
 * a fixed order, double over the blocks of an image. */
#include "kernels/cuda/gate.h"
#include "kernels/cuda/pointwise_math.h"
#include "kernels/cuda/rows.cuh"

constexpr int GATE_MAX_IMAGES = 65535, GATE_FINISH_THREADS = 256;

template <typename T, typename G>
static __device__ __forceinline__ void gate_load(float *gates, const G *g, const GateShape &k,
                                                 int n, int vector)
{
    constexpr int V = vector_channels<T>;
#pragma unroll
    for (int c = 0; c < V; c++) {
        const float z = vector_load_element(g + ((int64_t)n * k.vectors + vector) * V + c);
        gates[c] = k.hard ? pointwise_hard_sigmoid(z) : pointwise_sigmoid(z);
    }
}

static __device__ __forceinline__ double gate_slope(const GateShape &k, float g)
{
    if (k.hard) return g <= -3.0f || g >= 3.0f ? 0 : 1.0 / 6;
    /* s (1 - s); 1 - s itself would lose the digits of gates near 1 */
    return (double)pointwise_sigmoid(g) * (double)pointwise_sigmoid(-g);
}

template <typename T, typename G>
static __global__ void __launch_bounds__(ROWS_THREADS)
    gate_kernel(const GateShape k, const uint4 *x, const G *g, uint4 *y)
{
    constexpr int V = vector_channels<T>;
    const RowPlace p = row_place(k.lanes_log2, k.splits, k.vectors);
    if (!p.inside) return;
    for (int n = (int)blockIdx.z; n < k.n; n += (int)gridDim.z) {
        const int64_t image = (int64_t)n * k.rows * k.vectors + p.vector;
        float gates[V];
        gate_load<T>(gates, g, k, n, p.vector);
#pragma unroll 4
        for (int row = p.first; row < k.rows; row += p.step) {
            float out[V];
            const uint4 raw = vector_load(x + image + (int64_t)row * k.vectors);
#pragma unroll
            for (int c = 0; c < V; c++) out[c] = vector_get<T>(raw, c) * gates[c];
            y[image + (int64_t)row * k.vectors] = vector_narrow<T>(out);
        }
    }
}

/* dx may be dy: every element is read before it is written, by the same thread. */
template <typename T, typename G>
static __global__ void __launch_bounds__(ROWS_THREADS)
    gate_bwd_kernel(const GateShape k, const uint4 *dy, const uint4 *x, const G *g, uint4 *dx,
                    float *partials)
{
    constexpr int V = vector_channels<T>;
    __shared__ LaneSums<V> shared;
    const RowPlace p = row_place(k.lanes_log2, k.splits, k.vectors);
    RowGrid grid = {};
    grid.lanes_log2 = k.lanes_log2;
    for (int n = (int)blockIdx.z; n < k.n; n += (int)gridDim.z) {
        const int64_t image = (int64_t)n * k.rows * k.vectors + p.vector;
        float gates[V], sums[V] = {};
        if (p.inside) gate_load<T>(gates, g, k, n, p.vector);
#pragma unroll 2
        for (int row = p.first; p.inside && row < k.rows; row += p.step) {
            float out[V];
            const int64_t at = image + (int64_t)row * k.vectors;
            const uint4 raw_dy = vector_load(dy + at), raw_x = vector_load(x + at);
#pragma unroll
            for (int c = 0; c < V; c++) {
                const float d = vector_get<T>(raw_dy, c);
                sums[c] = fmaf(d, vector_get<T>(raw_x, c), sums[c]);
                out[c] = d * gates[c];
            }
            dx[at] = vector_narrow<T>(out);
        }
        row_lanes_add(&shared, sums, grid, p.lane);
        if ((int)threadIdx.x >> k.lanes_log2 == 0 && p.inside)
#pragma unroll
            for (int c = 0; c < V; c++)
                partials[((int64_t)n * k.splits + (int)blockIdx.y) * k.cp + p.vector * V + c] =
                    row_lanes_total(&shared, c, p.lane);
        __syncthreads(); /* before the next image's sums overwrite these */
    }
}

template <typename G>
static __global__ void __launch_bounds__(GATE_FINISH_THREADS)
    gate_bwd_finish_kernel(const GateShape k, const G *g, G *dg, const float *partials)
{
    const int64_t i = (int64_t)blockIdx.x * GATE_FINISH_THREADS + threadIdx.x, n = i / k.cp,
                  c = i % k.cp;
    if (n >= k.n) return;
    double sum = 0;
    for (int s = 0; s < k.splits; s++) sum += (double)partials[(n * k.splits + s) * k.cp + c];
    vector_store_element(dg + i, (float)(sum * gate_slope(k, vector_load_element(g + i))));
}

/* ---- launchers ---- */

static dim3 gate_blocks(const GateShape *k)
{
    return dim3((unsigned)k->tiles, (unsigned)k->splits,
                (unsigned)(k->n < GATE_MAX_IMAGES ? k->n : GATE_MAX_IMAGES));
}

template <typename T, typename G>
static cudaError_t launch_gate_typed(const GateShape *k, const void *x, const void *g, void *y,
                                     cudaStream_t stream)
{
    return CUDA_LAUNCH((gate_kernel<T, G>), gate_blocks(k), ROWS_THREADS, stream, *k,
                       static_cast<const uint4 *>(x), static_cast<const G *>(g),
                       static_cast<uint4 *>(y));
}

template <typename T>
static cudaError_t launch_gate(const GateShape *k, const void *x, const void *g, void *y,
                               cudaStream_t stream)
{
    if (k->g_type == DTYPE_F32) return launch_gate_typed<T, float>(k, x, g, y, stream);
    return k->g_type == k->dtype ? launch_gate_typed<T, T>(k, x, g, y, stream)
                                 : cudaErrorInvalidValue;
}

template <typename T, typename G>
static cudaError_t launch_gate_bwd_typed(const GateShape *k, const void *dy, const void *x,
                                         const void *g, void *dx, void *dg, float *partials,
                                         cudaStream_t stream)
{
    cudaError_t error =
        CUDA_LAUNCH((gate_bwd_kernel<T, G>), gate_blocks(k), ROWS_THREADS, stream, *k,
                    static_cast<const uint4 *>(dy), static_cast<const uint4 *>(x),
                    static_cast<const G *>(g), static_cast<uint4 *>(dx), partials);
    if (error != cudaSuccess) return error;
    return CUDA_LAUNCH(
        gate_bwd_finish_kernel<G>, launch_blocks((int64_t)k->n * k->cp, GATE_FINISH_THREADS),
        GATE_FINISH_THREADS, stream, *k, static_cast<const G *>(g), static_cast<G *>(dg), partials);
}

template <typename T>
static cudaError_t launch_gate_bwd(const GateShape *k, const void *dy, const void *x, const void *g,
                                   void *dx, void *dg, float *partials, cudaStream_t stream)
{
    if (k->g_type == DTYPE_F32)
        return launch_gate_bwd_typed<T, float>(k, dy, x, g, dx, dg, partials, stream);
    return k->g_type == k->dtype
               ? launch_gate_bwd_typed<T, T>(k, dy, x, g, dx, dg, partials, stream)
               : cudaErrorInvalidValue;
}

cudaError_t cuda_launch_gate(const GateShape *k, const void *x, const void *g, void *y,
                             cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_gate, k, x, g, y, stream);
}

cudaError_t cuda_launch_gate_bwd(const GateShape *k, const void *dy, const void *x, const void *g,
                                 void *dx, void *dg, float *partials, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_gate_bwd, k, dy, x, g, dx, dg, partials, stream);
}
