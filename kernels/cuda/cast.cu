/* cast.cu - flat conversions between f32, bf16 and f16: compute copies of the parameters, and
 * weight gradients from the compute type into the f32 gradient.
 *
 * A thread takes CAST_VECTORS groups of GROUP elements, BLOCK groups apart, all loaded before the
 * first is used. Arrays that are not aligned to 16 bytes, and what is left at the end, go element
 * by element. */
#include "kernels/cuda/cast.h"
#include "kernels/cuda/vector.cuh"

namespace {

/* a group: 16 bytes of a 16-bit type, two vectors of f32 */
constexpr int BLOCK = 256, CAST_VECTORS = 4, GROUP = CAST_LIST_GROUP;

struct Group {
    uint4 word[2]; /* 16-bit types use the first alone */
};

template <typename T> constexpr int group_words = GROUP / vector_channels<T>;

template <typename T>
__device__ __forceinline__ void group_load(const T *from, int64_t group, uint4 *word)
{
    const uint4 *at = reinterpret_cast<const uint4 *>(from) + group * group_words<T>;
#pragma unroll
    for (int i = 0; i < group_words<T>; i++) word[i] = vector_load_last(at + i);
}

template <typename T> __device__ __forceinline__ void group_widen(const uint4 *word, float *value)
{
#pragma unroll
    for (int i = 0; i < group_words<T>; i++)
        vector_widen<T>(word[i], value + i * vector_channels<T>);
}

template <typename T>
__device__ __forceinline__ void group_store(T *to, int64_t group, const float *value)
{
    uint4 *at = reinterpret_cast<uint4 *>(to) + group * group_words<T>;
#pragma unroll
    for (int i = 0; i < group_words<T>; i++)
        at[i] = vector_narrow<T>(value + i * vector_channels<T>);
}

template <bool ADD>
__device__ __forceinline__ void add_group(const float *to, int64_t group, float *value)
{
    if (!ADD) return;
    float old[GROUP];
    const uint4 *at = reinterpret_cast<const uint4 *>(to) + group * 2;
    vector_widen<float>(vector_load(at), old);
    vector_widen<float>(vector_load(at + 1), old + 4);
#pragma unroll
    for (int i = 0; i < GROUP; i++) value[i] += old[i];
}

/* to = from, or to += from, where to is f32: the share of one block of many. */
template <typename From, typename To, bool ADD>
__device__ __forceinline__ void cast_block(const From *from, To *to, int64_t groups, int64_t block)
{
    int64_t first = block * BLOCK * CAST_VECTORS + threadIdx.x;
    Group in[CAST_VECTORS];
#pragma unroll
    for (int k = 0; k < CAST_VECTORS; k++)
        if (first + k * BLOCK < groups) group_load(from, first + k * BLOCK, in[k].word);
#pragma unroll
    for (int k = 0; k < CAST_VECTORS; k++) {
        if (first + k * BLOCK >= groups) continue;
        float value[GROUP];
        group_widen<From>(in[k].word, value);
        add_group<ADD>(reinterpret_cast<const float *>(to), first + k * BLOCK, value);
        group_store(to, first + k * BLOCK, value);
    }
}

template <typename From, typename To, bool ADD>
__global__ void __launch_bounds__(BLOCK) cast_kernel(const From *from, To *to, int64_t groups)
{
    cast_block<From, To, ADD>(from, to, groups, blockIdx.x);
}

template <typename From, bool ADD>
__global__ void __launch_bounds__(BLOCK) cast_list_kernel(const CastList list)
{
    int k = 0;
    while (k + 1 < list.count && blockIdx.x >= list.pieces[k + 1].first_block) k++;
    cast_block<From, float, ADD>(static_cast<const From *>(list.pieces[k].from), list.pieces[k].to,
                                 list.pieces[k].groups, blockIdx.x - list.pieces[k].first_block);
}

template <typename From, typename To, bool ADD>
__global__ void __launch_bounds__(BLOCK)
    cast_elements_kernel(const From *from, To *to, int64_t count)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    float value = vector_load_element(from + i);
    if (ADD) value += vector_load_element(to + i);
    vector_store_element(to + i, value);
}

template <typename From, typename To, bool ADD>
cudaError_t launch_cast(const void *in, void *out, int64_t count, cudaStream_t stream)
{
    const From *from = static_cast<const From *>(in);
    To *to = static_cast<To *>(out);
    int64_t groups = vector_is_aligned(in) && vector_is_aligned(out) ? count / GROUP : 0,
            done = groups * GROUP;
    cudaError_t error = cudaSuccess;
    if (groups)
        error =
            CUDA_LAUNCH((cast_kernel<From, To, ADD>), launch_blocks(groups, BLOCK * CAST_VECTORS),
                        BLOCK, stream, from, to, groups);
    if (error == cudaSuccess && done < count)
        error =
            CUDA_LAUNCH((cast_elements_kernel<From, To, ADD>), launch_blocks(count - done, BLOCK),
                        BLOCK, stream, from + done, to + done, count - done);
    return error;
}

template <typename From>
cudaError_t launch_cast_to(const void *in, void *out, DType to, int64_t count, cudaStream_t stream)
{
    return to == DTYPE_F32    ? launch_cast<From, float, false>(in, out, count, stream)
           : to == DTYPE_BF16 ? launch_cast<From, Bf16, false>(in, out, count, stream)
           : to == DTYPE_F16  ? launch_cast<From, F16, false>(in, out, count, stream)
                              : cudaErrorInvalidValue;
}

template <typename From>
cudaError_t launch_cast_add(const void *in, float *out, int64_t count, cudaStream_t stream)
{
    return launch_cast<From, float, true>(in, out, count, stream);
}

template <typename From>
cudaError_t launch_cast_list(const CastList *list, bool add, cudaStream_t stream)
{
    const unsigned blocks = launch_blocks(list->blocks, 1);
    return add ? CUDA_LAUNCH((cast_list_kernel<From, true>), blocks, BLOCK, stream, *list)
               : CUDA_LAUNCH((cast_list_kernel<From, false>), blocks, BLOCK, stream, *list);
}

} // namespace

cudaError_t cuda_launch_cast(const void *in, DType from, void *out, DType to, int64_t count,
                             cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(from, launch_cast_to, in, out, to, count, stream);
}

cudaError_t cuda_launch_cast_add(const void *in, DType from, float *out, int64_t count,
                                 cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(from, launch_cast_add, in, out, count, stream);
}

void cast_list_add(CastList *list, const void *from, float *to, int64_t count)
{
    auto *piece = &list->pieces[list->count++];
    piece->from = from;
    piece->to = to;
    piece->groups = count / GROUP;
    piece->first_block = list->blocks;
    list->blocks += launch_blocks(piece->groups, BLOCK * CAST_VECTORS);
}

cudaError_t cuda_launch_cast_list(const CastList *list, DType from, bool add, cudaStream_t stream)
{
    return from == DTYPE_BF16  ? launch_cast_list<Bf16>(list, add, stream)
           : from == DTYPE_F16 ? launch_cast_list<F16>(list, add, stream)
                               : cudaErrorInvalidValue;
}
