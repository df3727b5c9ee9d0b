/* resize_kernels.c - the vertical pass for any processor; the compiler makes vectors of it. */
#include "data/augment/resize_kernels.h"

static void portable_down(const ResizeTaps *t, int k, const uint8_t *const *rows, size_t bytes,
                          uint8_t *out)
{
    enum { PIECE = 256 };
    const int32_t *weight = t->weight + (size_t)k * (size_t)t->width;
    int32_t sums[PIECE];
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        for (size_t i = 0; i < n; i++) sums[i] = RESIZE_HALF;
        for (int row = 0; row < t->length[k]; row++) {
            const uint8_t *restrict in = rows[row] + at;
            int32_t w = weight[row];
            for (size_t i = 0; i < n; i++) sums[i] += in[i] * w;
        }
        for (size_t i = 0; i < n; i++) out[at + i] = resize_clip(sums[i]);
    }
}

const ResizeKernels resize_kernels_portable = { .name = "portable", .down = portable_down };
