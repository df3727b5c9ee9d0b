/* drop.cu - y = x f + residual, with f from kernels/drop.h: one factor an image, or one for each
 * element of a row.
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
    for (int64_t n = blockIdx.y; n < p.images; n += gridDim.y) {
        float drawn[4], factors[V];
        drop_factors(&d, n, 0, drawn);
#pragma unroll
        for (int c = 0; c < V; c++) factors[c] = drawn[0];
        const int64_t first = (int64_t)blockIdx.x * DROP_BLOCK * DROP_VECTORS + threadIdx.x;
#pragma unroll
        for (int k = 0; k < DROP_VECTORS; k++)
            if (first + k * DROP_BLOCK < p.vectors)
                drop_vector<T>(p, n * p.vectors + first + k * DROP_BLOCK, factors);
    }
}

/* Rows of rank 2: element c of an image lies at c. */
template <typename T>
static __global__ void __launch_bounds__(DROP_BLOCK)
    drop_elements_kernel(const DropPass p, const DropAddress address)
{
    constexpr int V = vector_channels<T>;
    const DropAddress d = address_now(address, p.scalars);
    const int64_t i = (int64_t)blockIdx.x * DROP_BLOCK + threadIdx.x, n = i / p.vectors,
                  vector = i % p.vectors;
    float factors[V];
    if (n >= p.images) return;
#pragma unroll
    for (int b = 0; b < V / 4; b++)
        drop_factors(&d, n, (uint32_t)(vector * (V / 4) + b), factors + 4 * b);
    drop_vector<T>(p, i, factors);
}

template <typename T>
static cudaError_t launch_drop(const DropPass *p, const DropAddress *d, cudaStream_t stream)
{
    const unsigned images = (unsigned)(p->images < DROP_MAX_IMAGES ? p->images : DROP_MAX_IMAGES);
    if (p->attr.per_image)
        return CUDA_LAUNCH(drop_images_kernel<T>,
                           dim3(launch_blocks(p->vectors, DROP_BLOCK * DROP_VECTORS), images),
                           DROP_BLOCK, stream, *p, *d);
    return CUDA_LAUNCH(drop_elements_kernel<T>, launch_blocks(p->images * p->vectors, DROP_BLOCK),
                       DROP_BLOCK, stream, *p, *d);
}

cudaError_t cuda_launch_drop(const DropPass *p, cudaStream_t stream)
{
    const DropAddress d = drop_address(&p->attr, 0, 0);
    return LAUNCH_BY_TYPE(p->dtype, launch_drop, p, &d, stream);
}
