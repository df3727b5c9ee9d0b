/* pick.cu - single places of a canvas as rows, a vector a thread, and back: a place looks itself up
 * in the rows, which are in order, so that dx is written once. */
#include "kernels/cuda/pick.h"
#include "kernels/cuda/vector.cuh"

constexpr int PICK_THREADS = 256;

static __global__ void __launch_bounds__(PICK_THREADS)
    pick_kernel(const PickPass p, const uint4 *x, uint4 *y)
{
    const int64_t i = (int64_t)blockIdx.x * PICK_THREADS + threadIdx.x, m = i / p.vectors;
    if (m >= p.count) return;
    const int64_t place = p.rows[m];
    y[i] = place >= 0 && place < p.places ? vector_load(x + place * p.vectors + i % p.vectors)
                                          : make_uint4(0, 0, 0, 0);
}

/* The first row that names the place, or count. -1, which is behind all places, is the largest
 * number here. */
static __device__ __forceinline__ int64_t find_row(const PickPass &p, uint32_t place)
{
    int64_t first = 0, last = p.count;
    while (first < last) {
        const int64_t middle = (first + last) / 2;
        if ((uint32_t)p.rows[middle] < place) first = middle + 1;
        else last = middle;
    }
    return first < p.count && (uint32_t)p.rows[first] == place ? first : p.count;
}

template <typename T, typename DY>
static __global__ void __launch_bounds__(PICK_THREADS)
    pick_bwd_kernel(const PickPass p, const DY *dy, uint4 *dx)
{
    constexpr int V = vector_channels<T>, D = vector_channels<DY>;
    const int64_t i = (int64_t)blockIdx.x * PICK_THREADS + threadIdx.x, place = i / p.vectors;
    float out[V] = {};
    if (place >= p.places) return;
    const int64_t m = find_row(p, (uint32_t)place);
    if (m < p.count) {
        const uint4 *from = reinterpret_cast<const uint4 *>(dy + m * p.cp + i % p.vectors * V);
#pragma unroll
        for (int k = 0; k < V / D; k++) vector_widen<DY>(vector_load(from + k), out + k * D);
    }
    dx[i] = vector_narrow<T>(out);
}

/* ---- launchers ---- */

cudaError_t cuda_launch_pick(const PickPass *p, const void *x, void *y, cudaStream_t stream)
{
    return CUDA_LAUNCH(pick_kernel, launch_blocks(p->count * p->vectors, PICK_THREADS),
                       PICK_THREADS, stream, *p, static_cast<const uint4 *>(x),
                       static_cast<uint4 *>(y));
}

template <typename T>
static cudaError_t launch_bwd(const PickPass *p, const void *dy, DType dy_type, void *dx,
                              cudaStream_t stream)
{
    const unsigned blocks = launch_blocks(p->places * p->vectors, PICK_THREADS);
    if (dy_type == DTYPE_F32)
        return CUDA_LAUNCH((pick_bwd_kernel<T, float>), blocks, PICK_THREADS, stream, *p,
                           static_cast<const float *>(dy), static_cast<uint4 *>(dx));
    return CUDA_LAUNCH((pick_bwd_kernel<T, T>), blocks, PICK_THREADS, stream, *p,
                       static_cast<const T *>(dy), static_cast<uint4 *>(dx));
}

cudaError_t cuda_launch_pick_bwd(const PickPass *p, const void *dy, DType dy_type, void *dx,
                                 cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_bwd, p, dy, dy_type, dx, stream);
}
