/* tokens.cu - y[n,l] = token + positions[l] by rows of channels, and the gradients: a thread has
 * one vector of a position and goes through all images in their order, so dy is read once. */
#include "kernels/cuda/tokens.h"
#include "kernels/cuda/vector.cuh"

constexpr int TOKENS_THREADS = 128;

/* Parameters are not padded: nothing is read past C. */
static __device__ __forceinline__ float value_at(const float *row, int channel, int c)
{
    return channel < c ? row[channel] : 0.0f;
}

template <typename T>
static __global__ void __launch_bounds__(TOKENS_THREADS)
    tokens_kernel(const TokensPass p, const uint4 *x, uint4 *y)
{
    constexpr int V = vector_channels<T>;
    const int64_t i = (int64_t)blockIdx.x * TOKENS_THREADS + threadIdx.x, row = i / p.vectors,
                  n = row / p.length, l = row % p.length, extra = p.length - p.pixels;
    const int vector = (int)(i % p.vectors);
    float out[V];
    if (n >= p.n) return;
    if (l < extra) {
#pragma unroll
        for (int k = 0; k < V; k++) out[k] = value_at(p.class_token, vector * V + k, p.c);
    } else {
        vector_widen<T>(vector_load(x + (n * p.pixels + l - extra) * p.vectors + vector), out);
    }
#pragma unroll
    for (int k = 0; k < V; k++) out[k] += value_at(p.positions + l * p.c, vector * V + k, p.c);
    y[i] = vector_narrow<T>(out);
}

static __device__ __forceinline__ void store_gradient(const TokensPass &p, float *to, float value)
{
    *to = p.accumulate ? *to + value : value;
}

template <typename T>
static __global__ void __launch_bounds__(TOKENS_THREADS)
    tokens_bwd_kernel(const TokensPass p, const uint4 *dy, uint4 *dx)
{
    constexpr int V = vector_channels<T>;
    const int64_t i = (int64_t)blockIdx.x * TOKENS_THREADS + threadIdx.x, l = i / p.vectors,
                  extra = p.length - p.pixels;
    const int vector = (int)(i % p.vectors);
    float sums[V] = {};
    if (l >= p.length) return;
#pragma unroll 4
    for (int64_t n = 0; n < p.n; n++) {
        const uint4 raw = vector_load(dy + n * p.length * p.vectors + i);
        if (l >= extra) dx[(n * p.pixels + l - extra) * p.vectors + vector] = raw;
#pragma unroll
        for (int k = 0; k < V; k++) sums[k] += vector_get<T>(raw, k);
    }
#pragma unroll
    for (int k = 0; k < V; k++) {
        const int channel = vector * V + k;
        if (channel >= p.c) continue;
        store_gradient(p, p.dpositions + l * p.c + channel, sums[k]);
        if (l < extra) store_gradient(p, p.dclass + channel, sums[k]);
    }
}

template <typename T>
static cudaError_t launch_tokens(const TokensPass *p, const void *x, void *y, cudaStream_t stream)
{
    return CUDA_LAUNCH(tokens_kernel<T>,
                       launch_blocks(p->n * p->length * p->vectors, TOKENS_THREADS), TOKENS_THREADS,
                       stream, *p, static_cast<const uint4 *>(x), static_cast<uint4 *>(y));
}

template <typename T>
static cudaError_t launch_tokens_bwd(const TokensPass *p, const void *dy, void *dx,
                                     cudaStream_t stream)
{
    return CUDA_LAUNCH(tokens_bwd_kernel<T>, launch_blocks(p->length * p->vectors, TOKENS_THREADS),
                       TOKENS_THREADS, stream, *p, static_cast<const uint4 *>(dy),
                       static_cast<uint4 *>(dx));
}

cudaError_t cuda_launch_tokens(const TokensPass *p, const void *x, void *y, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_tokens, p, x, y, stream);
}

cudaError_t cuda_launch_tokens_bwd(const TokensPass *p, const void *dy, void *dx,
                                   cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_tokens_bwd, p, dy, dx, stream);
}
