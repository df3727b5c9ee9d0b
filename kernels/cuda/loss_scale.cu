/* loss_scale.cu - the search for gradients that are not finite, and the step of the loss scale
 * itself.
 *
 * The search reads all gradients once per step: blocks of a grid that fills the device go through
 * memory as one front, VECTORS loads under way in each thread. Whoever finds something writes the
 * same 1. */
#include "kernels/cuda/loss_scale.h"
#include "kernels/cuda/loss_scale_math.h"
#include "kernels/cuda/vector.cuh"

namespace {

constexpr int BLOCK = 256, VECTORS = 4, BLOCKS_PER_SM = 8;

__device__ __forceinline__ bool vector_is_finite(uint4 v)
{
    return loss_scale_bits_are_finite(v.x) && loss_scale_bits_are_finite(v.y) &&
           loss_scale_bits_are_finite(v.z) && loss_scale_bits_are_finite(v.w);
}

/* x of 4 vectors + tail elements */
__global__ void __launch_bounds__(BLOCK)
    finite_check_kernel(const float *x, int64_t vectors, int tail, float *state)
{
    const uint4 *from = reinterpret_cast<const uint4 *>(x);
    const int64_t step = (int64_t)gridDim.x * BLOCK * VECTORS;
    bool finite = true;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK * VECTORS + threadIdx.x; first < vectors;
         first += step) {
        uint4 v[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            v[k] = uint4{ 0, 0, 0, 0 };
            if (first + k * BLOCK < vectors) v[k] = vector_load(from + first + k * BLOCK);
        }
#pragma unroll
        for (int k = 0; k < VECTORS; k++) finite = finite && vector_is_finite(v[k]);
    }
    if (blockIdx.x == 0 && (int)threadIdx.x < tail)
        finite = finite && loss_scale_bits_are_finite(float_to_bits(x[vectors * 4 + threadIdx.x]));
    if (!finite) state[LOSS_SCALE_FOUND_INF] = 1.0f;
}

__global__ void loss_scale_kernel(const LossScaleAttr attr, float *state)
{
    loss_scale_update(&attr, state);
}

} // namespace

/* x is aligned to 16 bytes. */
cudaError_t cuda_launch_loss_scale_check_finite(const float *x, int64_t count, float *state,
                                                int sm_count, cudaStream_t stream)
{
    if (!vector_is_aligned(x)) return cudaErrorInvalidValue;
    int64_t vectors = count / 4, most = (int64_t)sm_count * BLOCKS_PER_SM;
    unsigned blocks = launch_blocks(vectors, BLOCK * VECTORS);
    if (blocks > most) blocks = (unsigned)most;
    return CUDA_LAUNCH(finite_check_kernel, blocks, BLOCK, stream, x, vectors, (int)(count % 4),
                       state);
}

cudaError_t cuda_launch_loss_scale(const LossScaleAttr *attr, float *state, cudaStream_t stream)
{
    return CUDA_LAUNCH(loss_scale_kernel, 1, 1, stream, *attr, state);
}
