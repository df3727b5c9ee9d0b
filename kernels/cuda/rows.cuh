/* rows.cuh - the device side of rows.h: where a thread stands, how it goes through its rows, and
 * sums over a block in a fixed order.
 *
 * A kernel loads the rows of a chunk (UNROLL of them, all before the first is used, so that enough
 * reads are under way to fill the memory's latency), works on them, and goes on to the next
 * chunk. */
#ifndef CONVOY_KERNELS_CUDA_ROWS_CUH
#define CONVOY_KERNELS_CUDA_ROWS_CUH
#include "kernels/cuda/rows.h"
#include "kernels/cuda/vector.cuh"

constexpr int ROWS_WARPS = ROWS_THREADS / 32;

struct RowWalk {
    int lane;   /* which of the block's neighbouring vectors */
    int vector; /* which vector of a row */
    /* rows from this thread's first row in the chunk to the end; none: 0 or less */
    int left;
    /* rows from one of its rows to the next, and from chunk to chunk; step is negative backwards */
    int stride, step;
    uint32_t at; /* index of the vector in the first row */
    /* to go; 0 for threads that stand beside the row's end: they take part in nothing but
     * barriers */
    int chunks;
};

/* Backwards: last chunk first, so that a second pass begins where the first one ended and what it
 * left in the cache is still there. */
template <int UNROLL>
static __device__ __forceinline__ RowWalk row_walk(const RowGrid g, bool backwards)
{
    RowWalk w;
    int region = backwards ? g.regions - 1 - (int)blockIdx.z : (int)blockIdx.z;
    int first = region * g.region_rows,
        end = first + g.region_rows < g.rows ? first + g.region_rows : g.rows;
    w.lane = (int)threadIdx.x & ((1 << g.lanes_log2) - 1);
    w.vector = ((int)blockIdx.x << g.lanes_log2) + w.lane;
    w.stride = ROWS_THREADS >> g.lanes_log2;
    w.step = g.splits * w.stride * UNROLL;
    w.chunks = w.vector < g.vectors ? (g.region_rows + w.step - 1) / w.step : 0;
    int row = first + (int)blockIdx.y * w.stride * UNROLL + ((int)threadIdx.x >> g.lanes_log2);
    if (backwards) {
        row += (w.chunks - 1) * w.step;
        w.step = -w.step;
    }
    w.left = w.chunks ? end - row : 0;
    w.at = (uint32_t)row * (uint32_t)g.vectors + (uint32_t)w.vector;
    return w;
}

/* To the next chunk; behind the last one there are no rows. */
static __device__ __forceinline__ void row_advance(RowWalk *w, const RowGrid g)
{
    w->left = --w->chunks > 0 ? w->left - w->step : 0;
    w->at += (uint32_t)(w->step * g.vectors);
}

/* The u-th of this thread's rows in the chunk. */
static __device__ __forceinline__ bool row_exists(const RowWalk w, int u)
{
    return u * w.stride < w.left;
}

static __device__ __forceinline__ uint32_t row_index(const RowWalk w, const RowGrid g, int u)
{
    return w.at + (uint32_t)(u * w.stride * g.vectors);
}

template <int UNROLL>
static __device__ __forceinline__ void rows_load(uint4 *to, const void *from, const RowWalk w,
                                                 const RowGrid g)
{
    const uint4 *at = static_cast<const uint4 *>(from);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (row_exists(w, u)) to[u] = vector_load(at + row_index(w, g, u));
}

/* For the last pass over a tensor. */
template <int UNROLL>
static __device__ __forceinline__ void rows_load_last(uint4 *to, const void *from, const RowWalk w,
                                                      const RowGrid g)
{
    const uint4 *at = static_cast<const uint4 *>(from);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        if (row_exists(w, u)) to[u] = vector_load_last(at + row_index(w, g, u));
}

static __device__ __forceinline__ void row_store(void *to, const RowWalk w, const RowGrid g, int u,
                                                 uint4 v)
{
    static_cast<uint4 *>(to)[row_index(w, g, u)] = v;
}

static inline dim3 row_blocks(const RowGrid g)
{
    return dim3((unsigned)g.tiles, (unsigned)g.splits, (unsigned)g.regions);
}

/* ---- without a walk: blocks are (tiles, splits, images), a thread has one vector of rows ---- */

struct RowPlace {
    int lane, vector, first, step; /* rows first, first + step, ... */
    bool inside;                   /* the vector exists */
};

static __device__ __forceinline__ RowPlace row_place(int lanes_log2, int splits, int vectors)
{
    RowPlace p;
    const int depth = ROWS_THREADS >> lanes_log2;
    p.lane = (int)threadIdx.x & ((1 << lanes_log2) - 1);
    p.vector = ((int)blockIdx.x << lanes_log2) + p.lane;
    p.first = (int)blockIdx.y * depth + ((int)threadIdx.x >> lanes_log2);
    p.step = splits * depth;
    p.inside = p.vector < vectors;
    return p;
}

/* ---- sums of COUNT values per lane over a block ---- */

template <int COUNT> struct LaneSums {
    /* one more, so that neighbours in COUNT lie in other banks */
    float part[ROWS_WARPS][COUNT][ROWS_MAX_LANES + 1];
};

/* Overwrites v. Afterwards every thread may ask for totals. */
template <int COUNT>
static __device__ __forceinline__ void row_lanes_add(LaneSums<COUNT> *sums, float *v,
                                                     const RowGrid g, int lane)
{
    int warp = (int)threadIdx.x >> 5;
    for (int offset = 16; offset >= 1 << g.lanes_log2; offset >>= 1)
#pragma unroll
        for (int k = 0; k < COUNT; k++) v[k] += __shfl_xor_sync(0xffffffffu, v[k], offset);
    if (((int)threadIdx.x & 31) >> g.lanes_log2 == 0)
#pragma unroll
        for (int k = 0; k < COUNT; k++) sums->part[warp][k][lane] = v[k];
    __syncthreads();
}

template <int COUNT>
static __device__ __forceinline__ float row_lanes_total(const LaneSums<COUNT> *sums, int k,
                                                        int lane)
{
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < ROWS_WARPS; warp++) total += sums->part[warp][k][lane];
    return total;
}
#endif
