/* batchnorm.cu - batch norm forward on the device: statistics, normalising.
 *
 * Statistics are sums of x - guess and of its square, where guess is the mean of four rows spread
 * over the tensor: in f32 over the rows of a thread and the threads of a block, in double over
 * blocks. Every kernel loads its first chunk before what it needs per channel, so that both are
 * under way together. */
#include "kernels/cuda/batchnorm.cuh"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/pointwise_math.h"

constexpr int STATISTICS_UNROLL = 4, GUESS_ROWS = 4;

/* ---- per channel ---- */

/* Zeros for channels of padding: by them y is zero there, as all padding must be. */
static __device__ __forceinline__ void store_statistics(const BnForward f, int channel, float mean,
                                                        double var)
{
    bool real = channel < f.c;
    f.statistics[channel] = real ? mean : 0;
    f.statistics[f.cp + channel] = real ? batchnorm_inv_std(var, f.eps) : 0;
}

static __device__ __forceinline__ void use_moments(const BnForward f, int channel, BnMoments m)
{
    store_statistics(f, channel, (float)m.mean, m.var);
    if (channel >= f.c) return;
    f.running_mean[channel] = batchnorm_running(f.running_mean[channel], m.mean, f.momentum);
    f.running_var[channel] =
        batchnorm_running(f.running_var[channel], m.var * (f.count / (f.count - 1)), f.momentum);
}

/* ---- statistics ---- */

/* Rounded to the type of x: x - guess then has no more digits than x. With digits of its own below
 * those of x, the guess would make every addition to a sum round the same way. */
template <typename T>
static __device__ __forceinline__ void guess_mean(float *guess, const void *x, const RowGrid g,
                                                  int vector)
{
    constexpr int V = vector_channels<T>;
    uint4 raw[GUESS_ROWS];
#pragma unroll
    for (int i = 0; i < GUESS_ROWS; i++) {
        int64_t row = (int64_t)g.rows * (2 * i + 1) / (2 * GUESS_ROWS);
        raw[i] = vector_load(static_cast<const uint4 *>(x) + row * g.vectors + vector);
    }
#pragma unroll
    for (int c = 0; c < V; c++) guess[c] = 0;
#pragma unroll
    for (int i = 0; i < GUESS_ROWS; i++)
#pragma unroll
        for (int c = 0; c < V; c++)
            guess[c] = fmaf(vector_get<T>(raw[i], c), 1.0f / GUESS_ROWS, guess[c]);
    vector_widen<T>(vector_narrow<T>(guess), guess);
}

template <typename T>
static __global__ void __launch_bounds__(ROWS_THREADS, BN_FORWARD_BLOCKS)
    bn_statistics_kernel(const BnForward f)
{
    constexpr int V = vector_channels<T>, U = STATISTICS_UNROLL;
    __shared__ LaneSums<2 * V> shared;
    RowWalk w = row_walk<U>(f.grid, false);
    float guess[V] = {}, sums[2 * V] = {};
    uint4 raw[U];
    rows_load<U>(raw, f.x, w, f.grid);
    if (w.chunks > 0) guess_mean<T>(guess, f.x, f.grid, w.vector);
    /* Every block guesses the same from the same rows; one writes it down for the last one. */
    if (w.chunks > 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x >> f.grid.lanes_log2 == 0)
#pragma unroll
        for (int c = 0; c < V; c++) f.guess[w.vector * V + c] = guess[c];
    while (w.chunks > 0) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (!row_exists(w, u)) continue;
#pragma unroll
            for (int c = 0; c < V; c++) {
                float d = vector_get<T>(raw[u], c) - guess[c];
                sums[c] += d;
                sums[V + c] = fmaf(d, d, sums[V + c]);
            }
        }
        row_advance(&w, f.grid);
        rows_load<U>(raw, f.x, w, f.grid);
    }
    row_lanes_add(&shared, sums, f.grid, w.lane);
    int channel;
    double sum, square;
    if (!batchnorm_finish<V>(f.parts, &shared, f.grid, f.cp, &channel, &sum, &square)) return;
    const double of_guess = (double)__ldcg(f.guess + channel);
    if (!f.sums) {
        use_moments(f, channel, batchnorm_moments(of_guess, sum, square, f.count));
    } else if (channel < f.c) {
        f.sums[channel] = f.count * of_guess + sum;
        f.sums[f.c + channel] = square + of_guess * (2 * sum + f.count * of_guess);
    }
}

/* ---- statistics from elsewhere ---- */

static __global__ void __launch_bounds__(CHANNEL_THREADS) bn_totals_kernel(const BnForward f)
{
    int channel = (int)(blockIdx.x * CHANNEL_THREADS + threadIdx.x);
    if (channel >= f.cp) return;
    const bool real = channel < f.c;
    use_moments(f, channel,
                batchnorm_moments(0, real ? f.totals[channel] : 0,
                                  real ? f.totals[f.c + channel] : 0, f.count));
}

static __global__ void __launch_bounds__(CHANNEL_THREADS) bn_constant_kernel(const BnForward f)
{
    int channel = (int)(blockIdx.x * CHANNEL_THREADS + threadIdx.x);
    if (channel < f.cp)
        store_statistics(f, channel, f.running_mean[channel], (double)f.running_var[channel]);
}

/* ---- y ---- */

/* Bit c: whether channel c of a vector is above 0, as it is stored, or no number. */
template <typename T> static __device__ __forceinline__ uint8_t signs_of(uint4 y)
{
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < vector_channels<T>; c++) bits |= vector_get<T>(y, c) <= 0.0f ? 0u : 1u << c;
    return (uint8_t)bits;
}

/* The norm of a residual, rounded as if it had been written. */
template <typename T>
static __device__ __forceinline__ uint4 norm_of(uint4 raw, const BnLane<vector_channels<T>> &by)
{
    float r[vector_channels<T>];
#pragma unroll
    for (int c = 0; c < vector_channels<T>; c++)
        r[c] = batchnorm_affine(vector_get<T>(raw, c), by.mean[c], by.scale[c], by.shift[c]);
    return vector_narrow<T>(r);
}

/* What two norms know of their channels leaves registers for a block less, a row at a time. */
template <typename T, bool ADD, ActKind ACT, bool SIGNS = false, bool NORMS = false>
static __global__ void __launch_bounds__(ROWS_THREADS,
                                         LAUNCH_ROOM_FOR(BN_FORWARD_BLOCKS - (NORMS ? 1 : 0)))
    bn_apply_kernel(const BnForward f)
{
    /* four loads under way with and without a residual */
    constexpr int V = vector_channels<T>, U = NORMS ? 1 : ADD ? 2 : 4;
    RowWalk w = row_walk<U>(f.grid, true);
    uint4 raw_x[U], raw_r[U];
    if (w.chunks == 0) return;
    rows_load_last<U>(raw_x, f.x, w, f.grid);
    if (ADD) rows_load_last<U>(raw_r, f.residual, w, f.grid);
    BnLane<V> lane;
    batchnorm_lane_load(&lane, f.statistics, f.gamma, f.beta, w.vector * V, f.cp);
    BnLane<V> side;
    if (NORMS)
        batchnorm_lane_load(&side, f.residual_statistics, f.residual_gamma, f.residual_beta,
                            w.vector * V, f.cp);
    while (w.chunks > 0) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (!row_exists(w, u)) continue;
            if (NORMS) raw_r[u] = norm_of<T>(raw_r[u], side);
            float y[V];
#pragma unroll
            for (int c = 0; c < V; c++) {
                y[c] = batchnorm_affine(vector_get<T>(raw_x[u], c), lane.mean[c], lane.scale[c],
                                        lane.shift[c]);
                if (ADD) y[c] += vector_get<T>(raw_r[u], c);
                y[c] = pointwise_act(ACT, y[c]);
            }
            const uint4 out = vector_narrow<T>(y);
            row_store(f.y, w, f.grid, u, out);
            if (SIGNS) f.signs[row_index(w, f.grid, u)] = signs_of<T>(out);
        }
        row_advance(&w, f.grid);
        rows_load_last<U>(raw_x, f.x, w, f.grid);
        if (ADD) rows_load_last<U>(raw_r, f.residual, w, f.grid);
    }
}

/* ---- launchers ---- */

template <typename T> static cudaError_t launch_statistics(const BnForward *f, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_statistics_kernel<T>, row_blocks(f->grid), ROWS_THREADS, stream, *f);
}

template <typename T, bool ADD, ActKind ACT, bool SIGNS = false, bool NORMS = false>
static cudaError_t launch_apply_of(const BnForward *f, cudaStream_t stream)
{
    return CUDA_LAUNCH((bn_apply_kernel<T, ADD, ACT, SIGNS, NORMS>), row_blocks(f->grid),
                       ROWS_THREADS, stream, *f);
}

template <typename T> static cudaError_t launch_apply(const BnForward *f, cudaStream_t stream)
{
    if (f->residual_statistics) return launch_apply_of<T, true, ACT_RELU, true, true>(f, stream);
    if (f->signs) return launch_apply_of<T, true, ACT_RELU, true>(f, stream);
    switch (f->act) {
    case ACT_NONE:
        return f->residual ? launch_apply_of<T, true, ACT_NONE>(f, stream)
                           : launch_apply_of<T, false, ACT_NONE>(f, stream);
    case ACT_RELU:
        return f->residual ? launch_apply_of<T, true, ACT_RELU>(f, stream)
                           : launch_apply_of<T, false, ACT_RELU>(f, stream);
    case ACT_SILU:
        return f->residual ? cudaErrorInvalidValue : launch_apply_of<T, false, ACT_SILU>(f, stream);
    case ACT_RELU6:
        return f->residual ? cudaErrorInvalidValue
                           : launch_apply_of<T, false, ACT_RELU6>(f, stream);
    case ACT_HARD_SWISH:
        return f->residual ? cudaErrorInvalidValue
                           : launch_apply_of<T, false, ACT_HARD_SWISH>(f, stream);
    case ACT_GELU:
    case ACT_GELU_TANH:
    case ACT_TANH:
    case ACT_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

cudaError_t cuda_launch_batchnorm_statistics(const BnForward *f, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(f->dtype, launch_statistics, f, stream);
}

cudaError_t cuda_launch_batchnorm_totals(const BnForward *f, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_totals_kernel, launch_blocks(f->cp, CHANNEL_THREADS), CHANNEL_THREADS,
                       stream, *f);
}

cudaError_t cuda_launch_batchnorm_constant(const BnForward *f, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_constant_kernel, launch_blocks(f->cp, CHANNEL_THREADS), CHANNEL_THREADS,
                       stream, *f);
}

cudaError_t cuda_launch_batchnorm_apply(const BnForward *f, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(f->dtype, launch_apply, f, stream);
}
