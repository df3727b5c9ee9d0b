/* vector.cuh - how kernels touch activations: 16 bytes at a time, widened to f32 in registers.
 *
 * A row of padded channels is a whole number of such vectors: 8 channels of a 16-bit type, 4 of
 * f32. Widening is exact; narrowing rounds to nearest even, on the device in pairs where it has an
 * instruction for that, with the bits of float_math.h (but for the payload of a NaN). */
#ifndef CONVOY_KERNELS_CUDA_VECTOR_CUH
#define CONVOY_KERNELS_CUDA_VECTOR_CUH
#include "kernels/cuda/launch.cuh"
#include "kernels/float_math.h"

/* Element types of activations; f32 is float. */
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};

constexpr int VECTOR_BYTES = 16;
template <typename T> constexpr int vector_channels = VECTOR_BYTES / (int)sizeof(T);

/* Calls launch<T>(...) with the T of dtype. */
#define LAUNCH_BY_TYPE(dtype, launch, ...)                                                         \
    ((dtype) == DTYPE_F32    ? launch<float>(__VA_ARGS__)                                          \
     : (dtype) == DTYPE_BF16 ? launch<Bf16>(__VA_ARGS__)                                           \
     : (dtype) == DTYPE_F16  ? launch<F16>(__VA_ARGS__)                                            \
                             : cudaErrorInvalidValue)

/* Whether an array can be read and written a vector at a time. */
static inline bool vector_is_aligned(const void *p)
{
    return reinterpret_cast<uintptr_t>(p) % VECTOR_BYTES == 0;
}

/* ---- memory ---- */

static __device__ __forceinline__ uint4 vector_load(const uint4 *from)
{
    return *from;
}

/* For what this kernel is the last to read for a while: leaves the cache first. */
static __device__ __forceinline__ uint4 vector_load_last(const uint4 *from)
{
#ifdef __CUDA_ARCH__
    return __ldcs(from);
#else
    return *from;
#endif
}

/* ---- 16-bit elements, two to a word, the first in its low half ---- */

static __device__ __forceinline__ float vector_widen_element(Bf16 /*type*/, uint32_t word,
                                                             bool high)
{
    return float_from_bits(high ? word & 0xffff0000u : word << 16);
}

static __device__ __forceinline__ float vector_widen_element(F16 /*type*/, uint32_t word, bool high)
{
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)(high ? word >> 16 : word)));
    return value;
#else
    return float_from_f16((uint16_t)(high ? word >> 16 : word));
#endif
}

static __device__ __forceinline__ uint32_t vector_narrow_pair(Bf16 /*type*/, float first,
                                                              float second)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return (uint32_t)float_to_bf16(first) | (uint32_t)float_to_bf16(second) << 16;
#endif
}

static __device__ __forceinline__ uint32_t vector_narrow_pair(F16 /*type*/, float first,
                                                              float second)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#elif defined(__CUDA_ARCH__)
    uint16_t low, high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
    return (uint32_t)low | (uint32_t)high << 16;
#else
    return (uint32_t)float_to_f16(first) | (uint32_t)float_to_f16(second) << 16;
#endif
}

/* ---- single elements ---- */

static __device__ __forceinline__ float vector_load_element(const float *from)
{
    return *from;
}

template <typename T> static __device__ __forceinline__ float vector_load_element(const T *from)
{
    return vector_widen_element(T(), from->bits, false);
}

static __device__ __forceinline__ void vector_store_element(float *to, float value)
{
    *to = value;
}

template <typename T>
static __device__ __forceinline__ void vector_store_element(T *to, float value)
{
    to->bits = (uint16_t)vector_narrow_pair(T(), value, 0.0f);
}

/* ---- vectors ---- */

static __device__ __forceinline__ uint32_t vector_word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Channel c of a vector; c is known at compile time where this is fast. */
template <typename T> static __device__ __forceinline__ float vector_get(const uint4 &v, int c)
{
    return vector_widen_element(T(), vector_word(v, c / 2), c % 2 != 0);
}

template <> __device__ __forceinline__ float vector_get<float>(const uint4 &v, int c)
{
    return float_from_bits(vector_word(v, c));
}

/* out: vector_channels<T> values. */
template <typename T>
static __device__ __forceinline__ void vector_widen(const uint4 &v, float *out)
{
#pragma unroll
    for (int c = 0; c < vector_channels<T>; c++) out[c] = vector_get<T>(v, c);
}

/* in: vector_channels<T> values. */
template <typename T> static __device__ __forceinline__ uint4 vector_narrow(const float *in)
{
    return make_uint4(vector_narrow_pair(T(), in[0], in[1]), vector_narrow_pair(T(), in[2], in[3]),
                      vector_narrow_pair(T(), in[4], in[5]), vector_narrow_pair(T(), in[6], in[7]));
}

template <> __device__ __forceinline__ uint4 vector_narrow<float>(const float *in)
{
    return make_uint4(float_to_bits(in[0]), float_to_bits(in[1]), float_to_bits(in[2]),
                      float_to_bits(in[3]));
}

/* Values first .. first + COUNT - 1 of f32; COUNT and first are multiples of 4. */
template <int COUNT>
static __device__ __forceinline__ void vector_load_values(float *out, const float *from,
                                                          int64_t first)
{
    const uint4 *at = reinterpret_cast<const uint4 *>(from + first);
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) vector_widen<float>(vector_load(at + i), out + 4 * i);
}
#endif
