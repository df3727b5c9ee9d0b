/* drop.cu - y = x f + residual, with f from kernels/drop.h: one factor an image, or one for each
 * element.
 *
 * The step and the place of the first image are read from the device's scalars, so that a captured
 * step draws anew each time. A thread takes vectors of 16 bytes; for whole images it draws once.
 * Padding stays zero: it is multiplied. */
#include "kernels/cuda/drop.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/drop.h"

constexpr int DROP_BLOCK = 256, DROP_VECTORS = 4, DROP_MAX_IMAGES = 65535;

static __device__ __forceinline__ DropAddress address_now(DropAddress d, const float *scalars)
{
    d.step = drop_word((double)scalars[SCALAR_STEP_LOW], (double)scalars[SCALAR_STEP_HIGH]);
    d.first_place =
        drop_word((double)scalars[SCALAR_PLACE_LOW], (double)scalars[SCALAR_PLACE_HIGH]);
    return d;
}

template <typename T>
static __device__ __forceinline__ void drop_vector(const DropPass &p, int64_t at,
                                                   const float *factors)
{
    constexpr int V = vector_channels<T>;
    const uint4 raw = vector_load(static_cast<const uint4 *>(p.x) + at);
    float y[V];
#pragma unroll
    for (int c = 0; c < V; c++) y[c] = vector_get<T>(raw, c) * factors[c];
    if (p.residual) {
        const uint4 rest = vector_load(static_cast<const uint4 *>(p.residual) + at);
#pragma unroll
        for (int c = 0; c < V; c++) y[c] += vector_get<T>(rest, c);
    }
    static_cast<uint4 *>(p.y)[at] = vector_narrow<T>(y);
}

template <typename T>
static __global__ void __launch_bounds__(DROP_BLOCK)
    drop_images_kernel(const DropPass p, const DropAddress address)
{
    constexpr int V = vector_channels<T>;
    const DropAddress d = address_now(address, p.scalars);
    const int64_t vectors = p.positions * p.vectors;
    for (int64_t n = blockIdx.y; n < p.images; n += gridDim.y) {
        float drawn[4], factors[V];
        drop_factors(&d, n, 0, drawn);
#pragma unroll
        for (int c = 0; c < V; c++) factors[c] = drawn[0];
        const int64_t first = (int64_t)blockIdx.x * DROP_BLOCK * DROP_VECTORS + threadIdx.x;
#pragma unroll
        for (int k = 0; k < DROP_VECTORS; k++)
            if (first + k * DROP_BLOCK < vectors)
                drop_vector<T>(p, n * vectors + first + k * DROP_BLOCK, factors);
    }
}

/* Of elements [first, first + V) of a sequence; their draws begin in the middle of a block where
 * the channels are no multiple of 4. */
template <int V>
static __device__ __forceinline__ void draw_elements(const DropAddress &d, int64_t sequence,
                                                     int64_t first, float *factors)
{
    if (first % 4 == 0) {
#pragma unroll
        for (int b = 0; b < V / 4; b++)
            drop_factors(&d, sequence, (uint32_t)(first / 4 + b), factors + 4 * b);
        return;
    }
#pragma unroll
    for (int c = 0; c < V; c++) {
        const int word = (int)((first + c) % 4);
        float four[4];
        drop_factors(&d, sequence, (uint32_t)((first + c) / 4), four);
        factors[c] = word < 2 ? (word ? four[1] : four[0]) : (word == 3 ? four[3] : four[2]);
    }
}

template <typename T>
static __global__ void __launch_bounds__(DROP_BLOCK)
    drop_elements_kernel(const DropPass p, const DropAddress address)
{
    constexpr int V = vector_channels<T>;
    const DropAddress d = address_now(address, p.scalars);
    const int64_t i = (int64_t)blockIdx.x * DROP_BLOCK + threadIdx.x, row = i / p.vectors;
    float factors[V] = {};
    if (row >= p.images * p.positions) return;
    const int64_t sequence = p.where ? p.where[2 * row] : row / p.positions,
                  position = p.where ? p.where[2 * row + 1] : row % p.positions;
    if (sequence >= 0)
        draw_elements<V>(d, sequence, position * p.channels + i % p.vectors * V, factors);
    drop_vector<T>(p, i, factors);
}

template <typename T>
static cudaError_t launch_drop(const DropPass *p, const DropAddress *d, cudaStream_t stream)
{
    const unsigned images = (unsigned)(p->images < DROP_MAX_IMAGES ? p->images : DROP_MAX_IMAGES);
    if (p->attr.per_image)
        return CUDA_LAUNCH(
            drop_images_kernel<T>,
            dim3(launch_blocks(p->positions * p->vectors, DROP_BLOCK * DROP_VECTORS), images),
            DROP_BLOCK, stream, *p, *d);
    return CUDA_LAUNCH(drop_elements_kernel<T>,
                       launch_blocks(p->images * p->positions * p->vectors, DROP_BLOCK), DROP_BLOCK,
                       stream, *p, *d);
}

cudaError_t cuda_launch_drop(const DropPass *p, cudaStream_t stream)
{
    const DropAddress d = drop_address(&p->attr, 0, 0);
    return LAUNCH_BY_TYPE(p->dtype, launch_drop, p, &d, stream);
}
