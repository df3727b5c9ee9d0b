/* depthwise.cuh - where a thread of the depthwise kernels stands: on a vector of channels and a
 * strip of positions beside each other in a row, so that what it loads serves several of them.
 *
 * Neighbouring threads have the LANES vectors of the block's tile, then neighbouring strips; tiles
 * lie side by side in the grid, so that blocks that run together read whole lines of memory. */
#ifndef CONVOY_KERNELS_CUDA_DEPTHWISE_CUH
#define CONVOY_KERNELS_CUDA_DEPTHWISE_CUH
#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/vector.cuh"

constexpr int LANES = DEPTHWISE_LANES;

struct StripPlace {
    int n, row, strip;
};

static __device__ __forceinline__ StripPlace depthwise_strip_place(const DepthwiseShape k,
                                                                   int index)
{
    uint32_t row, strip;
    StripPlace t;
    t.n = (int)fast_div_rest(fast_div_rest((uint32_t)index, k.by_strips, &strip), k.by_rows, &row);
    t.row = (int)row;
    t.strip = (int)strip;
    return t;
}

/* COUNT neighbours of a row of `width` positions, this thread's vector of each; zeros beside the
 * image. */
template <int COUNT>
static __device__ __forceinline__ void depthwise_strip_load(uint4 *to, const uint4 *row, int first,
                                                            int width, int vectors)
{
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        const int column = first + j;
        to[j] = make_uint4(0, 0, 0, 0);
        if (column >= 0 && column < width)
            to[j] = vector_load(row + (uint32_t)column * (uint32_t)vectors);
    }
}
#endif
