/* pool2d.cuh - what pool2d.cu and batchnorm_pool.cu share on the device: windows over NHWC images,
 * a thread per vector of channels and position.
 *
 * FORWARD goes through a window from its last element to the first, so that "not below" makes the
 * first of equals win, and the first NaN win over everything. BACKWARD gathers: every position of x
 * asks the few outputs whose windows it is in, in their order; nothing is added in memory.
 * Neighbours in a row are loaded together before one is used. */
#ifndef CONVOY_KERNELS_CUDA_POOL2D_CUH
#define CONVOY_KERNELS_CUDA_POOL2D_CUH
#include "kernels/blur.h"
#include "kernels/cuda/pool2d.h"
#include "kernels/cuda/vector.cuh"
#include <math.h>

constexpr int POOL_THREADS = 256, POOL_BLOCKS = 4, POOL_MAX_IMAGES = 65535;

/* Where a thread stands in an image of `width` positions a row. */
struct PoolPlace {
    int vector, row, column;
    bool exists;
};

static __device__ __forceinline__ PoolPlace pool2d_place(const Pool2dShape k, int height,
                                                         FastDiv by_width)
{
    PoolPlace t;
    uint32_t vector, column, i = blockIdx.x * POOL_THREADS + threadIdx.x;
    t.row = (int)fast_div_rest(fast_div_rest(i, k.by_vectors, &vector), by_width, &column);
    t.column = (int)column;
    t.vector = (int)vector;
    t.exists = t.row < height;
    return t;
}

/* Image n of a tensor with that many vectors per image. */
static __device__ __forceinline__ const uint4 *pool2d_image_at(const void *tensor, int n,
                                                               int vectors)
{
    return static_cast<const uint4 *>(tensor) + (int64_t)n * vectors;
}

static __device__ __forceinline__ uint4 *pool2d_image_at(void *tensor, int n, int vectors)
{
    return static_cast<uint4 *>(tensor) + (int64_t)n * vectors;
}

/* Of this thread's vector in a position of an image of `width` positions a row. */
static __device__ __forceinline__ uint32_t pool2d_place_index(const Pool2dShape k,
                                                              const PoolPlace t, int row,
                                                              int column, int width)
{
    return (uint32_t)((row * width + column) * k.vectors + t.vector);
}

/* ---- positions of a max, a byte per channel ---- */

template <typename T> struct Positions {
    uint32_t word[vector_channels<T> / 4];
};

template <typename T>
static __device__ __forceinline__ Positions<T> pool2d_positions_load(const uint8_t *from,
                                                                     int64_t vector)
{
    const uint2 v = reinterpret_cast<const uint2 *>(from)[vector];
    return Positions<T>{ { v.x, v.y } };
}

template <>
__device__ __forceinline__ Positions<float> pool2d_positions_load<float>(const uint8_t *from,
                                                                         int64_t vector)
{
    return Positions<float>{ { reinterpret_cast<const uint32_t *>(from)[vector] } };
}

template <typename T>
static __device__ __forceinline__ void pool2d_positions_store(uint8_t *to, int64_t vector,
                                                              const Positions<T> &p)
{
    reinterpret_cast<uint2 *>(to)[vector] = make_uint2(p.word[0], p.word[1]);
}

template <>
__device__ __forceinline__ void pool2d_positions_store<float>(uint8_t *to, int64_t vector,
                                                              const Positions<float> &p)
{
    reinterpret_cast<uint32_t *>(to)[vector] = p.word[0];
}

/* Padding channels have position 0. */
template <typename T>
static __device__ __forceinline__ Positions<T> pool2d_positions_pack(const int *at, int channels)
{
    Positions<T> p;
#pragma unroll
    for (int i = 0; i < vector_channels<T> / 4; i++) {
        p.word[i] = 0;
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (4 * i + c < channels) p.word[i] |= (uint32_t)at[4 * i + c] << 8 * c;
    }
    return p;
}

template <typename T>
static __device__ __forceinline__ int pool2d_positions_get(const Positions<T> &p, int c)
{
    return (int)(p.word[c / 4] >> 8 * (c % 4) & 0xffu);
}

/* ---- forward ---- */

/* The part of a window that lies inside the image: rows and columns first .. last, both of the
 * image. */
struct Window {
    int row, column; /* of window element (0,0); may lie outside */
    int first_row, last_row, first_column, last_column;
};

static __device__ __forceinline__ Window pool2d_window_at(const Pool2dShape k, const PoolPlace t)
{
    Window v;
    v.row = t.row * k.stride_h - k.pad_h;
    v.column = t.column * k.stride_w - k.pad_w;
    v.first_row = max(v.row, 0);
    v.last_row = min(v.row + k.kernel_h, k.h) - 1;
    v.first_column = max(v.column, 0);
    v.last_column = min(v.column + k.kernel_w, k.w) - 1;
    return v;
}

/* The largest of a window's elements and their places in it, by channel; read(): an element as it
 * is compared, of what lies in memory. Columns are taken in groups of three, from the right; what
 * would lie left of the window's part is its first column once more, which changes nothing. */
template <typename T, typename Read>
static __device__ __forceinline__ void pool2d_max(const Pool2dShape &k, const PoolPlace t,
                                                  const Window v, const uint4 *image, float *best,
                                                  int *at, const Read &read)
{
    constexpr int V = vector_channels<T>, GROUP = 3;
#pragma unroll
    for (int c = 0; c < V; c++) {
        best[c] = -INFINITY;
        at[c] = 0;
    }
    for (int row = v.last_row; row >= v.first_row; row--)
        for (int right = v.last_column; right >= v.first_column; right -= GROUP) {
            uint4 raw[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                raw[i] = vector_load(
                    image + pool2d_place_index(k, t, row, max(right - i, v.first_column), k.w));
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const int here =
                    (row - v.row) * k.kernel_w + max(right - i, v.first_column) - v.column;
                const uint4 element = read(raw[i]);
#pragma unroll
                for (int c = 0; c < V; c++) {
                    const float value = vector_get<T>(element, c);
                    const bool wins = value >= best[c] || value != value;
                    best[c] = wins ? value : best[c];
                    at[c] = wins ? here : at[c];
                }
            }
        }
}

/* ---- backward ---- */

/* The outputs whose windows cover position `at` of an axis, padding counted. */
struct Covering {
    int first, last;
};

static __device__ __forceinline__ Covering pool2d_covering(int at, int kernel_size,
                                                           FastDiv by_stride, int outputs)
{
    Covering k;
    k.first = at < kernel_size ? 0 : (int)fast_div((uint32_t)(at - kernel_size), by_stride) + 1;
    k.last = (int)fast_div((uint32_t)at, by_stride);
    if (k.last >= outputs) k.last = outputs - 1;
    return k;
}

/* What a sum over the window that begins at a pixel is multiplied by. */
static __device__ __forceinline__ float pool2d_share(const Pool2dShape &k, int row, int column)
{
    if (k.kind != POOL_AVG_TILES) return k.share;
    return 1.0f / (float)(min(k.kernel_h, k.h - row) * min(k.kernel_w, k.w - column));
}

/* The weight of a pixel in the window around another, in sixteenths. */
static __device__ __forceinline__ float pool2d_blur_product(const Pool2dShape k, int row,
                                                            int center_row, int column,
                                                            int center_column)
{
    const bool reflect = k.kind == POOL_BLUR_REFLECT;
    return blur_weight(row, center_row, k.h, reflect) *
           blur_weight(column, center_column, k.w, reflect);
}

/* Adds to sum, by channel, what the outputs of an image give to position t of x; first: the image's
 * first vector in dy and index. index: of a max; else NULL. GROUP outputs of a row at a time: two,
 * with the windows in use, is all there are. */
template <typename T, bool MAX, bool BLUR, int GROUP, typename Index>
static __device__ __forceinline__ void pool2d_gather(const Pool2dShape &k, const PoolPlace t,
                                                     const uint4 *dy, const uint8_t *index,
                                                     Index first, float *sum)
{
    constexpr int V = vector_channels<T>;
    const int h = t.row + k.pad_h, w = t.column + k.pad_w;
    const Covering rows = pool2d_covering(h, k.kernel_h, k.by_stride_h, k.p),
                   columns = pool2d_covering(w, k.kernel_w, k.by_stride_w, k.q);
    for (int p = rows.first; p <= rows.last; p++)
        for (int q = columns.first; q <= columns.last; q += GROUP) {
            uint4 raw[GROUP];
            Positions<T> at[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const Index from =
                    first + pool2d_place_index(k, t, p, min(q + i, columns.last), k.q);
                raw[i] = vector_load(dy + from);
                if (MAX) at[i] = pool2d_positions_load<T>(index, from);
            }
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const int here = (h - p * k.stride_h) * k.kernel_w + w - (q + i) * k.stride_w;
                const bool covers = q + i <= columns.last;
                const float weight = BLUR ? pool2d_blur_product(k, t.row, p * k.stride_h, t.column,
                                                                (q + i) * k.stride_w)
                                          : 1;
#pragma unroll
                for (int c = 0; c < V; c++)
                    if (covers && (!MAX || pool2d_positions_get<T>(at[i], c) == here))
                        sum[c] +=
                            BLUR ? weight * vector_get<T>(raw[i], c) : vector_get<T>(raw[i], c);
            }
        }
}
#endif
