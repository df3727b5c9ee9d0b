/* subsample.cu - every stride-th pixel, and its gradient, a vector per thread. No arithmetic:
 * vectors are moved as they are, whatever their type. */
#include "kernels/cuda/subsample.h"
#include "kernels/cuda/vector.cuh"

constexpr int SUBSAMPLE_THREADS = 256, SUBSAMPLE_MAX_IMAGES = 65535;

/* The first `bytes` bytes of v, the rest zero. */
static __device__ __forceinline__ uint4 vector_head(uint4 v, int bytes)
{
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int kept = bytes - 4 * i;
        word[i] = vector_word(v, i) & (kept >= 4   ? 0xffffffffu
                                       : kept <= 0 ? 0u
                                                   : (1u << 8 * kept) - 1);
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* x (large) -> y (small). The padding of x is zero and becomes the first of the added channels. */
static __global__ void __launch_bounds__(SUBSAMPLE_THREADS)
    subsample_kernel(const SubsampleShape k, const uint4 *x, uint4 *y)
{
    uint32_t vector, q, i = blockIdx.x * SUBSAMPLE_THREADS + threadIdx.x;
    const int p = (int)fast_div_rest(fast_div_rest(i, k.by_small_vectors, &vector), k.by_q, &q);
    if (p >= k.p) return;
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        const int64_t pixel = ((int64_t)n * k.h + p * k.stride) * k.w + (int)q * k.stride;
        uint4 v = make_uint4(0, 0, 0, 0);
        if ((int)vector < k.large_vectors) v = vector_load(x + pixel * k.large_vectors + vector);
        y[(((int64_t)n * k.p + p) * k.q + q) * k.small_vectors + vector] = v;
    }
}

/* dy (small) -> dx (large). */
static __global__ void __launch_bounds__(SUBSAMPLE_THREADS)
    subsample_bwd_kernel(const SubsampleShape k, const uint4 *dy, uint4 *dx)
{
    uint32_t vector, w, s, i = blockIdx.x * SUBSAMPLE_THREADS + threadIdx.x;
    const int h = (int)fast_div_rest(fast_div_rest(i, k.by_large_vectors, &vector), k.by_w, &w);
    if (h >= k.h) return;
    uint32_t r;
    const int p = (int)fast_div_rest((uint32_t)h, k.by_stride, &r),
              q = (int)fast_div_rest(w, k.by_stride, &s);
    for (int n = (int)blockIdx.y; n < k.n; n += (int)gridDim.y) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (r == 0 && s == 0) {
            v = vector_load(dy + (((int64_t)n * k.p + p) * k.q + q) * k.small_vectors + vector);
            v = vector_head(v, k.channel_bytes - (int)vector * VECTOR_BYTES);
        }
        dx[(((int64_t)n * k.h + h) * k.w + w) * k.large_vectors + vector] = v;
    }
}

static dim3 subsample_blocks(const SubsampleShape *k, int64_t vectors)
{
    return dim3(launch_blocks(vectors, SUBSAMPLE_THREADS),
                (unsigned)(k->n < SUBSAMPLE_MAX_IMAGES ? k->n : SUBSAMPLE_MAX_IMAGES));
}

cudaError_t cuda_launch_subsample(const SubsampleShape *k, const void *x, void *y,
                                  cudaStream_t stream)
{
    return CUDA_LAUNCH(
        subsample_kernel, subsample_blocks(k, (int64_t)k->p * k->q * k->small_vectors),
        SUBSAMPLE_THREADS, stream, *k, static_cast<const uint4 *>(x), static_cast<uint4 *>(y));
}

cudaError_t cuda_launch_subsample_bwd(const SubsampleShape *k, const void *dy, void *dx,
                                      cudaStream_t stream)
{
    return CUDA_LAUNCH(
        subsample_bwd_kernel, subsample_blocks(k, (int64_t)k->h * k->w * k->large_vectors),
        SUBSAMPLE_THREADS, stream, *k, static_cast<const uint4 *>(dy), static_cast<uint4 *>(dx));
}
