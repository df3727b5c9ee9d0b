/* depthwise.cu - convolution with one filter for each channel of NHWC images, and its gradient to
 * x.
 *
 * A block keeps the filters of its channels in shared memory, widened, and goes through its share
 * of all rows of all images. For each row of the window a thread loads all columns that its strip
 * needs before it uses one.
 *
 * The gradient at stride 1 is the same sum with the filters turned around. At stride 2 it GATHERS:
 * strips begin where column + padding is even, so that which tap meets which output is known at
 * compile time; only every other row of the window meets a row of dy. */
#include "kernels/cuda/depthwise.cuh"

constexpr int THREADS = DEPTHWISE_THREADS, POSITIONS = THREADS / LANES, BLOCKS = DEPTHWISE_BLOCKS;

template <typename T, int TAPS> struct Filters {
    alignas(VECTOR_BYTES) float tap[TAPS][LANES * vector_channels<T>];
};

/* w: [channels][TAPS] */
template <typename T, int TAPS>
static __device__ __forceinline__ void filters_load(Filters<T, TAPS> *to, const T *w, int first,
                                                    int channels, bool turned)
{
    constexpr int CHANNELS = LANES * vector_channels<T>;
    for (int i = (int)threadIdx.x; i < TAPS * CHANNELS; i += THREADS) {
        const int channel = i / TAPS, tap = i % TAPS;
        const bool exists = first + channel < channels;
        to->tap[turned ? TAPS - 1 - tap : tap][channel] =
            exists ? vector_load_element(w + (int64_t)(first + channel) * TAPS + tap) : 0.0f;
    }
    __syncthreads();
}

/* first: the strip's first column; what lies beside the image is left out. */
template <typename T, int STRIP>
static __device__ __forceinline__ void strip_store(void *to, const DepthwiseShape k, StripPlace t,
                                                   int vector, int first,
                                                   const float (*sum)[vector_channels<T>])
{
    uint4 *image = static_cast<uint4 *>(to) + (int64_t)t.n * k.p * k.q * k.vectors + vector;
#pragma unroll
    for (int u = 0; u < STRIP; u++) {
        const int column = first + u;
        if (column >= 0 && column < k.q)
            image[(uint32_t)(t.row * k.q + column) * (uint32_t)k.vectors] =
                vector_narrow<T>(sum[u]);
    }
}

template <typename T, int KERNEL_SIZE, int STRIDE>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    depthwise_kernel(const DepthwiseShape k, const T *w, const void *x, void *y)
{
    constexpr int V = vector_channels<T>, STRIP = DEPTHWISE_STRIP(STRIDE),
                  COLUMNS = (STRIP - 1) * STRIDE + KERNEL_SIZE;
    __shared__ Filters<T, KERNEL_SIZE * KERNEL_SIZE> filters;
    const int lane = (int)threadIdx.x % LANES, vector = (int)blockIdx.x * LANES + lane;
    /* All threads load filters and meet at its barrier before those without channels leave. */
    filters_load(&filters, w, (int)blockIdx.x * LANES * V, k.vectors * V, k.turned);
    if (vector >= k.vectors) return;
    for (int i = (int)blockIdx.y * POSITIONS + (int)threadIdx.x / LANES; i < k.places;
         i += (int)gridDim.y * POSITIONS) {
        const StripPlace t = depthwise_strip_place(k, i);
        const uint4 *image =
            static_cast<const uint4 *>(x) + (int64_t)t.n * k.h * k.w * k.vectors + vector;
        const int top = t.row * STRIDE - k.pad_h, left = t.strip * STRIP * STRIDE - k.pad_w;
        float sum[STRIP][V] = {};
#pragma unroll 1
        for (int r = 0; r < KERNEL_SIZE; r++) {
            uint4 raw[COLUMNS];
            if (top + r < 0 || top + r >= k.h) continue;
            depthwise_strip_load<COLUMNS>(raw,
                                          image + (uint32_t)((top + r) * k.w) * (uint32_t)k.vectors,
                                          left, k.w, k.vectors);
#pragma unroll
            for (int s = 0; s < KERNEL_SIZE; s++) {
                float f[V];
                vector_load_values<V>(f, filters.tap[r * KERNEL_SIZE + s], lane * V);
#pragma unroll
                for (int u = 0; u < STRIP; u++)
#pragma unroll
                    for (int c = 0; c < V; c++)
                        sum[u][c] += vector_get<T>(raw[u * STRIDE + s], c) * f[c];
            }
        }
        strip_store<T, STRIP>(y, k, t, vector, t.strip * STRIP, sum);
    }
}

/* Stride 2: from dy (h, w) to dx (p, q). */
template <typename T, int KERNEL_SIZE>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    depthwise_gather_kernel(const DepthwiseShape k, const T *w, const void *dy, void *dx)
{
    constexpr int V = vector_channels<T>, STRIP = DEPTHWISE_GATHER_STRIP,
                  BACK = (KERNEL_SIZE - 1) / 2, COLUMNS = BACK + STRIP / 2;
    __shared__ Filters<T, KERNEL_SIZE * KERNEL_SIZE> filters;
    const int lane = (int)threadIdx.x % LANES, vector = (int)blockIdx.x * LANES + lane;
    filters_load(&filters, w, (int)blockIdx.x * LANES * V, k.vectors * V, false);
    if (vector >= k.vectors) return;
    for (int i = (int)blockIdx.y * POSITIONS + (int)threadIdx.x / LANES; i < k.places;
         i += (int)gridDim.y * POSITIONS) {
        const StripPlace t = depthwise_strip_place(k, i);
        const uint4 *image =
            static_cast<const uint4 *>(dy) + (int64_t)t.n * k.h * k.w * k.vectors + vector;
        const int first = t.strip * STRIP - k.pad_w % 2, middle = (first + k.pad_w) / 2,
                  at = t.row + k.pad_h;
        float sum[STRIP][V] = {};
#pragma unroll 1
        for (int r = at % 2; r < KERNEL_SIZE && r <= at; r += 2) {
            uint4 raw[COLUMNS]; /* columns middle - BACK, ... of dy */
            const int row = (at - r) / 2;
            if (row >= k.h) continue;
            depthwise_strip_load<COLUMNS>(raw, image + (uint32_t)(row * k.w) * (uint32_t)k.vectors,
                                          middle - BACK, k.w, k.vectors);
#pragma unroll
            for (int s = 0; s < KERNEL_SIZE; s++) {
                float f[V];
                vector_load_values<V>(f, filters.tap[r * KERNEL_SIZE + s], lane * V);
                /* first + pad_w is even: tap s meets the columns u that are odd or even as it is */
#pragma unroll
                for (int u = s % 2; u < STRIP; u += 2)
#pragma unroll
                    for (int c = 0; c < V; c++)
                        sum[u][c] += vector_get<T>(raw[BACK + (u - s) / 2], c) * f[c];
            }
        }
        strip_store<T, STRIP>(dx, k, t, vector, first, sum);
    }
}

/* ---- launchers ---- */

template <typename T>
static cudaError_t launch(const DepthwiseShape *k, const void *w, const void *from, void *to,
                          cudaStream_t stream)
{
    const dim3 grid((unsigned)k->tiles, (unsigned)k->splits);
    const T *filters = static_cast<const T *>(w);
    if (k->gathers)
        return k->kernel_size == 3 ? CUDA_LAUNCH((depthwise_gather_kernel<T, 3>), grid, THREADS,
                                                 stream, *k, filters, from, to)
                                   : CUDA_LAUNCH((depthwise_gather_kernel<T, 5>), grid, THREADS,
                                                 stream, *k, filters, from, to);
    if (k->stride == 1)
        return k->kernel_size == 3 ? CUDA_LAUNCH((depthwise_kernel<T, 3, 1>), grid, THREADS, stream,
                                                 *k, filters, from, to)
                                   : CUDA_LAUNCH((depthwise_kernel<T, 5, 1>), grid, THREADS, stream,
                                                 *k, filters, from, to);
    return k->kernel_size == 3 ? CUDA_LAUNCH((depthwise_kernel<T, 3, 2>), grid, THREADS, stream, *k,
                                             filters, from, to)
                               : CUDA_LAUNCH((depthwise_kernel<T, 5, 2>), grid, THREADS, stream, *k,
                                             filters, from, to);
}

cudaError_t cuda_launch_depthwise(const DepthwiseShape *k, const void *w, const void *from,
                                  void *to, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch, k, w, from, to, stream);
}
