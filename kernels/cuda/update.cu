/* update.cu - the optimizer step over flat tensors in one launch: master weights, states and the
 * 16-bit compute copies in the same pass. See update.h.
 *
 * A block owns one chunk. Its elements are walked in groups of four by their absolute index, so
 * that whole groups are 16-byte loads whatever the segment begins with; groups that a segment cuts
 * go element by element. */
#include "kernels/cuda/update.h"
#include "kernels/cuda/update_math.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/ops/update.h"

namespace {

constexpr int GROUP = 4;

#define KEEPS_TWO(kind_, name_, states_, ...) (KIND == UPDATE_##kind_ && (states_) > 1) ||
template <UpdateKind KIND> constexpr bool TWO_STATES = UPDATE_ROWS(KEEPS_TWO) false;

struct GroupValues {
    uint4 p, g, state0, state1;
};

template <UpdateKind KIND>
__device__ __forceinline__ void step_element(UpdateElement *e, const UpdateRates *r,
                                             const UpdatePass &pass)
{
    switch (KIND) {
    case UPDATE_SGD:
        return update_sgd(e, r, pass.state0 != nullptr, pass.nesterov);
    case UPDATE_ADAM:
        return update_adam(e, r);
    case UPDATE_ADAMW:
        return update_adamw(e, r);
    case UPDATE_LARS:
    case UPDATE_LARS_MLPERF:
        return update_lars(e, r, pass.state0 != nullptr, pass.nesterov, KIND == UPDATE_LARS_MLPERF);
    case UPDATE_LAMB:
        return update_lamb(e, r);
    case UPDATE_RMSPROP_TF:
        return update_rmsprop_tf(e, r);
    case UPDATE_LION:
        return update_lion(e, r);
    case UPDATE_MUON:
        return update_muon(e, r, pass.nesterov);
    case UPDATE_KIND_COUNT:
        return;
    }
}

__device__ __forceinline__ uint4 group_load(const float *from, int64_t first)
{
    return vector_load_last(reinterpret_cast<const uint4 *>(from + first));
}

__device__ __forceinline__ void group_store(float *to, int64_t first, const float *value)
{
    *reinterpret_cast<uint4 *>(to + first) = vector_narrow<float>(value);
}

__device__ __forceinline__ void copy_group(float *, int64_t, const float *)
{
} /* f32: the master is the copy */

template <typename T>
__device__ __forceinline__ void copy_group(T *to, int64_t first, const float *value)
{
    uint2 narrow;
    narrow.x = vector_narrow_pair(T(), value[0], value[1]);
    narrow.y = vector_narrow_pair(T(), value[2], value[3]);
    *reinterpret_cast<uint2 *>(to + first) = narrow;
}

template <UpdateKind KIND>
__device__ __forceinline__ GroupValues load_group(const UpdatePass &pass, int64_t first)
{
    GroupValues v = {};
    v.p = group_load(pass.param, first);
    v.g = group_load(pass.grad, first);
    if (pass.state0) v.state0 = group_load(pass.state0, first);
    if (TWO_STATES<KIND>) v.state1 = group_load(pass.state1, first);
    return v;
}

template <UpdateKind KIND, typename T>
__device__ __forceinline__ void step_group(const UpdatePass &pass, const GroupValues &v,
                                           int64_t first, const UpdateRates *r)
{
    float p[GROUP], g[GROUP], state0[GROUP], state1[GROUP];
    vector_widen<float>(v.p, p);
    vector_widen<float>(v.g, g);
    vector_widen<float>(v.state0, state0);
    vector_widen<float>(v.state1, state1);
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        UpdateElement e = { p[i], g[i], state0[i], state1[i] };
        step_element<KIND>(&e, r, pass);
        p[i] = e.p;
        state0[i] = e.state0;
        state1[i] = e.state1;
    }
    group_store(pass.param, first, p);
    if (pass.state0) group_store(pass.state0, first, state0);
    if (TWO_STATES<KIND>) group_store(pass.state1, first, state1);
    if (pass.copies) copy_group(static_cast<T *>(pass.copies), first, p);
}

template <UpdateKind KIND, typename T>
__device__ __forceinline__ void step_one(const UpdatePass &pass, int64_t i, const UpdateRates *r)
{
    UpdateElement e = { pass.param[i], pass.grad[i], pass.state0 ? pass.state0[i] : 0.0f,
                        TWO_STATES<KIND> ? pass.state1[i] : 0.0f };
    step_element<KIND>(&e, r, pass);
    pass.param[i] = e.p;
    if (pass.state0) pass.state0[i] = e.state0;
    if (TWO_STATES<KIND>) pass.state1[i] = e.state1;
    if (pass.copies) vector_store_element(static_cast<T *>(pass.copies) + i, e.p);
}

template <UpdateKind KIND, typename T>
__global__ void __launch_bounds__(UPDATE_THREADS) update_kernel(const UpdatePass pass)
{
    __shared__ UpdateRates rates; /* one thread divides in double, not all */
    if (update_is_skipped(&pass)) return;
    const UpdateChunk chunk = pass.chunks[blockIdx.x];
    if (threadIdx.x == 0) rates = update_rates(&pass, &chunk);
    const int64_t end = chunk.first + chunk.count, base = chunk.first / UPDATE_CHUNK * UPDATE_CHUNK;
    GroupValues v[UPDATE_VECTORS];
#pragma unroll
    for (int k = 0; k < UPDATE_VECTORS; k++) {
        int64_t first = base + ((int64_t)k * UPDATE_THREADS + threadIdx.x) * GROUP;
        if (first >= chunk.first && first + GROUP <= end) v[k] = load_group<KIND>(pass, first);
    }
    __syncthreads();
    const UpdateRates r = rates;
#pragma unroll
    for (int k = 0; k < UPDATE_VECTORS; k++) {
        int64_t first = base + ((int64_t)k * UPDATE_THREADS + threadIdx.x) * GROUP;
        if (first >= chunk.first && first + GROUP <= end) {
            step_group<KIND, T>(pass, v[k], first, &r);
            continue;
        }
        for (int64_t i = first; i < first + GROUP; i++)
            if (i >= chunk.first && i < end) step_one<KIND, T>(pass, i, &r);
    }
}

template <typename T> cudaError_t launch_update(const UpdatePass *p, cudaStream_t stream)
{
    unsigned blocks = (unsigned)p->chunk_count;
#define LAUNCH_KIND(kind_, ...)                                                                    \
    case UPDATE_##kind_:                                                                           \
        return CUDA_LAUNCH((update_kernel<UPDATE_##kind_, T>), blocks, UPDATE_THREADS, stream, *p);
    switch (p->kind) {
        UPDATE_ROWS(LAUNCH_KIND)
    case UPDATE_KIND_COUNT:
        break;
    }
    return cudaErrorInvalidValue;
}

} // namespace

cudaError_t cuda_launch_update(const UpdatePass *p, cudaStream_t stream)
{
    if (p->chunk_count == 0) return cudaSuccess;
    return LAUNCH_BY_TYPE(p->copy_type, launch_update, p, stream);
}
