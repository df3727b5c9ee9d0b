/* batchnorm_parts.cu - batch norm where convolutions have made its sums: statistics from them, and
 * the gradient of x from coefficients. What normalises in between is batchnorm.cu's. */
#include "kernels/cuda/batchnorm.cuh"
#include "kernels/cuda/batchnorm_parts.h"

constexpr int FINALIZE_THREADS = 128, COMBINE_UNROLL = 2, COMBINE_BLOCKS = 4;

/* A block stands on FINALIZE_THREADS channels. */
template <typename T>
static __global__ void __launch_bounds__(FINALIZE_THREADS) bn_finalize_kernel(const BnFinalize f)
{
    int channel = (int)(blockIdx.x * FINALIZE_THREADS + threadIdx.x);
    if (channel >= f.cp) return;
    bool real = channel < f.c;
    BnMoments m =
        batchnorm_moments(0, (double)f.sums[channel], (double)f.sums[f.cp + channel], f.count);
    float inv_std = real ? batchnorm_inv_std(m.var, f.eps) : 0,
          scale = batchnorm_scale(f.gamma[channel], inv_std);
    f.saved[channel] = real ? (float)m.mean : 0;
    f.saved[f.cp + channel] = inv_std;
    if (f.affine) {
        T *affine = static_cast<T *>(f.affine);
        vector_store_element(affine + channel, real ? scale : 0);
        vector_store_element(affine + f.cp + channel,
                             real ? batchnorm_affine(0, (float)m.mean, scale, f.beta[channel]) : 0);
    }
    if (!real) return;
    f.running_mean[channel] = batchnorm_running(f.running_mean[channel], m.mean, f.momentum);
    f.running_var[channel] =
        batchnorm_running(f.running_var[channel], m.var * (f.count / (f.count - 1)), f.momentum);
}

template <typename T>
static __global__ void __launch_bounds__(ROWS_THREADS, COMBINE_BLOCKS)
    bn_combine_kernel(const BnCombine k)
{
    constexpr int V = vector_channels<T>, U = COMBINE_UNROLL;
    RowWalk w = row_walk<U>(k.grid, true);
    uint4 dz[U], x[U];
    float a[V], b[V], c[V];
    if (w.chunks == 0) return;
    rows_load_last<U>(dz, k.dz, w, k.grid);
    rows_load_last<U>(x, k.x, w, k.grid);
    vector_load_values<V>(a, k.coefficients, w.vector * V);
    vector_load_values<V>(b, k.coefficients + k.cp, w.vector * V);
    vector_load_values<V>(c, k.coefficients + 2 * k.cp, w.vector * V);
    while (w.chunks > 0) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (!row_exists(w, u)) continue;
            float dx[V];
#pragma unroll
            for (int i = 0; i < V; i++)
                dx[i] =
                    fmaf(a[i], vector_get<T>(dz[u], i), fmaf(b[i], vector_get<T>(x[u], i), c[i]));
            row_store(k.dx, w, k.grid, u, vector_narrow<T>(dx));
        }
        row_advance(&w, k.grid);
        rows_load_last<U>(dz, k.dz, w, k.grid);
        rows_load_last<U>(x, k.x, w, k.grid);
    }
}

/* ---- launchers ---- */

template <typename T> static cudaError_t launch_finalize(const BnFinalize *f, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_finalize_kernel<T>, launch_blocks(f->cp, FINALIZE_THREADS),
                       FINALIZE_THREADS, stream, *f);
}

template <typename T> static cudaError_t launch_combine(const BnCombine *k, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_combine_kernel<T>, row_blocks(k->grid), ROWS_THREADS, stream, *k);
}

cudaError_t cuda_launch_batchnorm_parts_finalize(const BnFinalize *f, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(f->affine_type, launch_finalize, f, stream);
}

cudaError_t cuda_launch_batchnorm_parts_combine(const BnCombine *k, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_combine, k, stream);
}
