/* depthwise_bwd.cu - gradient of the filters of a convolution with one for each channel.
 *
 * dw[c][r][s] is a sum over all positions of all images. A warp has one row r of the window and
 * that row's KERNEL_SIZE sums for each of its channels in registers; the warps of a block that have
 * the other rows go through the same positions, so that what one reads the others find in the
 * cache. Then the warps that share a row add up what they have, each block writes its part, and a
 * second kernel adds the parts in their order. */
#include "kernels/cuda/depthwise.cuh"

constexpr int WARP = 32, WARP_STRIPS = WARP / LANES;

template <typename T, int KERNEL_SIZE> struct WarpSums {
    float part[DEPTHWISE_DEPTH(KERNEL_SIZE)][KERNEL_SIZE * KERNEL_SIZE][LANES * vector_channels<T>];
};

/* Adds up what the strips of a warp have; afterwards the threads of its first strip hold the
 * sums. */
template <int COUNT> static __device__ __forceinline__ void warp_add(float *v)
{
    for (int offset = WARP / 2; offset >= LANES; offset >>= 1)
#pragma unroll
        for (int i = 0; i < COUNT; i++) v[i] += __shfl_xor_sync(0xffffffffu, v[i], offset);
}

template <typename T, int KERNEL_SIZE, int STRIDE>
static __global__ void __launch_bounds__(DEPTHWISE_BWD_THREADS(KERNEL_SIZE),
                                         DEPTHWISE_BWD_BLOCKS(KERNEL_SIZE))
    depthwise_parts_kernel(const DepthwiseShape k, const void *x, const void *dy, float *parts)
{
    constexpr int V = vector_channels<T>, STRIP = DEPTHWISE_STRIP(STRIDE),
                  COLUMNS = (STRIP - 1) * STRIDE + KERNEL_SIZE,
                  DEPTH = DEPTHWISE_DEPTH(KERNEL_SIZE), CHANNELS = LANES * V,
                  TAPS = KERNEL_SIZE * KERNEL_SIZE;
    __shared__ WarpSums<T, KERNEL_SIZE> shared;
    const int warp = (int)threadIdx.x / WARP, r = warp % KERNEL_SIZE, depth = warp / KERNEL_SIZE,
              lane = (int)threadIdx.x % LANES, in_warp = (int)threadIdx.x % WARP / LANES,
              vector = (int)blockIdx.x * LANES + lane, places = vector < k.vectors ? k.places : 0;
    /* Threads without channels have no places but stay: shuffles and a barrier need them. */
    float sum[KERNEL_SIZE][V] = {};
    for (int i = ((int)blockIdx.y * DEPTH + depth) * WARP_STRIPS + in_warp; i < places;
         i += (int)gridDim.y * DEPTH * WARP_STRIPS) {
        const StripPlace t = depthwise_strip_place(k, i);
        const int row = t.row * STRIDE - k.pad_h + r, first = t.strip * STRIP;
        uint4 from[COLUMNS], to[STRIP];
        if (row < 0 || row >= k.h) continue;
        depthwise_strip_load<COLUMNS>(from,
                                      static_cast<const uint4 *>(x) +
                                          (int64_t)t.n * k.h * k.w * k.vectors + vector +
                                          (uint32_t)(row * k.w) * (uint32_t)k.vectors,
                                      first * STRIDE - k.pad_w, k.w, k.vectors);
        depthwise_strip_load<STRIP>(to,
                                    static_cast<const uint4 *>(dy) +
                                        (int64_t)t.n * k.p * k.q * k.vectors + vector +
                                        (uint32_t)(t.row * k.q) * (uint32_t)k.vectors,
                                    first, k.q, k.vectors);
#pragma unroll
        for (int u = 0; u < STRIP; u++) {
            float g[V];
            vector_widen<T>(to[u], g);
#pragma unroll
            for (int s = 0; s < KERNEL_SIZE; s++)
#pragma unroll
                for (int c = 0; c < V; c++)
                    sum[s][c] += vector_get<T>(from[u * STRIDE + s], c) * g[c];
        }
    }
    warp_add<KERNEL_SIZE * V>(&sum[0][0]);
    if (in_warp == 0)
#pragma unroll
        for (int s = 0; s < KERNEL_SIZE; s++)
#pragma unroll
            for (int c = 0; c < V; c++)
                shared.part[depth][r * KERNEL_SIZE + s][lane * V + c] = sum[s][c];
    __syncthreads();
    float *mine = parts + (int64_t)blockIdx.y * TAPS * k.tiles * CHANNELS;
    for (int i = (int)threadIdx.x; i < TAPS * CHANNELS; i += DEPTHWISE_BWD_THREADS(KERNEL_SIZE)) {
        const int tap = i / CHANNELS, channel = i % CHANNELS;
        float total = 0;
#pragma unroll
        for (int d = 0; d < DEPTH; d++) total += shared.part[d][tap][channel];
        mine[((int64_t)tap * k.tiles + blockIdx.x) * CHANNELS + channel] = total;
    }
}

/* ---- the sum of the parts ---- */

constexpr int SUM_THREADS = 256, SUM_SHARES = 8, SUM_CHANNELS = SUM_THREADS / SUM_SHARES;

/* parts: [splits][taps][padded]; dw: [channels][taps]. Each of a channel's SUM_SHARES threads adds
 * every SUM_SHARES-th part. */
static __global__ void __launch_bounds__(SUM_THREADS)
    depthwise_sum_kernel(const float *parts, int splits, int taps, int padded, int channels,
                         bool accumulate, float *dw)
{
    __shared__ float share[SUM_SHARES][SUM_CHANNELS];
    const int in_block = (int)threadIdx.x % SUM_CHANNELS, mine = (int)threadIdx.x / SUM_CHANNELS,
              channel = (int)blockIdx.x * SUM_CHANNELS + in_block, tap = (int)blockIdx.y;
    const bool exists = channel < channels;
    float sum = 0;
#pragma unroll 4
    for (int i = mine; i < (exists ? splits : 0); i += SUM_SHARES)
        sum += parts[((int64_t)i * taps + tap) * padded + channel];
    share[mine][in_block] = sum;
    __syncthreads();
    if (mine != 0 || !exists) return;
#pragma unroll
    for (int i = 1; i < SUM_SHARES; i++) sum += share[i][in_block];
    float *to = dw + (int64_t)channel * taps + tap;
    *to = accumulate ? *to + sum : sum;
}

/* ---- launchers ---- */

template <typename T, int KERNEL_SIZE>
static cudaError_t launch_parts(const DepthwiseShape *k, const void *x, const void *dy,
                                float *parts, cudaStream_t stream)
{
    const dim3 grid((unsigned)k->tiles, (unsigned)k->splits);
    if (k->stride == 1)
        return CUDA_LAUNCH((depthwise_parts_kernel<T, KERNEL_SIZE, 1>), grid,
                           DEPTHWISE_BWD_THREADS(KERNEL_SIZE), stream, *k, x, dy, parts);
    return CUDA_LAUNCH((depthwise_parts_kernel<T, KERNEL_SIZE, 2>), grid,
                       DEPTHWISE_BWD_THREADS(KERNEL_SIZE), stream, *k, x, dy, parts);
}

template <typename T>
static cudaError_t launch(const DepthwiseShape *k, const void *x, const void *dy, float *parts,
                          float *dw, cudaStream_t stream)
{
    const int channels = k->vectors * vector_channels<T>,
              padded = k->tiles * LANES * vector_channels<T>,
              taps = k->kernel_size * k->kernel_size;
    const cudaError_t e = k->kernel_size == 3 ? launch_parts<T, 3>(k, x, dy, parts, stream)
                                              : launch_parts<T, 5>(k, x, dy, parts, stream);
    if (e != cudaSuccess) return e;
    const dim3 grid(launch_blocks(channels, SUM_CHANNELS), (unsigned)taps);
    return CUDA_LAUNCH(depthwise_sum_kernel, grid, SUM_THREADS, stream, (const float *)parts,
                       k->splits, taps, padded, channels, k->accumulate, dw);
}

cudaError_t cuda_launch_depthwise_bwd_weights(const DepthwiseShape *k, const void *x,
                                              const void *dy, float *parts, float *dw,
                                              cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(k->dtype, launch, k, x, dy, parts, dw, stream);
}
