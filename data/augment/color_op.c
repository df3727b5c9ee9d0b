/* color_op.c - ops on bytes where they are: blends with black, grey, the mean and a smoothed
 * picture; bit masks.
 *
 * The four blends are Pillow's ImageEnhance: a + factor (v - a) in float32, clipped to 0..255,
 * rounded towards zero, where a comes from a picture without what is enhanced. The smoothed one is
 * the 3x3 mean with the middle counted five times, rounded; s/13 + 1/2 is never whole for a whole
 * s, so integers give Pillow's float result whatever the order of its sum. Its border is that of
 * the picture itself and thus stays. */
#include "data/augment/color_op.h"
#include "data/augment/image_op_avx2.h"
#include "data/decode/image.h"

static inline uint8_t blend(int a, int v, float factor)
{
    float x = (float)a + factor * (float)(v - a);
    x = x < 0.0f ? 0.0f : x;
    x = x > 255.0f ? 255.0f : x;
    return (uint8_t)(int32_t)x;
}

static void blend_with_constant(uint8_t *v, size_t bytes, int a, float factor, bool wide)
{
    size_t i = wide ? image_op_avx2_blend_constant(v, bytes, a, factor) : 0;
    for (; i < bytes; i++) v[i] = blend(a, v[i], factor);
}

void color_op_brightness(const Picture *p, double factor, bool wide)
{
    blend_with_constant(p->pixels, picture_bytes(p), 0, (float)factor, wide);
}

static void blend_with_luma(uint8_t *v, size_t pixels, float factor, bool wide)
{
    size_t i = wide ? image_op_avx2_blend_luma(v, pixels, factor) : 0;
    for (; i < pixels; i++) {
        int r = v[3 * i], g = v[3 * i + 1], b = v[3 * i + 2];
        int luma = (19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16;
        v[3 * i] = blend(luma, r, factor);
        v[3 * i + 1] = blend(luma, g, factor);
        v[3 * i + 2] = blend(luma, b, factor);
    }
}

void color_op_saturation(const Picture *p, double factor, bool wide)
{
    if (p->channels == 3) blend_with_luma(p->pixels, picture_bytes(p) / 3, (float)factor, wide);
}

static uint64_t sum_of_luma(const uint8_t *v, size_t pixels, bool wide)
{
    uint64_t sum = 0;
    size_t i = wide ? image_op_avx2_sum_luma(v, pixels, &sum) : 0;
    for (; i < pixels; i++) sum += image_luma(v[3 * i], v[3 * i + 1], v[3 * i + 2]);
    return sum;
}

IMAGE_OP_CLONES static uint64_t sum_of_bytes(const uint8_t *restrict v, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += v[i];
    return sum;
}

void color_op_contrast(const Picture *p, double factor, bool wide)
{
    size_t bytes = picture_bytes(p), pixels = bytes / (size_t)p->channels;
    uint64_t sum =
        p->channels == 3 ? sum_of_luma(p->pixels, pixels, wide) : sum_of_bytes(p->pixels, pixels);
    int mean = (int)((double)sum / (double)pixels + 0.5);
    blend_with_constant(p->pixels, bytes, mean, (float)factor, wide);
}

/* step: bytes from a pixel to its neighbour. */
static void sharpen_row(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t step,
                        size_t bytes, float factor, bool wide, uint8_t *out)
{
    size_t i = wide ? image_op_avx2_sharpen_row(above, row, below, step, bytes, factor, out) : step;
    for (; i + step < bytes; i++) {
        int sum = above[i - step] + above[i] + above[i + step] + row[i - step] + 5 * row[i] +
                  row[i + step] + below[i - step] + below[i] + below[i + step];
        int smooth = (int)((uint32_t)(2 * sum + 13) * 40330u >> 20); /* (2 sum + 13) / 26 */
        out[i] = blend(smooth, row[i], factor);
    }
}

void color_op_sharpness(const Picture *p, const uint8_t *copy, double factor, bool wide)
{
    size_t step = (size_t)p->channels, bytes = (size_t)p->width * step;
    for (int y = 1; y + 1 < p->height; y++) {
        const uint8_t *row = copy + (size_t)y * bytes;
        sharpen_row(row - bytes, row, row + bytes, step, bytes, (float)factor, wide,
                    p->pixels + (size_t)y * bytes);
    }
}

IMAGE_OP_CLONES static void mask_bytes(uint8_t *restrict v, size_t bytes, uint8_t mask)
{
    for (size_t i = 0; i < bytes; i++) v[i] &= mask;
}

void color_op_posterize(const Picture *p, double bits)
{
    int kept = (int)bits;
    ASSERT(kept >= 0 && kept <= 8);
    mask_bytes(p->pixels, picture_bytes(p), (uint8_t)(0xFF00u >> kept));
}

IMAGE_OP_CLONES static void invert_from(uint8_t *restrict v, size_t bytes, uint8_t first)
{
    for (size_t i = 0; i < bytes; i++) v[i] = (uint8_t)(v[i] < first ? v[i] : 255 - v[i]);
}

void color_op_solarize(const Picture *p, double threshold)
{
    int first = 0; /* the first byte that is not below */
    while (first < 256 && first < threshold) first++;
    if (first < 256) invert_from(p->pixels, picture_bytes(p), (uint8_t)first);
}

void color_op_invert(const Picture *p)
{
    invert_from(p->pixels, picture_bytes(p), 0);
}
