/* cuda_runtime.h - stands for NVIDIA's header of that name in builds with EMU=1: CUDA C++ as far as
 * Convoy's .cu files speak it, for g++. Kernels are ordinary functions that emu_launch() (through
 * CUDA_LAUNCH in launch.cuh) runs on fibers; see emu.h for what that shows and what it does not.
 * Floating-point atomics are missing on purpose: no kernel may have any. */
#ifndef CONVOY_TESTS_EMU_CUDA_RUNTIME_H
#define CONVOY_TESTS_EMU_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"
#ifdef __cplusplus
#include <cstdint>
#include <cstring>
#include <functional>
#include <math.h>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__      static
#define __constant__    static
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n)    __attribute__((aligned(n)))
#define __launch_bounds__(...)
#ifndef __restrict__
#define __restrict__ __restrict
#endif

/* ---- who am I: set by the scheduler before a fiber goes on ---- */
struct EmuThread {
    uint3 index;
};
struct EmuBlock {
    uint3 index;
    dim3 block, grid;
};
extern EmuThread *emu_thread;
extern EmuBlock emu_block;
#define threadIdx (emu_thread->index)
#define blockIdx  (emu_block.index)
#define blockDim  (emu_block.block)
#define gridDim   (emu_block.grid)
constexpr int warpSize = 32;

/* ---- launch ---- */
cudaError_t emu_launch_work(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                            std::function<void()> thread);

/* Arguments are converted and copied now, as a launch does. */
template <typename... Parameters, typename... Arguments>
cudaError_t emu_launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                       cudaStream_t stream, const Arguments &...arguments)
{
    static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                  "kernel parameters are copied as bytes");
    std::tuple<std::decay_t<Parameters>...> copies(arguments...);
    return emu_launch_work(name, grid, block, stream,
                           [kernel, copies] { std::apply(kernel, copies); });
}

/* ---- barriers and shuffles ---- */
enum EmuVote { EMU_VOTE_ANY, EMU_VOTE_ALL, EMU_VOTE_COUNT };
enum EmuExchange { EMU_SYNC, EMU_SHUFFLE, EMU_BALLOT };
int emu_block_barrier(EmuVote vote, bool predicate);
/* SHUFFLE: the value of lane source; BALLOT: a bit for each lane whose value is not 0. */
uint64_t emu_warp_exchange(unsigned mask, EmuExchange exchange, uint64_t value, int source);
int emu_lane();

static inline void __syncthreads()
{
    emu_block_barrier(EMU_VOTE_ANY, false);
}
static inline int __syncthreads_or(int predicate)
{
    return emu_block_barrier(EMU_VOTE_ANY, predicate != 0);
}
static inline int __syncthreads_and(int predicate)
{
    return emu_block_barrier(EMU_VOTE_ALL, predicate != 0);
}
static inline int __syncthreads_count(int predicate)
{
    return emu_block_barrier(EMU_VOTE_COUNT, predicate != 0);
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu)
{
    emu_warp_exchange(mask, EMU_SYNC, 0, 0);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return unsigned(emu_warp_exchange(mask, EMU_BALLOT, predicate != 0, 0));
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}

/* source lies outside the lane's segment of width lanes: the lane keeps its own value */
template <typename T> T emu_shuffle(unsigned mask, T value, int source, int width)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "at most 8 bytes can be shuffled");
    int lane = emu_lane(), first = lane / width * width;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emu_warp_exchange(mask, EMU_SHUFFLE, bits,
                             source < first || source >= first + width ? lane : source);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    return emu_shuffle(mask, value, emu_lane() / width * width + (source & (width - 1)), width);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    return emu_shuffle(mask, value, emu_lane() ^ lanes, width);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return emu_shuffle(mask, value, emu_lane() + int(delta), width);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return emu_shuffle(mask, value, emu_lane() - int(delta), width);
}

/* ---- memory ---- */
static inline void __threadfence()
{
}
static inline void __threadfence_block()
{
}
template <typename T> T __ldg(const T *p)
{
    return *p;
}
template <typename T> T __ldcs(const T *p)
{
    return *p;
}
template <typename T> T __ldcg(const T *p)
{
    return *p;
}
template <typename T> T __ldca(const T *p)
{
    return *p;
}
template <typename T> void __stcs(T *p, T value)
{
    *p = value;
}
template <typename T> void __stcg(T *p, T value)
{
    *p = value;
}
template <typename T> void __stwb(T *p, T value)
{
    *p = value;
}

/* Whole numbers only: the order of their sum does not matter. */
template <typename T, typename F> T emu_atomic(T *p, F f)
{
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                      std::is_same_v<T, unsigned long long>,
                  "atomics are for tickets and flags");
    T old = *p;
    *p = f(old);
    return old;
}
template <typename T> T atomicAdd(T *p, std::common_type_t<T> v)
{
    return emu_atomic(p, [v](T old) { return old + v; });
}
template <typename T> T atomicOr(T *p, std::common_type_t<T> v)
{
    return emu_atomic(p, [v](T old) { return old | v; });
}
template <typename T> T atomicMax(T *p, std::common_type_t<T> v)
{
    return emu_atomic(p, [v](T old) { return old > v ? old : v; });
}
template <typename T> T atomicExch(T *p, std::common_type_t<T> v)
{
    return emu_atomic(p, [v](T) { return v; });
}
template <typename T> T atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
    return emu_atomic(p, [expected, v](T old) { return old == expected ? v : old; });
}
static inline unsigned atomicInc(unsigned *p, unsigned limit)
{
    return emu_atomic(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}

/* ---- numbers ---- */
#define __expf(x) expf(x) /* macros: glibc has functions of these names */
#define __logf(x) logf(x)
static inline float __int_as_float(int v)
{
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}
static inline float __uint_as_float(unsigned v)
{
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}
static inline int __float_as_int(float f)
{
    int v;
    memcpy(&v, &f, sizeof v);
    return v;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned v;
    memcpy(&v, &f, sizeof v);
    return v;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float rsqrtf(float a)
{
    return 1.0f / sqrtf(a);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
static inline int __clz(int v)
{
    return v ? __builtin_clz(unsigned(v)) : 32;
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
template <typename T> constexpr T min(T a, T b)
{
    return b < a ? b : a;
}
template <typename T> constexpr T max(T a, T b)
{
    return a < b ? b : a;
}

/* ---- vectors ---- */
static inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w)
{
    return { x, y, z, w };
}
static inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z,
                                   unsigned short w)
{
    return { x, y, z, w };
}
static inline int2 make_int2(int x, int y)
{
    return { x, y };
}
static inline int4 make_int4(int x, int y, int z, int w)
{
    return { x, y, z, w };
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return { x, y };
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return { x, y, z, w };
}
static inline float2 make_float2(float x, float y)
{
    return { x, y };
}
static inline float3 make_float3(float x, float y, float z)
{
    return { x, y, z };
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return { x, y, z, w };
}
static inline double2 make_double2(double x, double y)
{
    return { x, y };
}
#endif
#endif
