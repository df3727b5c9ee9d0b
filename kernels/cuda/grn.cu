/* grn.cu - y = x (1 + gamma s) + beta with s = norm / (mean of norms + eps) of a channel of an
 * image (kernels/ref/grn.c has the gradient). Three kernels: sums over the rows of an image, f32 in
 * a thread and over the block in a fixed order; of each image, in double over the blocks and
 * channels, the factors of its channels; and the result. */
#include "kernels/cuda/grn.h"
#include "kernels/cuda/rows.cuh"

constexpr int GRN_MAX_IMAGES = 65535, GRN_THREADS = 256;
constexpr int GRN_SQUARES = 0, GRN_PRODUCTS = 1, GRN_DY = 2; /* what is summed */

/* Where sum `which` of the splits of image n begins; they are cp apart. */
static __device__ __forceinline__ int64_t grn_partials_at(const GrnShape &k, int which, int n)
{
    return ((int64_t)which * k.n + n) * k.splits * k.cp;
}

template <typename T, bool BACKWARD>
static __global__ void __launch_bounds__(ROWS_THREADS)
    grn_sums_kernel(const GrnShape k, const uint4 *x, const uint4 *dy, float *partials)
{
    constexpr int V = vector_channels<T>, SUMS = BACKWARD ? GRN_SUMS : 1;
    __shared__ LaneSums<SUMS * V> shared;
    const RowPlace p = row_place(k.lanes_log2, k.splits, k.vectors);
    RowGrid grid = {};
    grid.lanes_log2 = k.lanes_log2;
    for (int n = (int)blockIdx.z; n < k.n; n += (int)gridDim.z) {
        const int64_t image = (int64_t)n * k.rows * k.vectors + p.vector;
        float sums[SUMS * V] = {};
#pragma unroll 2
        for (int row = p.first; p.inside && row < k.rows; row += p.step) {
            const int64_t at = image + (int64_t)row * k.vectors;
            const uint4 raw_x = vector_load(x + at),
                        raw_dy = BACKWARD ? vector_load(dy + at) : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int c = 0; c < V; c++) {
                const float v = vector_get<T>(raw_x, c);
                sums[GRN_SQUARES * V + c] = fmaf(v, v, sums[GRN_SQUARES * V + c]);
                if constexpr (BACKWARD) {
                    const float d = vector_get<T>(raw_dy, c);
                    sums[GRN_PRODUCTS * V + c] = fmaf(d, v, sums[GRN_PRODUCTS * V + c]);
                    sums[GRN_DY * V + c] += d;
                }
            }
        }
        row_lanes_add(&shared, sums, grid, p.lane);
        if ((int)threadIdx.x >> k.lanes_log2 == 0 && p.inside)
#pragma unroll
            for (int i = 0; i < SUMS * V; i++)
                partials[grn_partials_at(k, i / V, n) + (int64_t)blockIdx.y * k.cp + p.vector * V +
                         i % V] = row_lanes_total(&shared, i, p.lane);
        __syncthreads(); /* before the next image's sums overwrite these */
    }
}

static __device__ __forceinline__ double grn_sum(const GrnShape &k, const float *partials,
                                                 int which, int n, int c)
{
    double sum = 0;
    for (int s = 0; s < k.splits; s++)
        sum += (double)partials[grn_partials_at(k, which, n) + (int64_t)s * k.cp + c];
    return sum;
}

/* Over the block; every thread gets it. */
static __device__ __forceinline__ double grn_block_sum(double *shared, double v)
{
    shared[threadIdx.x] = v;
    __syncthreads();
    for (int half = GRN_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    const double sum = shared[0];
    __syncthreads(); /* before the next sum overwrites it */
    return sum;
}

/* A block for each image. */
template <bool BACKWARD>
static __global__ void __launch_bounds__(GRN_THREADS)
    grn_factors_kernel(const GrnShape k, const float *gamma, const float *beta,
                       const float *partials, float *factors, float *gradients)
{
    __shared__ double shared[GRN_THREADS];
    const int n = (int)blockIdx.x;
    double norms = 0, products = 0;
    for (int c = (int)threadIdx.x; c < k.c; c += GRN_THREADS) {
        const double norm = sqrt(grn_sum(k, partials, GRN_SQUARES, n, c));
        norms += norm;
        if constexpr (BACKWARD)
            products += (double)gamma[c] * grn_sum(k, partials, GRN_PRODUCTS, n, c) * norm;
    }
    const double inverse = 1 / (grn_block_sum(shared, norms) / k.c + (double)k.eps),
                 mean = BACKWARD ? grn_block_sum(shared, products) / k.c * inverse * inverse : 0;
    for (int c = (int)threadIdx.x; c < k.cp; c += GRN_THREADS) {
        float *const first = factors + (int64_t)n * GRN_FACTORS * k.cp + c;
        double second = 0, dgamma = 0, dbeta = 0;
        const bool exists = c < k.c;
        const double norm = exists ? sqrt(grn_sum(k, partials, GRN_SQUARES, n, c)) : 0,
                     weight = exists ? (double)gamma[c] : 0;
        if constexpr (BACKWARD) {
            const double d = exists ? grn_sum(k, partials, GRN_PRODUCTS, n, c) : 0;
            second = norm > 0 ? (weight * d * inverse - mean) / norm : 0;
            dgamma = norm * inverse * d;
            dbeta = exists ? grn_sum(k, partials, GRN_DY, n, c) : 0;
            gradients[(int64_t)n * k.cp + c] = (float)dgamma;
            gradients[((int64_t)k.n + n) * k.cp + c] = (float)dbeta;
        } else {
            second = exists ? (double)beta[c] : 0;
        }
        first[0] = (float)(1 + weight * norm * inverse);
        first[k.cp] = (float)second;
    }
}

/* dx may be dy: every element is read before it is written, by the same thread. */
template <typename T, bool BACKWARD>
static __global__ void __launch_bounds__(ROWS_THREADS)
    grn_apply_kernel(const GrnShape k, const uint4 *x, const uint4 *dy, const float *factors,
                     uint4 *y)
{
    constexpr int V = vector_channels<T>;
    const RowPlace p = row_place(k.lanes_log2, k.splits, k.vectors);
    if (!p.inside) return;
    for (int n = (int)blockIdx.z; n < k.n; n += (int)gridDim.z) {
        const int64_t image = (int64_t)n * k.rows * k.vectors + p.vector,
                      of = (int64_t)n * GRN_FACTORS * k.cp + p.vector * V;
        float first[V], second[V];
        vector_load_values<V>(first, factors, of);
        vector_load_values<V>(second, factors, of + k.cp);
#pragma unroll 2
        for (int row = p.first; row < k.rows; row += p.step) {
            const int64_t at = image + (int64_t)row * k.vectors;
            const uint4 raw_x = vector_load(x + at),
                        raw_dy = BACKWARD ? vector_load(dy + at) : raw_x;
            float out[V];
#pragma unroll
            for (int c = 0; c < V; c++) {
                const float v = vector_get<T>(raw_x, c);
                out[c] = BACKWARD ? fmaf(vector_get<T>(raw_dy, c), first[c], v * second[c])
                                  : fmaf(v, first[c], second[c]);
            }
            y[at] = vector_narrow<T>(out);
        }
    }
}

/* ---- launchers ---- */

struct GrnTensors {
    const void *x, *dy;
    const float *gamma, *beta;
    void *y;
};

template <typename T, bool BACKWARD>
static cudaError_t launch_grn(const GrnShape *k, const GrnTensors *t, const GrnSpace *space,
                              cudaStream_t stream)
{
    const dim3 blocks((unsigned)k->tiles, (unsigned)k->splits,
                      (unsigned)(k->n < GRN_MAX_IMAGES ? k->n : GRN_MAX_IMAGES));
    const auto x = static_cast<const uint4 *>(t->x), dy = static_cast<const uint4 *>(t->dy);
    cudaError_t error = CUDA_LAUNCH((grn_sums_kernel<T, BACKWARD>), blocks, ROWS_THREADS, stream,
                                    *k, x, dy, space->partials);
    if (error != cudaSuccess) return error;
    error = CUDA_LAUNCH(grn_factors_kernel<BACKWARD>, (unsigned)k->n, GRN_THREADS, stream, *k,
                        t->gamma, t->beta, space->partials, space->factors, space->gradients);
    if (error != cudaSuccess) return error;
    return CUDA_LAUNCH((grn_apply_kernel<T, BACKWARD>), blocks, ROWS_THREADS, stream, *k, x, dy,
                       space->factors, static_cast<uint4 *>(t->y));
}

template <typename T>
static cudaError_t launch_forward(const GrnShape *k, const GrnTensors *t, const GrnSpace *space,
                                  cudaStream_t stream)
{
    return launch_grn<T, false>(k, t, space, stream);
}

template <typename T>
static cudaError_t launch_backward(const GrnShape *k, const GrnTensors *t, const GrnSpace *space,
                                   cudaStream_t stream)
{
    return launch_grn<T, true>(k, t, space, stream);
}

cudaError_t cuda_launch_grn(const GrnShape *k, const void *x, const float *gamma, const float *beta,
                            void *y, const GrnSpace *space, cudaStream_t stream)
{
    const GrnTensors t = { x, nullptr, gamma, beta, y };
    return LAUNCH_BY_TYPE(k->dtype, launch_forward, k, &t, space, stream);
}

cudaError_t cuda_launch_grn_bwd(const GrnShape *k, const void *dy, const void *x,
                                const float *gamma, void *dx, const GrnSpace *space,
                                cudaStream_t stream)
{
    const GrnTensors t = { x, dy, gamma, nullptr, dx };
    return LAUNCH_BY_TYPE(k->dtype, launch_backward, k, &t, space, stream);
}
