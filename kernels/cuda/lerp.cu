/* lerp.cu - averaged copies of weights in one launch; see lerp.h. A thread takes ITEMS elements, a
 * block apart, and loads all of them before it uses the first. */
#include "kernels/cuda/lerp.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/ops/lerp.h"

namespace {

constexpr int BLOCK = 256, ITEMS = 8;

/* T: of the compute copies */
template <typename T> __global__ void __launch_bounds__(BLOCK) lerp_kernel(const LerpPass p)
{
    if (lerp_is_idle(&p.attr, p.scalars, p.loss_scale)) return;
    const bool swaps = p.attr.mode == LERP_SWAP;
    const float w = p.scalars[p.attr.weight];
    const int64_t first = (int64_t)blockIdx.x * BLOCK * ITEMS + threadIdx.x;
    float average[ITEMS], x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const int64_t i = first + k * BLOCK;
        average[k] = i < p.count ? p.average[i] : 0.0f;
        x[k] = i < p.count ? p.x[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const int64_t i = first + k * BLOCK;
        if (i >= p.count) continue;
        const float next = swaps ? x[k] : lerp_towards(average[k], x[k], w);
        const float back = swaps ? average[k] : next;
        p.average[i] = next;
        if (p.attr.mode == LERP_FOLLOW) continue;
        p.x[i] = back;
        if (p.copies) vector_store_element(static_cast<T *>(p.copies) + i, back);
    }
}

template <typename T> cudaError_t launch_lerp(const LerpPass *p, cudaStream_t stream)
{
    return CUDA_LAUNCH(lerp_kernel<T>, launch_blocks(p->count, BLOCK * ITEMS), BLOCK, stream, *p);
}

} // namespace

cudaError_t cuda_launch_lerp(const LerpPass *p, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->copy_type, launch_lerp, p, stream);
}
