/* layernorm.cu - y = gamma xhat + beta with xhat = (x - mean) / sqrt(var + eps) over a row, and its
 * gradient. Everything is f32 between reading and writing; sums have an order that depends on the
 * shape alone: a thread's own values, its warp by exchange, the row's warps in order.
 *
 * Backward also adds up what the rows of a thread give to the gradients of gamma and beta, of the
 * channels that it holds; at the end a block adds its rows up, and what the blocks leave is summed
 * by linear.h's sum over rows. */
#include "kernels/cuda/layernorm.h"
#include "kernels/cuda/vector.cuh"

constexpr int LAYERNORM_WARPS = LAYERNORM_THREADS / 32;

struct RowSums { /* of the threads of a block that share a row */
    float2 part[LAYERNORM_WARPS];
};

/* Every thread of the block must come here; all of a row get its sums. */
static __device__ __forceinline__ float2 sum_over_row(float2 v, int lanes_log2, RowSums *shared)
{
    const int warp = (int)threadIdx.x >> 5, warps = lanes_log2 > 5 ? 1 << (lanes_log2 - 5) : 1;
    for (int offset = lanes_log2 > 5 ? 16 : (1 << lanes_log2) >> 1; offset > 0; offset >>= 1) {
        v.x += __shfl_xor_sync(0xffffffffu, v.x, offset);
        v.y += __shfl_xor_sync(0xffffffffu, v.y, offset);
    }
    if (warps == 1) return v;
    if (((int)threadIdx.x & 31) == 0) shared->part[warp] = v;
    __syncthreads();
    float2 sum = make_float2(0.0f, 0.0f);
    for (int w = 0; w < warps; w++) {
        const float2 part = shared->part[(warp & ~(warps - 1)) + w];
        sum.x += part.x;
        sum.y += part.y;
    }
    __syncthreads(); /* before the next sums overwrite these */
    return sum;
}

struct Place { /* of a thread */
    int lane, lanes, group, depth;
};

static __device__ __forceinline__ Place place_of(const LayerNormShape &k)
{
    Place p;
    p.lanes = 1 << k.lanes_log2;
    p.lane = (int)threadIdx.x & (p.lanes - 1);
    p.group = (int)threadIdx.x >> k.lanes_log2;
    p.depth = LAYERNORM_THREADS >> k.lanes_log2;
    return p;
}

/* The vectors of row that the thread holds; zero where there is none. */
template <int HELD>
static __device__ __forceinline__ void load_row(uint4 *to, const uint4 *from,
                                                const LayerNormShape &k, const Place &p,
                                                int64_t row)
{
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        const int vector = p.lane + h * p.lanes;
        to[h] = row < k.rows && vector < k.vectors ? vector_load(from + row * k.vectors + vector)
                                                   : make_uint4(0, 0, 0, 0);
    }
}

/* x: mean; y: 1 / sqrt(var + eps). */
template <typename T, int HELD>
static __device__ __forceinline__ float2 statistics(const uint4 *x, const LayerNormShape &k,
                                                    const Place &p, RowSums *shared)
{
    constexpr int V = vector_channels<T>;
    float2 sum = make_float2(0.0f, 0.0f), squares = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int h = 0; h < HELD; h++)
#pragma unroll
        for (int c = 0; c < V; c++) sum.x += vector_get<T>(x[h], c);
    const float mean = sum_over_row(sum, k.lanes_log2, shared).x / (float)k.c;
#pragma unroll
    for (int h = 0; h < HELD; h++)
#pragma unroll
        for (int c = 0; c < V; c++) {
            const float off = vector_get<T>(x[h], c) - mean;
            squares.x += (p.lane + h * p.lanes) * V + c < k.c ? off * off : 0.0f;
        }
    const float var = sum_over_row(squares, k.lanes_log2, shared).x / (float)k.c;
    return make_float2(mean, 1.0f / sqrtf(var + k.eps));
}

template <typename T, int HELD>
static __global__ void __launch_bounds__(LAYERNORM_THREADS)
    layernorm_kernel(const LayerNormShape k, const uint4 *x, const float *gamma, const float *beta,
                     uint4 *y)
{
    constexpr int V = vector_channels<T>;
    __shared__ RowSums shared;
    const Place p = place_of(k);
    for (int64_t first = (int64_t)blockIdx.x * p.depth; first < k.rows;
         first += (int64_t)gridDim.x * p.depth) {
        const int64_t row = first + p.group;
        uint4 held[HELD];
        load_row<HELD>(held, x, k, p, row);
        const float2 s = statistics<T, HELD>(held, k, p, &shared);
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            const int vector = p.lane + h * p.lanes;
            float g[V], b[V], out[V];
            if (row >= k.rows || vector >= k.vectors) continue;
            vector_load_values<V>(g, gamma, (int64_t)vector * V);
            vector_load_values<V>(b, beta, (int64_t)vector * V);
#pragma unroll
            for (int c = 0; c < V; c++)
                out[c] = vector * V + c < k.c
                             ? fmaf(g[c], (vector_get<T>(held[h], c) - s.x) * s.y, b[c])
                             : 0.0f;
            y[row * k.vectors + vector] = vector_narrow<T>(out);
        }
    }
}

/* One sum for each thread and channel of a vector: those of the same lane are added up in order of
 * their rows, by the first. */
template <int V>
static __device__ __forceinline__ void sum_over_groups(float (*shared)[V], const float *own,
                                                       const Place &p, float *out, bool exists)
{
    __syncthreads();
#pragma unroll
    for (int c = 0; c < V; c++) shared[threadIdx.x][c] = own[c];
    __syncthreads();
    if (p.group != 0 || !exists) return;
#pragma unroll
    for (int c = 0; c < V; c++) {
        float sum = 0;
        for (int g = 0; g < p.depth; g++) sum += shared[g * p.lanes + p.lane][c];
        out[c] = sum;
    }
}

/* dx may be dy: a thread has read all of its row before any of it is written. */
template <typename T, int HELD>
static __global__ void __launch_bounds__(LAYERNORM_THREADS)
    layernorm_bwd_kernel(const LayerNormShape k, const uint4 *dy, const uint4 *x,
                         const float *gamma, uint4 *dx, float *partials)
{
    constexpr int V = vector_channels<T>;
    __shared__ RowSums shared;
    __shared__ float groups[LAYERNORM_THREADS][V];
    const Place p = place_of(k);
    float dgamma[HELD][V] = {}, dbeta[HELD][V] = {};
    for (int64_t first = (int64_t)blockIdx.x * p.depth; first < k.rows;
         first += (int64_t)gridDim.x * p.depth) {
        const int64_t row = first + p.group;
        uint4 held[HELD], held_dy[HELD];
        load_row<HELD>(held, x, k, p, row);
        load_row<HELD>(held_dy, dy, k, p, row);
        const float2 s = statistics<T, HELD>(held, k, p, &shared);
        float2 sums =
            make_float2(0.0f, 0.0f); /* of g = dy gamma and of g xhat; dy's padding is 0 */
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            const int vector = p.lane + h * p.lanes;
            float factors[V] = {};
            if (vector < k.vectors) vector_load_values<V>(factors, gamma, (int64_t)vector * V);
#pragma unroll
            for (int c = 0; c < V; c++) {
                const float d = vector_get<T>(held_dy[h], c),
                            xhat = (vector_get<T>(held[h], c) - s.x) * s.y;
                dgamma[h][c] = fmaf(d, xhat, dgamma[h][c]);
                dbeta[h][c] += d;
                sums.x = fmaf(d, factors[c], sums.x);
                sums.y = fmaf(d * factors[c], xhat, sums.y);
            }
        }
        sums = sum_over_row(sums, k.lanes_log2, &shared);
        const float mean_g = sums.x / (float)k.c, mean_product = sums.y / (float)k.c;
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            const int vector = p.lane + h * p.lanes;
            float factors[V], out[V];
            if (row >= k.rows || vector >= k.vectors) continue;
            vector_load_values<V>(factors, gamma, (int64_t)vector * V);
#pragma unroll
            for (int c = 0; c < V; c++) {
                const float xhat = (vector_get<T>(held[h], c) - s.x) * s.y,
                            g = vector_get<T>(held_dy[h], c) * factors[c];
                out[c] = vector * V + c < k.c ? s.y * (g - mean_g - xhat * mean_product) : 0.0f;
            }
            dx[row * k.vectors + vector] = vector_narrow<T>(out);
        }
    }
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        const int vector = p.lane + h * p.lanes;
        float *out = partials + (int64_t)blockIdx.x * k.cp + (int64_t)vector * V;
        sum_over_groups<V>(groups, dgamma[h], p, out, vector < k.vectors);
        sum_over_groups<V>(groups, dbeta[h], p, out + (int64_t)k.blocks * k.cp, vector < k.vectors);
    }
}

/* ---- launchers ---- */

template <typename T>
static cudaError_t launch_forward(const LayerNormShape *k, const void *x, const float *gamma,
                                  const float *beta, void *y, cudaStream_t stream)
{
    const auto kernel =
        k->held == 1 ? layernorm_kernel<T, 1> : layernorm_kernel<T, LAYERNORM_MAX_HELD>;
    return CUDA_LAUNCH(kernel, (unsigned)k->blocks, LAYERNORM_THREADS, stream, *k,
                       static_cast<const uint4 *>(x), gamma, beta, static_cast<uint4 *>(y));
}

template <typename T>
static cudaError_t launch_backward(const LayerNormShape *k, const void *dy, const void *x,
                                   const float *gamma, void *dx, float *partials,
                                   cudaStream_t stream)
{
    const auto kernel =
        k->held == 1 ? layernorm_bwd_kernel<T, 1> : layernorm_bwd_kernel<T, LAYERNORM_MAX_HELD>;
    return CUDA_LAUNCH(kernel, (unsigned)k->blocks, LAYERNORM_THREADS, stream, *k,
                       static_cast<const uint4 *>(dy), static_cast<const uint4 *>(x), gamma,
                       static_cast<uint4 *>(dx), partials);
}

cudaError_t cuda_launch_layernorm(const LayerNormShape *k, const void *x, const float *gamma,
                                  const float *beta, void *y, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_forward, k, x, gamma, beta, y, stream);
}

cudaError_t cuda_launch_layernorm_bwd(const LayerNormShape *k, const void *dy, const void *x,
                                      const float *gamma, void *dx, float *partials,
                                      cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_backward, k, dy, x, gamma, dx, partials, stream);
}
