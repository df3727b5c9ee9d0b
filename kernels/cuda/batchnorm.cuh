/* batchnorm.cuh - what batchnorm.cu and batchnorm_bwd.cu share on the device: a thread's channels,
 * and the adding up of what blocks left behind. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_CUH
#define CONVOY_KERNELS_CUDA_BATCHNORM_CUH
#include "kernels/cuda/batchnorm_math.h"
#include "kernels/cuda/rows.cuh"

/* The channels of a thread's vector: V of them. */
template <int V> struct BnLane {
    float mean[V], scale[V], shift[V];
};

template <int V>
static __device__ __forceinline__ void batchnorm_lane_load(BnLane<V> *lane, const float *statistics,
                                                           const float *gamma, const float *beta,
                                                           int64_t channel, int64_t cp)
{
    vector_load_values<V>(lane->mean, statistics, channel);
    vector_load_values<V>(lane->scale, statistics + cp, channel);
    vector_load_values<V>(lane->shift, gamma, channel);
#pragma unroll
    for (int i = 0; i < V; i++) lane->scale[i] = batchnorm_scale(lane->shift[i], lane->scale[i]);
    vector_load_values<V>(lane->shift, beta, channel);
}

/* Writes a block's two sums for each of its channels: sums holds V of the first, then V of the
 * second per lane. */
template <int V>
static __device__ __forceinline__ void batchnorm_partials_store(float *partials,
                                                                LaneSums<2 * V> *sums,
                                                                const RowGrid g, int cp)
{
    int part = (int)(blockIdx.z * gridDim.y + blockIdx.y), channels = V << g.lanes_log2;
    int first = (int)blockIdx.x * channels;
    for (int i = (int)threadIdx.x; i < 2 * channels; i += ROWS_THREADS) {
        int which = i >= channels, c = i - which * channels;
        if (first + c < cp)
            partials[((int64_t)part * 2 + which) * cp + first + c] =
                row_lanes_total(sums, which * V + c % V, c / V);
    }
}

/* ---- finishing: a block has 8 channels (a sector of f32) and 32 threads for each ---- */

constexpr int FINISH_CHANNELS = 8, FINISH_SLICES = 32,
              FINISH_THREADS = FINISH_CHANNELS * FINISH_SLICES;

struct FinishSums {
    double part[2][FINISH_SLICES][FINISH_CHANNELS];
};

static __device__ __forceinline__ int batchnorm_finish_channel()
{
    return (int)blockIdx.x * FINISH_CHANNELS + (int)threadIdx.x % FINISH_CHANNELS;
}

/* Adds the partials of the block's channels in double, in an order that only their number decides.
 * True for the one thread per channel that has the totals. */
static __device__ __forceinline__ bool batchnorm_finish_add(FinishSums *sums, const float *partials,
                                                            int count, int cp, double *first,
                                                            double *second)
{
    int channel = batchnorm_finish_channel(), slot = (int)threadIdx.x % FINISH_CHANNELS,
        slice = (int)threadIdx.x / FINISH_CHANNELS;
    double a = 0, b = 0;
    if (channel < cp) {
        const float *at = partials + channel;
#pragma unroll 4
        for (int part = slice; part < count; part += FINISH_SLICES) {
            a += (double)at[(int64_t)part * 2 * cp];
            b += (double)at[((int64_t)part * 2 + 1) * cp];
        }
    }
    sums->part[0][slice][slot] = a;
    sums->part[1][slice][slot] = b;
    for (int half = FINISH_SLICES / 2; half >= 1; half /= 2) {
        __syncthreads();
        if (slice < half) {
            sums->part[0][slice][slot] += sums->part[0][slice + half][slot];
            sums->part[1][slice][slot] += sums->part[1][slice + half][slot];
        }
    }
    *first = sums->part[0][0][slot];
    *second = sums->part[1][0][slot];
    return slice == 0 && channel < cp;
}
#endif
