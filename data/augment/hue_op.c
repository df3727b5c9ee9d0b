/* hue_op.c - turns the colour circle: Pillow's RGB -> HSV with bytes for all three, hue moved with
 * wrap-around, and back.
 *
 * Every step rounds as Pillow's does, float32 where it has float and double where it has double.
 * Between are tables: of a pixel's three bytes only the middle one's distances need divisions, and
 * on the way back saturation and value give the lowest byte, the moved hue says which byte is
 * which. */
#include "data/augment/hue_op.h"
#include <math.h>

enum { VALUES = 256 };

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

void hue_op_shift(const Picture *p, double share)
{
    HueTables tables;
    if (p->channels != 3) return;
    fill_tables(&tables, (uint8_t)(int32_t)(share * 255.0));
    for (size_t i = 0, bytes = picture_bytes(p); i < bytes; i += 3)
        turn_pixel(p->pixels + i, &tables);
}
