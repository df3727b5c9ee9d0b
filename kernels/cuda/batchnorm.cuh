/* batchnorm.cuh - what batchnorm.cu and batchnorm_bwd.cu share on the device: a thread's channels,
 * and the adding up of what blocks left behind. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_CUH
#define CONVOY_KERNELS_CUDA_BATCHNORM_CUH
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/batchnorm_math.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/ticket.cuh"

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

/* ---- adding up what blocks found out: part p belongs to slice p % BN_SLICES; slices are added in
 * order of their parts, then pairwise, in double. Which block adds depends on timing, the order on
 * the number of parts alone. ---- */

/* The slice's two sums for each channel of the block's tile; i counts as in
 * batchnorm_partials_store(). */
template <int V>
static __device__ __forceinline__ void batchnorm_slice_add(const BnParts p, const RowGrid g, int cp,
                                                           int slice)
{
    const int channels = V << g.lanes_log2, first = (int)blockIdx.x * channels;
    const int count = g.splits * g.regions;
    for (int i = (int)threadIdx.x; i < 2 * channels; i += ROWS_THREADS) {
        const int which = i >= channels, channel = first + i - which * channels;
        const float *at = p.partials + (int64_t)which * cp + channel;
        double sum = 0;
        if (channel >= cp) continue;
#pragma unroll 4
        for (int part = slice; part < count; part += BN_SLICES)
            sum += (double)__ldcg(at + (int64_t)part * 2 * cp);
        p.slices[(slice * 2 + which) * cp + channel] = sum;
    }
}

/* Slice i of one sum of one channel; those that no block belongs to are 0. */
static __device__ __forceinline__ double batchnorm_slice(const double *slices, int64_t stride,
                                                         int count, int i)
{
    return i < count ? __ldcg(slices + i * stride) : 0;
}

/* i + (i + 16), then 8, 4, 2 and 1 apart, as a block of threads would add them; the even ones, then
 * the odd ones, so that registers suffice. */
static __device__ __forceinline__ double batchnorm_slices_total(const double *slices,
                                                                int64_t stride, int count)
{
    double total = 0;
    static_assert(BN_SLICES == 32, "five times pairwise");
#pragma unroll 1
    for (int odd = 0; odd < 2; odd++) {
        double sum[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = odd + 2 * i;
            const double a = batchnorm_slice(slices, stride, count, at),
                         b = batchnorm_slice(slices, stride, count, at + 8),
                         c = batchnorm_slice(slices, stride, count, at + 16),
                         d = batchnorm_slice(slices, stride, count, at + 24);
            sum[i] = (a + c) + (b + d);
        }
        const double half = (sum[0] + sum[2]) + (sum[1] + sum[3]);
        total = odd ? total + half : half;
    }
    return total;
}

/* A block's sums, and its share in adding up all blocks': true for one thread per channel, of the
 * last block to end of those above the channel, which has the totals. */
template <int V>
static __device__ __forceinline__ bool batchnorm_finish(const BnParts p, LaneSums<2 * V> *sums,
                                                        const RowGrid g, int cp, int *channel,
                                                        double *first, double *second)
{
    const int part = (int)(blockIdx.z * gridDim.y + blockIdx.y), slice = part % BN_SLICES;
    const int count = g.splits * g.regions, slices = count < BN_SLICES ? count : BN_SLICES;
    unsigned *tickets = p.tickets + blockIdx.x * (BN_SLICES + 1);
    batchnorm_partials_store<V>(p.partials, sums, g, cp);
    if (!ticket_is_last(&tickets[slice], (count - slice + BN_SLICES - 1) / BN_SLICES)) return false;
    batchnorm_slice_add<V>(p, g, cp, slice);
    if (!ticket_is_last(&tickets[BN_SLICES], slices)) return false;
    const int channels = V << g.lanes_log2;
    *channel = (int)blockIdx.x * channels + (int)threadIdx.x;
    *second = 0;
    if ((int)threadIdx.x >= channels || *channel >= cp) return false;
#pragma unroll 1
    for (int which = 0; which < 2; which++) {
        *first = *second;
        *second = batchnorm_slices_total(p.slices + which * cp + *channel, 2 * cp, slices);
    }
    return true;
}

/* ---- per channel, without sums ---- */

constexpr int CHANNEL_THREADS = 256;
#endif
