/* linear.cu - what cuBLASLt does not do for a linear layer: flattening images in op.h's order, and
 * the gradient of the bias. */
#include "kernels/cuda/linear.h"
#include "kernels/cuda/vector.cuh"

constexpr int FLATTEN_THREADS = 256;

/* flat[n][(c*H + h)*W + w] = x[n][h][w][c]; T: a word as large as an element. One thread for one
 * element of flat, padding included. */
template <typename T>
__global__ void linear_flatten_kernel(const T *x, T *flat, LinearFlatten f, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t n = i / f.flat_cp, j = i % f.flat_cp, plane = f.h * f.w;
        const int64_t c = j / plane, pixel = j % plane;
        flat[i] = c < f.c ? x[(n * plane + pixel) * f.cp + c] : T(0);
    }
}

/* The way back: one thread for one element of x, padding included. */
template <typename T>
__global__ void linear_unflatten_kernel(const T *flat, T *x, LinearFlatten f, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t plane = f.h * f.w, row = i / f.cp, c = i % f.cp, n = row / plane,
                      pixel = row % plane;
        x[i] = c < f.c ? flat[n * f.flat_cp + c * plane + pixel] : T(0);
    }
}

template <typename T>
static cudaError_t launch_flatten(const LinearFlatten *f, const void *x, void *flat,
                                  cudaStream_t stream)
{
    const int64_t count = f->n * f->flat_cp;
    return CUDA_LAUNCH(linear_flatten_kernel<T>, launch_blocks(count, FLATTEN_THREADS),
                       FLATTEN_THREADS, stream, static_cast<const T *>(x), static_cast<T *>(flat),
                       *f, count);
}

template <typename T>
static cudaError_t launch_unflatten(const LinearFlatten *f, const void *flat, void *x,
                                    cudaStream_t stream)
{
    const int64_t count = f->n * f->h * f->w * f->cp;
    return CUDA_LAUNCH(linear_unflatten_kernel<T>, launch_blocks(count, FLATTEN_THREADS),
                       FLATTEN_THREADS, stream, static_cast<const T *>(flat), static_cast<T *>(x),
                       *f, count);
}

cudaError_t cuda_launch_linear_flatten(const LinearFlatten *f, const void *x, void *flat,
                                       cudaStream_t stream)
{
    return f->element_bytes == 2 ? launch_flatten<uint16_t>(f, x, flat, stream)
                                 : launch_flatten<uint32_t>(f, x, flat, stream);
}

cudaError_t cuda_launch_linear_unflatten(const LinearFlatten *f, const void *flat, void *x,
                                         cudaStream_t stream)
{
    return f->element_bytes == 2 ? launch_unflatten<uint16_t>(f, flat, x, stream)
                                 : launch_unflatten<uint32_t>(f, flat, x, stream);
}

/* ---- gradient of the bias ---- */

/* of a block: columns, and partial sums of each */
constexpr int BIAS_COLUMNS = 32, BIAS_LANES = 16;

/* db[k] (+)= sum over n of dy[n][k]. Lane l of a column adds rows l, l + LANES, ...; then lanes are
 * added pairwise: the order depends on n alone. */
template <typename T>
__global__ void __launch_bounds__(BIAS_COLUMNS *BIAS_LANES)
    linear_bias_gradient_kernel(const T *dy, float *db, int64_t n, int64_t kp, bool add)
{
    __shared__ float partial[BIAS_LANES][BIAS_COLUMNS];
    const int column = (int)threadIdx.x, lane = (int)threadIdx.y;
    const int64_t k = (int64_t)blockIdx.x * BIAS_COLUMNS + column;
    float sum = 0;
    if (k < kp)
        for (int64_t i = lane; i < n; i += BIAS_LANES) sum += vector_load_element(dy + i * kp + k);
    partial[lane][column] = sum;
    for (int half = BIAS_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) partial[lane][column] += partial[lane + half][column];
    }
    if (lane == 0 && k < kp) db[k] = (add ? db[k] : 0) + partial[0][column];
}

template <typename T>
static cudaError_t launch_bias_gradient(const void *dy, float *db, int64_t n, int64_t kp, bool add,
                                        cudaStream_t stream)
{
    return CUDA_LAUNCH(linear_bias_gradient_kernel<T>, launch_blocks(kp, BIAS_COLUMNS),
                       dim3(BIAS_COLUMNS, BIAS_LANES), stream, static_cast<const T *>(dy), db, n,
                       kp, add);
}

cudaError_t cuda_launch_linear_bias_gradient(const void *dy, DType dtype, float *db, int64_t n,
                                             int64_t kp, bool accumulate, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(dtype, launch_bias_gradient, dy, db, n, kp, accumulate, stream);
}
