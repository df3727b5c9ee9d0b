/* input.cu - images u8 N,H,W,C to normalised activations, channels padded with zeros.
 *
 * A byte has 256 values: each block computes them all once per channel, keeps them in shared memory and then goes from
 * tile to tile of about TILE_BYTES bytes. A tile is read in 16-byte words into shared memory; then neighbouring threads
 * write neighbouring vectors, so both sides of the pass move whole lines of memory. */
#include "kernels/cuda/input_math.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.cuh"

namespace {

constexpr int BLOCK = 256, TILE_BYTES = 4096, BYTE_VALUES = 256, BLOCKS_PER_SM = 8;

struct InputPass {
    InputAttr attr;
    const uint8_t *images;
    int64_t pixels;
    int c, vectors, tile_pixels; /* vectors: 16-byte vectors a pixel; a tile begins at a multiple of 16 bytes */
    bool aligned;                /* images can be read in 16-byte words */
};

__device__ __forceinline__ void fill_table(float (*value)[BYTE_VALUES], const InputPass &pass)
{
    for (int c = 0; c < pass.c; c++)
        for (int v = (int)threadIdx.x; v < BYTE_VALUES; v += BLOCK)
            value[c][v] = input_value(v, pass.attr.mean[c], pass.attr.std[c]);
}

__device__ __forceinline__ void load_tile(uint4 *tile, const InputPass &pass, int64_t first_pixel, int bytes)
{
    const uint8_t *from = pass.images + first_pixel * pass.c;
    uint8_t *to = reinterpret_cast<uint8_t *>(tile);
    int words = pass.aligned ? bytes / VECTOR_BYTES : 0;
    for (int i = (int)threadIdx.x; i < words; i += BLOCK)
        tile[i] = vector_load_last(reinterpret_cast<const uint4 *>(from) + i);
    for (int i = words * VECTOR_BYTES + (int)threadIdx.x; i < bytes; i += BLOCK) to[i] = from[i];
}

template <typename T> __global__ void __launch_bounds__(BLOCK) input_kernel(const InputPass pass, uint4 *x)
{
    __shared__ float value[OP_MAX_IMAGE_CHANNELS][BYTE_VALUES];
    __shared__ uint4 tile[TILE_BYTES / VECTOR_BYTES];
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(tile);
    fill_table(value, pass);
    for (int64_t first = (int64_t)blockIdx.x * pass.tile_pixels; first < pass.pixels;
         first += (int64_t)gridDim.x * pass.tile_pixels) {
        int pixels = pass.pixels - first < pass.tile_pixels ? (int)(pass.pixels - first) : pass.tile_pixels;
        __syncthreads(); /* the table is there, and nobody reads the last tile any more */
        load_tile(tile, pass, first, pixels * pass.c);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < pixels * pass.vectors; i += BLOCK) {
            int pixel = i / pass.vectors, c0 = i % pass.vectors * vector_channels<T>;
            float out[vector_channels<T>];
#pragma unroll
            for (int k = 0; k < vector_channels<T>; k++)
                out[k] = c0 + k < pass.c ? value[c0 + k][bytes[pixel * pass.c + c0 + k]] : 0.0f;
            x[first * pass.vectors + i] = vector_narrow<T>(out);
        }
    }
}

template <typename T> cudaError_t launch_input(InputPass pass, void *x, int cp, int sm_count, cudaStream_t stream)
{
    pass.vectors = cp / vector_channels<T>;
    unsigned blocks = cuda_blocks(pass.pixels, pass.tile_pixels);
    if (blocks > (unsigned)(sm_count * BLOCKS_PER_SM)) blocks = (unsigned)(sm_count * BLOCKS_PER_SM);
    return CUDA_LAUNCH((input_kernel<T>), blocks, BLOCK, stream, pass, static_cast<uint4 *>(x));
}

} // namespace

cudaError_t cuda_launch_input(const uint8_t *images, const InputAttr *attr, void *x, DType dtype, int64_t pixels, int c,
                              int cp, int sm_count, cudaStream_t stream)
{
    InputPass pass = {
        *attr, images, pixels, c, 0, TILE_BYTES / c / VECTOR_BYTES * VECTOR_BYTES, is_vector_aligned(images)
    };
    return LAUNCH_BY_TYPE(dtype, launch_input, pass, x, cp, sm_count, stream);
}
