/* histogram_op.c - ops whose change of a byte depends on all bytes of its channel: autocontrast and
 * equalize. */
#include "data/augment/histogram_op.h"
#include <string.h>

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

/* ---- autocontrast ---- */

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

void histogram_op_autocontrast(const Picture *p)
{
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

/* ---- equalize ---- */

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

/* Pillow's ImageOps.equalize: the pixels below a byte, and half a step, in whole steps of so many
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

void histogram_op_equalize(const Picture *p)
{
    Tables tables;
    uint32_t counts[CHANNELS][2][VALUES];
    memset(counts, 0, sizeof counts);
    count_bytes(p, counts);
    for (int c = 0; c < p->channels; c++) level(counts[c], tables.to[c]);
    look_up(p, &tables);
}
