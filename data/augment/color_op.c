/* color_op.c - ops on bytes where they are: blends with black, grey, the mean and a smoothed
 * picture; bit masks; autocontrast and equalize; hue.
 *
 * The four blends are Pillow's ImageEnhance: a + factor (v - a) in float32, clipped to 0..255,
 * rounded towards zero, where a comes from a picture without what is enhanced. The smoothed one is
 * the 3x3 mean with the middle counted five times, rounded; s/13 + 1/2 is never whole for a whole
 * s, so integers give Pillow's float result whatever the order of its sum. Its border is that of
 * the picture itself and thus stays. */
#include "data/augment/color_op.h"
#include "data/augment/image_op_avx2.h"
#include "data/decode/image.h"
#include <math.h>
#include <string.h>

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

void color_op_posterize(const Picture *p, double bits, bool wide)
{
    (void)wide;
    int kept = (int)bits;
    ASSERT(kept >= 0 && kept <= 8);
    mask_bytes(p->pixels, picture_bytes(p), (uint8_t)(0xFF00u >> kept));
}

IMAGE_OP_CLONES static void invert_from(uint8_t *restrict v, size_t bytes, uint8_t first)
{
    for (size_t i = 0; i < bytes; i++) v[i] = (uint8_t)(v[i] < first ? v[i] : 255 - v[i]);
}

void color_op_solarize(const Picture *p, double threshold, bool wide)
{
    (void)wide;
    int first = 0; /* the first byte that is not below */
    while (first < 256 && first < threshold) first++;
    if (first < 256) invert_from(p->pixels, picture_bytes(p), (uint8_t)first);
}

void color_op_solarize_add(const Picture *p, double value, bool wide)
{
    const int add = (int)value;
    uint8_t *v = p->pixels;
    (void)wide;
    for (size_t i = 0, bytes = picture_bytes(p); i < bytes; i++)
        if (v[i] < 128) v[i] = (uint8_t)(v[i] + add > 255 ? 255 : v[i] + add);
}

void color_op_invert(const Picture *p, double unused, bool wide)
{
    (void)unused, (void)wide;
    invert_from(p->pixels, picture_bytes(p), 0);
}

/* ---- ops whose change of a byte depends on all bytes of its channel ---- */

enum { VALUES = 256, CHANNELS = 3 };

typedef struct Tables { /* the change of each byte, by channel */
    uint8_t to[CHANNELS][VALUES];
} Tables;

static void look_up(const Picture *p, const Tables *t)
{
    uint8_t *v = p->pixels;
    size_t bytes = picture_bytes(p);
    if (p->channels == 1) {
        for (size_t i = 0; i < bytes; i++) v[i] = t->to[0][v[i]];
        return;
    }
    for (size_t i = 0; i < bytes; i += CHANNELS) {
        uint8_t r = t->to[0][v[i]], g = t->to[1][v[i + 1]], b = t->to[2][v[i + 2]];
        v[i] = r;
        v[i + 1] = g;
        v[i + 2] = b;
    }
}

enum { LANES = 96 }; /* bytes at a time: whole vectors, and whole pixels of 1 or 3 channels */

IMAGE_OP_CLONES static void find_limits(const uint8_t *restrict v, size_t blocks,
                                        uint8_t *restrict low, uint8_t *restrict high)
{
    for (size_t k = 0; k < blocks; k++)
        for (size_t i = 0; i < LANES; i++) {
            uint8_t x = v[k * LANES + i];
            low[i] = x < low[i] ? x : low[i];
            high[i] = x > high[i] ? x : high[i];
        }
}

/* From 0 at the lowest byte that occurs to 255 at the highest. */
static void stretch(int low, int high, uint8_t *to)
{
    double scale = high > low ? 255.0 / (high - low) : 1.0,
           offset = high > low ? -low * scale : 0.0;
    for (int i = 0; i < VALUES; i++) {
        int v = (int)(i * scale + offset);
        to[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

void color_op_autocontrast(const Picture *p, double unused, bool wide)
{
    (void)unused, (void)wide;
    Tables tables;
    uint8_t low[LANES], high[LANES];
    size_t bytes = picture_bytes(p), blocks = bytes / LANES;
    memset(low, 255, sizeof low);
    memset(high, 0, sizeof high);
    find_limits(p->pixels, blocks, low, high);
    for (size_t i = blocks * LANES; i < bytes; i++) {
        uint8_t v = p->pixels[i], *l = &low[i % LANES], *h = &high[i % LANES];
        *l = v < *l ? v : *l;
        *h = v > *h ? v : *h;
    }
    for (int c = 0; c < p->channels; c++) {
        int lowest = 255, highest = 0;
        for (int i = c; i < LANES; i += p->channels) {
            lowest = low[i] < lowest ? low[i] : lowest;
            highest = high[i] > highest ? high[i] : highest;
        }
        stretch(lowest, highest, tables.to[c]);
    }
    look_up(p, &tables);
}

/* counts has two tables of each channel: neighbouring pixels are often equal, and an increment must
 * not wait for the one before. */
static void count_bytes(const Picture *p, uint32_t (*counts)[2][VALUES])
{
    const uint8_t *v = p->pixels;
    size_t bytes = picture_bytes(p), channels = (size_t)p->channels, pair = 2 * channels, i = 0;
    if (channels == CHANNELS)
        for (; i + pair <= bytes; i += pair) {
            counts[0][0][v[i]]++;
            counts[1][0][v[i + 1]]++;
            counts[2][0][v[i + 2]]++;
            counts[0][1][v[i + 3]]++;
            counts[1][1][v[i + 4]]++;
            counts[2][1][v[i + 5]]++;
        }
    for (; i < bytes; i++) counts[i % channels][0][v[i]]++;
}

/* Pillow's ImageOps.equalize: the pixels below a byte, and half a step, in whole steps of this many
 * pixels. */
static void level(uint32_t (*counts)[VALUES], uint8_t *to)
{
    uint64_t all = 0, last = 0, used = 0;
    for (int i = 0; i < VALUES; i++) {
        uint64_t n = (uint64_t)counts[0][i] + counts[1][i];
        all += n;
        used += n > 0;
        if (n > 0) last = n;
    }
    uint64_t step = (all - last) / 255, below = step / 2;
    for (int i = 0; i < VALUES; i++) {
        uint64_t v = used > 1 && step > 0 ? below / step : (uint64_t)i;
        to[i] = (uint8_t)(v > 255 ? 255 : v);
        below += (uint64_t)counts[0][i] + counts[1][i];
    }
}

void color_op_equalize(const Picture *p, double unused, bool wide)
{
    (void)unused, (void)wide;
    Tables tables;
    uint32_t counts[CHANNELS][2][VALUES];
    memset(counts, 0, sizeof counts);
    count_bytes(p, counts);
    for (int c = 0; c < p->channels; c++) level(counts[c], tables.to[c]);
    look_up(p, &tables);
}

/* ---- the colour circle turned ----
 *
 * Pillow's RGB -> HSV with bytes for all three, hue moved with wrap-around, and back.
 *
 * Every step rounds as Pillow's does, float32 where it has float and double where it has double.
 * Between are tables: of a pixel's three bytes only the middle one's distances need divisions, and
 * on the way back saturation and value give the lowest byte, the moved hue says which byte is
 * which. */

typedef struct HueTables { /* of the moved hue */
    int sector[VALUES];    /* 0 to 5 */
    float within[VALUES];  /* share of the sector that is passed */
    float share[VALUES];   /* byte / 255 */
} HueTables;

static void fill_tables(HueTables *t, uint8_t shift)
{
    for (int i = 0; i < VALUES; i++) {
        float hue = (float)(uint8_t)(i + shift);
        int sector = (int)floor((double)hue * 6.0 / 255.0);
        t->within[i] = (float)((double)hue * 6.0 / 255.0 - (double)(float)sector);
        t->sector[i] = sector % 6;
        t->share[i] = (float)((double)(float)i / 255.0);
    }
}

static inline uint8_t round_byte(double v)
{
    int whole = (int)v; /* v is not negative */
    whole += v - whole >= 0.5;
    return (uint8_t)(whole > 255 ? 255 : whole);
}

/* Hue before the move; high > low. */
static inline uint8_t hue_of(int r, int g, int b, int high, int low)
{
    float range = (float)(high - low);
    float to_r = (float)(high - r) / range, to_g = (float)(high - g) / range,
          to_b = (float)(high - b) / range;
    double sixths = r == high   ? (double)to_b - (double)to_g
                    : g == high ? 2.0 + (double)to_r - (double)to_b
                                : 4.0 + (double)to_g - (double)to_r;
    double turn = (double)(float)sixths / 6.0 + 1.0;
    float hue = (float)(turn >= 1.0 ? turn - 1.0 : turn);
    int v = (int)((double)hue * 255.0);
    return (uint8_t)(v > 255 ? 255 : v);
}

static inline void turn_pixel(uint8_t *v, const HueTables *t)
{
    int r = v[0], g = v[1], b = v[2];
    int high = r > g ? (r > b ? r : b) : (g > b ? g : b),
        low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (high == low) return;
    uint8_t hue = hue_of(r, g, b, high, low);
    int saturation = (int)((double)((float)(high - low) / (float)high) * 255.0);
    float share = t->share[saturation], within = t->within[hue];
    int sector = t->sector[hue];
    double value = (double)(float)high;
    double fall = sector % 2 ? (double)(share * within) : (double)share * (1.0 - (double)within);
    uint8_t top = (uint8_t)high, bottom = round_byte(value * (1.0 - (double)share)),
            middle = round_byte(value * (1.0 - fall));
    static const uint8_t places[6][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },
                                          { 2, 1, 0 }, { 1, 2, 0 }, { 0, 2, 1 } };
    const uint8_t bytes[3] = { top, middle, bottom };
    for (int c = 0; c < 3; c++) v[c] = bytes[places[sector][c]];
}

void color_op_turn(const Picture *p, double share, bool wide)
{
    (void)wide;
    HueTables tables;
    if (p->channels != 3) return;
    fill_tables(&tables, (uint8_t)(int32_t)(share * 255.0));
    for (size_t i = 0, bytes = picture_bytes(p); i < bytes; i += 3)
        turn_pixel(p->pixels + i, &tables);
}
