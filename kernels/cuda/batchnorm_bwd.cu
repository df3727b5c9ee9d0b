/* batchnorm_bwd.cu - batch norm backward on the device: sums of dz, dx.
 *
 * dz = (dy + dy2) act'(y), formed in f32. Where the residual wants dz it is written by the first
 * pass and read by the second instead of dy, dy2 and y; else the second pass forms it again, which
 * moves fewer bytes than writing it. */
#include "kernels/cuda/batchnorm.cuh"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/pointwise_math.h"
#include "kernels/cuda/pool2d.cuh"

/* A slope at bn(x) with two shares of dy leaves registers for one row at a time, and so does hard
 * swish's with one. */
template <BnMask MASK, bool TWO>
constexpr int backward_unroll = (MASK >= BN_MASK_SILU && TWO) || MASK == BN_MASK_HARD_SWISH ? 1 : 2;

/* The sign is that of y as forward stored it: in 16 bits its smallest values became zero. */
template <typename T> constexpr float stored_as_zero = FLOAT_F32_ZERO;
template <> constexpr float stored_as_zero<Bf16> = FLOAT_BF16_ZERO;
template <> constexpr float stored_as_zero<F16> = FLOAT_F16_ZERO;

/* What one pass reads of a chunk; unused members cost no registers. */
template <int U> struct BackwardRows {
    uint4 dy[U], dy2[U], x[U], y[U];
    unsigned signs[U];
};

template <BnMask MASK, bool TWO, bool LAST, bool POOLED = false>
static __device__ __forceinline__ void backward_load(BackwardRows<backward_unroll<MASK, TWO>> *rows,
                                                     const BnBackward b, const RowWalk w)
{
    constexpr int U = backward_unroll<MASK, TWO>;
    if (POOLED) return; /* pooled_load(), row by row */
    if (MASK == BN_MASK_FROM_SIGNS)
#pragma unroll
        for (int u = 0; u < U; u++)
            if (row_exists(w, u)) rows->signs[u] = b.signs[row_index(w, b.grid, u)];
    if (LAST) {
        rows_load_last<U>(rows->dy, b.dy, w, b.grid);
        rows_load_last<U>(rows->x, b.x, w, b.grid);
        if (TWO) rows_load_last<U>(rows->dy2, b.dy2, w, b.grid);
        if (MASK == BN_MASK_FROM_Y) rows_load_last<U>(rows->y, b.y, w, b.grid);
    } else {
        rows_load<U>(rows->dy, b.dy, w, b.grid);
        rows_load<U>(rows->x, b.x, w, b.grid);
        if (TWO) rows_load<U>(rows->dy2, b.dy2, w, b.grid);
        if (MASK == BN_MASK_FROM_Y) rows_load<U>(rows->y, b.y, w, b.grid);
    }
}

/* x of row u, and dy where what was normalised was pooled: rounded as if it had been written. A row
 * at a time, so that registers suffice. */
template <typename T, int U>
static __device__ __forceinline__ void pooled_load(BackwardRows<U> *rows, const BnBackward &b,
                                                   const RowWalk w, int u)
{
    const Pool2dShape &k = b.pool.shape;
    float sum[vector_channels<T>] = {};
    uint32_t column, row;
    const uint32_t at = row_index(w, b.grid, u),
                   line = fast_div_rest(fast_div(at, k.by_vectors), k.by_w, &column),
                   n = fast_div_rest(line, b.pool.by_h, &row);
    const PoolPlace t = { w.vector, (int)row, (int)column, true };
    rows->x[0] = vector_load(static_cast<const uint4 *>(b.x) + at);
    pool2d_gather<T, true, false, 1>(k, t, static_cast<const uint4 *>(b.dy), b.pool.index,
                                     n * (uint32_t)(k.p * k.q * k.vectors), sum);
    rows->dy[0] = vector_narrow<T>(sum);
}

/* dz of channel c in row u, whose x is given. */
template <typename T, BnMask MASK, bool TWO>
static __device__ __forceinline__ float form_dz(
    const BackwardRows<backward_unroll<MASK, TWO>> &rows, int u, int c, float x,
    const BnLane<vector_channels<T>> &lane)
{
    float dz = vector_get<T>(rows.dy[u], c);
    if (TWO) dz += vector_get<T>(rows.dy2[u], c);
    const float z = batchnorm_affine(x, lane.mean[c], lane.scale[c], lane.shift[c]);
    switch (MASK) {
    case BN_MASK_NONE:
        return dz;
    case BN_MASK_FROM_X:
        return batchnorm_relu_bwd(dz, z, stored_as_zero<T>);
    case BN_MASK_FROM_Y:
        return batchnorm_relu_bwd(dz, vector_get<T>(rows.y[u], c), 0.0f);
    case BN_MASK_FROM_SIGNS:
        return rows.signs[u] >> c & 1 ? dz : 0.0f;
    case BN_MASK_SILU:
        return pointwise_silu_bwd(dz, z);
    case BN_MASK_RELU6:
        return pointwise_act_bwd(ACT_RELU6, dz, z);
    case BN_MASK_HARD_SWISH:
        return pointwise_act_bwd(ACT_HARD_SWISH, dz, z);
    }
    return NAN;
}

static __device__ __forceinline__ void store_means(const BnBackward b, int channel, double sum_dz,
                                                   double sum_dz_xhat)
{
    const bool used = channel < b.c && !b.constant;
    const double inv_std = (double)b.statistics[b.cp + channel];
    b.means[channel] = used ? (float)(sum_dz / b.count) : 0;
    b.means[b.cp + channel] = used ? (float)(inv_std * sum_dz_xhat / b.count) : 0;
}

/* From a channel's totals. */
static __device__ __forceinline__ void store_gradients(const BnBackward b, int channel,
                                                       double sum_dz, double sum_dz_x)
{
    bool real = channel < b.c;
    double inv_std = (double)b.statistics[b.cp + channel], sum_dz_xhat = sum_dz_x * inv_std;
    if (!b.sums) {
        store_means(b, channel, sum_dz, sum_dz_xhat);
    } else if (real) {
        b.sums[channel] = sum_dz;
        b.sums[b.c + channel] = sum_dz_xhat;
    }
    if (!real) sum_dz = sum_dz_xhat = 0;
    b.dgamma[channel] = (float)(sum_dz_xhat + (b.accumulate ? (double)b.dgamma[channel] : 0.0));
    b.dbeta[channel] = (float)(sum_dz + (b.accumulate ? (double)b.dbeta[channel] : 0.0));
}

template <typename T, BnMask MASK, bool TWO, bool POOLED = false>
static __global__ void __launch_bounds__(ROWS_THREADS, BN_BACKWARD_BLOCKS)
    bn_bwd_sums_kernel(const BnBackward b)
{
    constexpr int V = vector_channels<T>, U = backward_unroll<MASK, TWO>;
    __shared__ LaneSums<2 * V> shared;
    RowWalk w = row_walk<U>(b.grid, false);
    BackwardRows<U> rows;
    BnLane<V> lane;
    float sums[2 * V] = {};
    backward_load<MASK, TWO, false, POOLED>(&rows, b, w);
    if (w.chunks > 0) batchnorm_lane_load(&lane, b.statistics, b.gamma, b.beta, w.vector * V, b.cp);
    while (w.chunks > 0) {
#pragma unroll(POOLED ? 1 : U)
        for (int u = 0; u < U; u++) {
            const int at = POOLED ? 0 : u;
            if (!row_exists(w, u)) continue;
            if (POOLED) pooled_load<T>(&rows, b, w, u);
            float dz[V];
#pragma unroll
            for (int c = 0; c < V; c++) {
                float x = vector_get<T>(rows.x[at], c);
                dz[c] = form_dz<T, MASK, TWO>(rows, at, c, x, lane);
                sums[c] += dz[c];
                sums[V + c] = fmaf(dz[c], x - lane.mean[c], sums[V + c]);
            }
            /* With the others there is no residual (shape inference): the store is left out. */
            if ((MASK == BN_MASK_NONE || MASK == BN_MASK_FROM_Y || MASK == BN_MASK_FROM_SIGNS) &&
                b.dresidual)
                row_store(b.dresidual, w, b.grid, u, vector_narrow<T>(dz));
        }
        row_advance(&w, b.grid);
        backward_load<MASK, TWO, false, POOLED>(&rows, b, w);
    }
    row_lanes_add(&shared, sums, b.grid, w.lane);
    int channel;
    double sum_dz, sum_dz_x;
    if (batchnorm_finish<V>(b.parts, &shared, b.grid, b.cp, &channel, &sum_dz, &sum_dz_x))
        store_gradients(b, channel, sum_dz, sum_dz_x);
}

static __global__ void __launch_bounds__(CHANNEL_THREADS) bn_bwd_totals_kernel(const BnBackward b)
{
    int channel = (int)(blockIdx.x * CHANNEL_THREADS + threadIdx.x);
    if (channel >= b.cp) return;
    const bool real = channel < b.c;
    store_means(b, channel, real ? b.totals[channel] : 0, real ? b.totals[b.c + channel] : 0);
}

/* dx may be dy: every element is read before it is written, by the same thread. */
template <typename T, BnMask MASK, bool TWO, bool POOLED = false>
static __global__ void __launch_bounds__(ROWS_THREADS, LAUNCH_ROOM_FOR(BN_BACKWARD_BLOCKS))
    bn_bwd_apply_kernel(const BnBackward b)
{
    constexpr int V = vector_channels<T>, U = backward_unroll<MASK, TWO>;
    RowWalk w = row_walk<U>(b.grid, true);
    BackwardRows<U> rows;
    BnLane<V> lane;
    float mean_dz[V], slope[V];
    if (w.chunks == 0) return;
    backward_load<MASK, TWO, true, POOLED>(&rows, b, w);
    batchnorm_lane_load(&lane, b.statistics, b.gamma, b.beta, w.vector * V, b.cp);
    vector_load_values<V>(mean_dz, b.means, w.vector * V);
    vector_load_values<V>(slope, b.means + b.cp, w.vector * V);
    while (w.chunks > 0) {
#pragma unroll(POOLED ? 1 : U)
        for (int u = 0; u < U; u++) {
            const int at = POOLED ? 0 : u;
            if (!row_exists(w, u)) continue;
            if (POOLED) pooled_load<T>(&rows, b, w, u);
            float dx[V];
#pragma unroll
            for (int c = 0; c < V; c++) {
                float x = vector_get<T>(rows.x[at], c),
                      dz = form_dz<T, MASK, TWO>(rows, at, c, x, lane);
                dx[c] = batchnorm_dx(dz, x, lane.mean[c], lane.scale[c], mean_dz[c], slope[c]);
            }
            row_store(b.dx, w, b.grid, u, vector_narrow<T>(dx));
        }
        row_advance(&w, b.grid);
        backward_load<MASK, TWO, true, POOLED>(&rows, b, w);
    }
}

/* ---- launchers ---- */

typedef enum Half { SUMS, APPLY } Half;

template <typename T, Half HALF, BnMask MASK, bool TWO, bool POOLED = false>
static cudaError_t launch_one(const BnBackward *b, cudaStream_t stream)
{
    const dim3 grid = row_blocks(b->grid);
    return HALF == SUMS ? CUDA_LAUNCH((bn_bwd_sums_kernel<T, MASK, TWO, POOLED>), grid,
                                      ROWS_THREADS, stream, *b)
                        : CUDA_LAUNCH((bn_bwd_apply_kernel<T, MASK, TWO, POOLED>), grid,
                                      ROWS_THREADS, stream, *b);
}

template <typename T, Half HALF, BnMask MASK>
static cudaError_t launch_masked(const BnBackward *b, cudaStream_t stream)
{
    return b->dy2 ? launch_one<T, HALF, MASK, true>(b, stream)
                  : launch_one<T, HALF, MASK, false>(b, stream);
}

template <typename T, Half HALF>
static cudaError_t launch_half(const BnBackward *b, cudaStream_t stream)
{
    if (b->pool.index) return launch_one<T, HALF, BN_MASK_FROM_X, false, true>(b, stream);
    switch (b->mask) {
    case BN_MASK_NONE:
        return launch_masked<T, HALF, BN_MASK_NONE>(b, stream);
    case BN_MASK_FROM_X:
        return launch_masked<T, HALF, BN_MASK_FROM_X>(b, stream);
    case BN_MASK_FROM_Y:
        return launch_masked<T, HALF, BN_MASK_FROM_Y>(b, stream);
    case BN_MASK_FROM_SIGNS:
        return launch_masked<T, HALF, BN_MASK_FROM_SIGNS>(b, stream);
    case BN_MASK_SILU:
        return launch_masked<T, HALF, BN_MASK_SILU>(b, stream);
    case BN_MASK_RELU6:
        return launch_masked<T, HALF, BN_MASK_RELU6>(b, stream);
    case BN_MASK_HARD_SWISH:
        return launch_masked<T, HALF, BN_MASK_HARD_SWISH>(b, stream);
    }
    return cudaErrorInvalidValue;
}

template <typename T> static cudaError_t launch_sums(const BnBackward *b, cudaStream_t stream)
{
    return launch_half<T, SUMS>(b, stream);
}

template <typename T> static cudaError_t launch_apply(const BnBackward *b, cudaStream_t stream)
{
    BnBackward a = *b;
    if (b->dresidual && !b->pool.index) {
        a.dy = b->dresidual;
        a.dy2 = NULL;
        a.mask = BN_MASK_NONE;
    }
    return launch_half<T, APPLY>(&a, stream);
}

cudaError_t cuda_launch_batchnorm_bwd_sums(const BnBackward *b, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(b->dtype, launch_sums, b, stream);
}

cudaError_t cuda_launch_batchnorm_bwd_totals(const BnBackward *b, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_bwd_totals_kernel, launch_blocks(b->cp, CHANNEL_THREADS), CHANNEL_THREADS,
                       stream, *b);
}

cudaError_t cuda_launch_batchnorm_bwd_apply(const BnBackward *b, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(b->dtype, launch_apply, b, stream);
}
