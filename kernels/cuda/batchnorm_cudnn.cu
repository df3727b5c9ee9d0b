/* batchnorm_cudnn.cu - what cuDNN's norm graphs leave to us: the gradient behind an activation
 * after a residual, and the running statistics. A thread takes VECTORS vectors, BLOCK vectors
 * apart, and loads all of them before it uses the first; what it writes it has read before, and no
 * other thread reads it. */
#include "kernels/cuda/batchnorm_cudnn.h"
#include "kernels/cuda/batchnorm_math.h"
#include "kernels/cuda/vector.cuh"

constexpr int BLOCK = 256, VECTORS = 2;

/* ---- dz ---- */

template <typename T, bool TWO, bool MASK>
static __global__ void __launch_bounds__(BLOCK) bn_gradient_of_z_kernel(const BnGradientOfZ k)
{
    constexpr int V = vector_channels<T>;
    const int64_t first = (int64_t)blockIdx.x * BLOCK * VECTORS + threadIdx.x;
    uint4 dy[VECTORS], dy2[VECTORS], y[VECTORS];
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        const int64_t i = first + u * BLOCK;
        if (i >= k.vectors) continue;
        dy[u] = vector_load_last(static_cast<const uint4 *>(k.dy) + i);
        if (TWO) dy2[u] = vector_load_last(static_cast<const uint4 *>(k.dy2) + i);
        if (MASK) y[u] = vector_load_last(static_cast<const uint4 *>(k.y) + i);
    }
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        if (first + u * BLOCK >= k.vectors) continue;
        float dz[V];
#pragma unroll
        for (int c = 0; c < V; c++) {
            dz[c] = vector_get<T>(dy[u], c);
            if (TWO) dz[c] += vector_get<T>(dy2[u], c);
            if (MASK) dz[c] = batchnorm_relu_bwd(dz[c], vector_get<T>(y[u], c), 0.0f);
        }
        static_cast<uint4 *>(k.dz)[first + u * BLOCK] = vector_narrow<T>(dz);
    }
}

template <typename T>
static cudaError_t launch_gradient_of_z(const BnGradientOfZ *k, cudaStream_t stream)
{
    const unsigned blocks = launch_blocks(k->vectors, BLOCK * VECTORS);
    if (k->y)
        return k->dy2 ? CUDA_LAUNCH((bn_gradient_of_z_kernel<T, true, true>), blocks, BLOCK, stream,
                                    *k)
                      : CUDA_LAUNCH((bn_gradient_of_z_kernel<T, false, true>), blocks, BLOCK,
                                    stream, *k);
    return k->dy2
               ? CUDA_LAUNCH((bn_gradient_of_z_kernel<T, true, false>), blocks, BLOCK, stream, *k)
               : CUDA_LAUNCH((bn_gradient_of_z_kernel<T, false, false>), blocks, BLOCK, stream, *k);
}

cudaError_t cuda_launch_batchnorm_cudnn_gradient_of_z(const BnGradientOfZ *k, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch_gradient_of_z, k, stream);
}

/* ---- running statistics ---- */

static __global__ void __launch_bounds__(BLOCK) bn_running_kernel(const BnRunning k)
{
    const int channel = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (channel >= k.c) return;
    const double var = batchnorm_variance(k.statistics[k.cp + channel], k.eps);
    k.running_mean[channel] =
        batchnorm_running(k.running_mean[channel], (double)k.statistics[channel], k.momentum);
    k.running_var[channel] =
        batchnorm_running(k.running_var[channel], var * (k.count / (k.count - 1)), k.momentum);
}

cudaError_t cuda_launch_batchnorm_cudnn_running(const BnRunning *k, cudaStream_t stream)
{
    return CUDA_LAUNCH(bn_running_kernel, launch_blocks(k->c, BLOCK), BLOCK, stream, *k);
}
