/* input.cu - images u8 N,H,W,C to normalised activations, channels padded with zeros.
 *
 * A byte has 256 values: each block computes them all once per channel, keeps them in shared memory
 * and then goes from tile to tile of about TILE_BYTES bytes. A tile is read in 16-byte words into
 * shared memory; then neighbouring threads write neighbouring vectors, so both sides of the pass
 * move whole lines of memory.
 *
 * Images that are erased, mixed, mirrored or moved go row by row, a block a row: a pixel reads its
 * bytes, and those of the neighbour's pixel, where they lie. */
#include "kernels/cuda/input.h"
#include "kernels/cuda/input_math.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/erase_noise.h"

namespace {

constexpr int BLOCK = 256, TILE_BYTES = 4096, BYTE_VALUES = 256, BLOCKS_PER_SM = 8;
/* Blocks whose kernels still have registers enough not to spill. */
constexpr int INPUT_PER_SM = 5, AUGMENTED_PER_SM = 4;

struct InputPass {
    InputAttr attr;
    const uint8_t *images;
    int64_t pixels;
    /* vectors: 16-byte vectors a pixel; a tile begins at a multiple of 16 bytes */
    int c, vectors, tile_pixels;
    bool aligned; /* images can be read in 16-byte words */
};

__device__ __forceinline__ void fill_table(float (*value)[BYTE_VALUES], const InputPass &pass)
{
    for (int c = 0; c < pass.c; c++)
        for (int v = (int)threadIdx.x; v < BYTE_VALUES; v += BLOCK)
            value[c][v] = input_value(v, pass.attr.mean[c], pass.attr.std[c]);
}

__device__ __forceinline__ void load_tile(uint4 *tile, const InputPass &pass, int64_t first_pixel,
                                          int bytes)
{
    const uint8_t *from = pass.images + first_pixel * pass.c;
    uint8_t *to = reinterpret_cast<uint8_t *>(tile);
    int words = pass.aligned ? bytes / VECTOR_BYTES : 0;
    for (int i = (int)threadIdx.x; i < words; i += BLOCK)
        tile[i] = vector_load_last(reinterpret_cast<const uint4 *>(from) + i);
    for (int i = words * VECTOR_BYTES + (int)threadIdx.x; i < bytes; i += BLOCK) to[i] = from[i];
}

template <typename T>
__global__ void __launch_bounds__(BLOCK, LAUNCH_ROOM_FOR(INPUT_PER_SM))
    input_kernel(const InputPass pass, uint4 *x)
{
    __shared__ float value[OP_MAX_IMAGE_CHANNELS][BYTE_VALUES];
    __shared__ uint4 tile[TILE_BYTES / VECTOR_BYTES];
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(tile);
    fill_table(value, pass);
    for (int64_t first = (int64_t)blockIdx.x * pass.tile_pixels; first < pass.pixels;
         first += (int64_t)gridDim.x * pass.tile_pixels) {
        int pixels =
            pass.pixels - first < pass.tile_pixels ? (int)(pass.pixels - first) : pass.tile_pixels;
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

struct AugmentedPass {
    InputAugment images;
    int c, vectors;
};

/* What one row of an image looks up. */
struct Source {
    const uint8_t *row;
    int erased, erased_end; /* columns that are zero, or noise */
    const int32_t *box;
};

__device__ __forceinline__ Source source_of(const InputAugment &t, int c, int64_t n, int y)
{
    const int32_t *box = t.boxes + n * ERASE_COUNT;
    Source s = { t.images + (n * t.h + y) * t.w * c, 0, 0, box };
    if (!t.boxes || y < box[ERASE_TOP] || y >= box[ERASE_TOP] + box[ERASE_HEIGHT]) return s;
    s.erased = box[ERASE_LEFT];
    s.erased_end = s.erased + box[ERASE_WIDTH];
    return s;
}

/* Field by field: a choice between whole structs would put both into memory. */
__device__ __forceinline__ Source choose(bool second, const Source &a, const Source &b)
{
    return { second ? b.row : a.row, second ? b.erased : a.erased,
             second ? b.erased_end : a.erased_end, second ? b.box : a.box };
}

/* Called: its logarithm and cosine would take the registers of all. */
__device__ __attribute__((noinline)) float noise_at(const int32_t *box, EraseMode mode, int c,
                                                    int y, int x)
{
    return erase_noise_at(box, mode, c, y, x);
}

template <bool NOISE>
__device__ __forceinline__ float pick(const AugmentedPass &pass, const Source &s,
                                      const float *value, int x, int y, int c)
{
    if (x < s.erased || x >= s.erased_end) return value[s.row[x * pass.c + c]];
    return NOISE ? noise_at(s.box, pass.images.attr.erase, c, y, x) : 0.0f;
}

template <typename T, bool NOISE>
__global__ void __launch_bounds__(BLOCK, LAUNCH_ROOM_FOR(AUGMENTED_PER_SM))
    augmented_kernel(const AugmentedPass pass, uint4 *x)
{
    __shared__ float value[OP_MAX_IMAGE_CHANNELS][BYTE_VALUES];
    const InputAugment &t = pass.images;
    for (int c = 0; c < pass.c; c++)
        for (int v = (int)threadIdx.x; v < BYTE_VALUES; v += BLOCK)
            value[c][v] = input_value(v, t.attr.mean[c], t.attr.std[c]);
    __syncthreads();
    const bool mixes = t.mix != nullptr, box = mixes && t.mix[MIX_BOX] != 0.0f;
    const float lambda = mixes ? t.mix[MIX_LAMBDA] : 1.0f, rest = mixes ? t.mix[MIX_REST] : 0.0f;
    for (int64_t row = blockIdx.x; row < t.n * t.views * t.h; row += gridDim.x) {
        const int64_t image = row / t.h, n = image % t.n;
        const int view = (int)(image / t.n);
        const int y = (int)op_input_view_from(view, row - image * t.h, t.h);
        const Source own = source_of(t, pass.c, n, y);
        const Source other = source_of(t, pass.c, mixes ? op_input_neighbour(n, t.n) : n, y);
        const bool crossed = box && (float)y >= t.mix[MIX_TOP] && (float)y < t.mix[MIX_BOTTOM];
        for (int i = (int)threadIdx.x; i < t.w * pass.vectors; i += BLOCK) {
            const int column = i / pass.vectors, c0 = i % pass.vectors * vector_channels<T>;
            const int from = (int)op_input_view_from(
                view, op_input_mirrored(view) ? t.w - 1 - column : column, t.w);
            const bool swapped =
                crossed && (float)from >= t.mix[MIX_LEFT] && (float)from < t.mix[MIX_RIGHT];
            const Source first = choose(swapped, own, other);
            float out[vector_channels<T>];
#pragma unroll
            for (int k = 0; k < vector_channels<T>; k++) {
                const int c = c0 + k;
                out[k] = 0.0f;
                if (c >= pass.c) continue;
                out[k] = pick<NOISE>(pass, first, value[c], from, y, c);
                if (mixes && !box)
                    out[k] = input_mix(out[k], pick<NOISE>(pass, other, value[c], from, y, c),
                                       lambda, rest);
            }
            x[row * t.w * pass.vectors + i] = vector_narrow<T>(out);
        }
    }
}

template <typename T>
cudaError_t launch_augmented(AugmentedPass pass, void *x, int cp, int sm_count, cudaStream_t stream)
{
    const InputAugment &t = pass.images;
    pass.vectors = cp / vector_channels<T>;
    int64_t rows = t.n * t.views * t.h, most = (int64_t)sm_count * BLOCKS_PER_SM;
    unsigned blocks = (unsigned)(rows < most ? rows : most);
    if (t.boxes && t.attr.erase != ERASE_CONST)
        return CUDA_LAUNCH((augmented_kernel<T, true>), blocks, BLOCK, stream, pass,
                           static_cast<uint4 *>(x));
    return CUDA_LAUNCH((augmented_kernel<T, false>), blocks, BLOCK, stream, pass,
                       static_cast<uint4 *>(x));
}

template <typename T>
cudaError_t launch_input(InputPass pass, void *x, int cp, int sm_count, cudaStream_t stream)
{
    pass.vectors = cp / vector_channels<T>;
    unsigned blocks = launch_blocks(pass.pixels, pass.tile_pixels);
    if (blocks > (unsigned)(sm_count * BLOCKS_PER_SM))
        blocks = (unsigned)(sm_count * BLOCKS_PER_SM);
    return CUDA_LAUNCH((input_kernel<T>), blocks, BLOCK, stream, pass, static_cast<uint4 *>(x));
}

} // namespace

cudaError_t cuda_launch_input(const uint8_t *images, const InputAttr *attr, void *x, DType dtype,
                              int64_t pixels, int c, int cp, int sm_count, cudaStream_t stream)
{
    InputPass pass = { *attr,
                       images,
                       pixels,
                       c,
                       0,
                       TILE_BYTES / c / VECTOR_BYTES * VECTOR_BYTES,
                       vector_is_aligned(images) };
    return LAUNCH_BY_TYPE(dtype, launch_input, pass, x, cp, sm_count, stream);
}

cudaError_t cuda_launch_input_augmented(const InputAugment *t, void *x, DType dtype, int c, int cp,
                                        int sm_count, cudaStream_t stream)
{
    AugmentedPass pass = { *t, c, 0 };
    return LAUNCH_BY_TYPE(dtype, launch_augmented, pass, x, cp, sm_count, stream);
}
