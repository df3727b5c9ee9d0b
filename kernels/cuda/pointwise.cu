/* pointwise.cu - elementwise ops on flat arrays, 16 bytes at a time: activations with their
 * gradients, add, scale.
 *
 * A thread takes VECTORS vectors, BLOCK vectors apart, and loads all of them before it uses the
 * first. Outputs may lie over inputs: what a thread writes it has read before, and no other thread
 * reads it. What is no whole vector at the end goes element by element. */
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/pointwise_math.h"
#include "kernels/cuda/vector.cuh"
#include <type_traits>

namespace {

constexpr int BLOCK = 256, VECTORS = 4;

/* f(a, b); unary functions do not look at b, and it is not loaded for them. */
template <ActKind ACT> struct Act {
    static constexpr bool binary = false;
    __device__ __forceinline__ float operator()(float x, float) const
    {
        return pointwise_act(ACT, x);
    }
};
template <ActKind ACT> struct ActBwd {
    static constexpr bool binary = true;
    __device__ __forceinline__ float operator()(float dy, float y) const
    {
        return pointwise_act_bwd(ACT, dy, y);
    }
};
struct Add {
    static constexpr bool binary = true;
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return a + b;
    }
};
struct Scale {
    static constexpr bool binary = false;
    float factor;
    __device__ __forceinline__ float operator()(float x, float) const
    {
        return x * factor;
    }
};

template <typename T, typename F> __device__ __forceinline__ uint4 apply(F f, uint4 a, uint4 b)
{
    float x[vector_channels<T>], y[vector_channels<T>];
    vector_widen<T>(a, x);
    vector_widen<T>(b, y);
#pragma unroll
    for (int i = 0; i < vector_channels<T>; i++) x[i] = f(x[i], y[i]);
    return vector_narrow<T>(x);
}

template <typename T, typename F>
__global__ void __launch_bounds__(BLOCK)
    vectors_kernel(F f, const uint4 *a, const uint4 *b, uint4 *y, int64_t vectors)
{
    int64_t first = (int64_t)blockIdx.x * BLOCK * VECTORS + threadIdx.x;
    uint4 x[VECTORS], z[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        int64_t i = first + k * BLOCK;
        z[k] = uint4{ 0, 0, 0, 0 };
        if (i >= vectors) continue;
        x[k] = vector_load(a + i);
        if (F::binary) z[k] = vector_load(b + i);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
        if (first + k * BLOCK < vectors) y[first + k * BLOCK] = apply<T>(f, x[k], z[k]);
}

/* U: type of b */
template <typename T, typename U, typename F>
__global__ void __launch_bounds__(BLOCK)
    elements_kernel(F f, const T *a, const U *b, T *y, int64_t count)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < count)
        vector_store_element(
            y + i, f(vector_load_element(a + i), F::binary ? vector_load_element(b + i) : 0.0f));
}

struct Arrays {
    const void *a, *b;
    void *y;
    int64_t count;
};

template <typename T, typename U, typename F>
cudaError_t launch_elements(F f, const Arrays &p, int64_t first, cudaStream_t stream)
{
    if (first == p.count) return cudaSuccess;
    return CUDA_LAUNCH((elements_kernel<T, U, F>), launch_blocks(p.count - first, BLOCK), BLOCK,
                       stream, f, static_cast<const T *>(p.a) + first,
                       F::binary ? static_cast<const U *>(p.b) + first : nullptr,
                       static_cast<T *>(p.y) + first, p.count - first);
}

template <typename T, typename F>
cudaError_t launch_vectors(F f, const Arrays &p, cudaStream_t stream)
{
    bool aligned = vector_is_aligned(p.a) && vector_is_aligned(p.b) && vector_is_aligned(p.y);
    int64_t vectors = aligned ? p.count / vector_channels<T> : 0;
    cudaError_t error = cudaSuccess;
    if (vectors)
        error = CUDA_LAUNCH((vectors_kernel<T, F>), launch_blocks(vectors, BLOCK * VECTORS), BLOCK,
                            stream, f, static_cast<const uint4 *>(p.a),
                            static_cast<const uint4 *>(p.b), static_cast<uint4 *>(p.y), vectors);
    return error == cudaSuccess ? launch_elements<T, T>(f, p, vectors * vector_channels<T>, stream)
                                : error;
}

/* A second operand of another type is rare and small (rows between linear layers): element by
 * element. */
template <typename T, typename F>
cudaError_t launch(F f, const Arrays &p, DType b_type, cudaStream_t stream)
{
    if (std::is_same<T, float>::value) {
        if (b_type == DTYPE_F32) return launch_vectors<T>(f, p, stream);
        return b_type == DTYPE_BF16 ? launch_elements<T, Bf16>(f, p, 0, stream)
                                    : launch_elements<T, F16>(f, p, 0, stream);
    }
    return b_type == DTYPE_F32 ? launch_elements<T, float>(f, p, 0, stream)
                               : launch_vectors<T>(f, p, stream);
}

template <template <ActKind> class F>
cudaError_t launch_act(ActKind act, const Arrays &p, DType dtype, DType b_type, cudaStream_t stream)
{
    switch (act) {
    case ACT_RELU:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_RELU>(), p, b_type, stream);
    case ACT_SILU:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_SILU>(), p, b_type, stream);
    case ACT_GELU:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_GELU>(), p, b_type, stream);
    case ACT_GELU_TANH:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_GELU_TANH>(), p, b_type, stream);
    case ACT_RELU6:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_RELU6>(), p, b_type, stream);
    case ACT_HARD_SWISH:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_HARD_SWISH>(), p, b_type, stream);
    case ACT_TANH:
        return LAUNCH_BY_TYPE(dtype, launch, F<ACT_TANH>(), p, b_type, stream);
    case ACT_NONE:
    case ACT_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

} // namespace

cudaError_t cuda_launch_pointwise_activation(ActKind act, const void *x, void *y, DType dtype,
                                             int64_t count, cudaStream_t stream)
{
    return launch_act<Act>(act, { x, nullptr, y, count }, dtype, dtype, stream);
}

cudaError_t cuda_launch_pointwise_activation_bwd(ActKind act, const void *dy, const void *y,
                                                 void *dx, DType dtype, DType y_type, int64_t count,
                                                 cudaStream_t stream)
{
    return launch_act<ActBwd>(act, { dy, y, dx, count }, dtype, y_type, stream);
}

cudaError_t cuda_launch_pointwise_add(const void *a, const void *b, void *y, DType dtype,
                                      DType b_type, int64_t count, cudaStream_t stream)
{
    const Arrays p = { a, b, y, count };
    return LAUNCH_BY_TYPE(dtype, launch, Add(), p, b_type, stream);
}

cudaError_t cuda_launch_pointwise_scale(const void *x, float factor, void *y, DType dtype,
                                        int64_t count, cudaStream_t stream)
{
    const Arrays p = { x, nullptr, y, count };
    return LAUNCH_BY_TYPE(dtype, launch, Scale{ factor }, p, dtype, stream);
}
