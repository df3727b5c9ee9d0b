/* winograd_lanes.h - the loops of winograd.c for channel blocks of WINOGRAD_LANES floats, a vector
 * each: winograd_lanes.c includes this once for each number of lanes.
 *
 * One-dimensional transforms take and make vectors that lie s or t places apart, so that one
 * function serves both the rows and the columns of a tile.
 *
 * Inner loops keep sizes in local variables: a store through V may alias *w, so the compiler would
 * read them again after every store. */
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/winograd.h"

#ifndef WINOGRAD_LANES
#define WINOGRAD_LANES 8
#endif
#ifndef WINOGRAD_A
enum {
    TILES = 128, /* per partial sum of dw, roughly; their values stay in L1 */
    AHEAD = 1024 /* floats: weights are asked for so early that the products need not wait */
};
/* The points, and what the rows of G are multiplied by */
#define WINOGRAD_A 0.625f
#define WINOGRAD_B 1.5f
static const float A = WINOGRAD_A, B = WINOGRAD_B, AA = WINOGRAD_A * WINOGRAD_A,
                   BB = WINOGRAD_B * WINOGRAD_B,
                   F0 = 1 / (WINOGRAD_A * WINOGRAD_A * WINOGRAD_B * WINOGRAD_B),
                   FA = 1 / (2 * WINOGRAD_A * WINOGRAD_A *
                             (WINOGRAD_A * WINOGRAD_A - WINOGRAD_B * WINOGRAD_B)),
                   FB = 1 / (2 * WINOGRAD_B * WINOGRAD_B *
                             (WINOGRAD_B * WINOGRAD_B - WINOGRAD_A * WINOGRAD_A));
#endif
#define L            WINOGRAD_LANES
#define PASTE(a, b)  a##_##b
#define PASTED(a, b) PASTE(a, b)
#define NAME(a)      PASTED(a, WINOGRAD_LANES)
#define V            NAME(Vector)
#define ROWS         NAME(rows)
#define CHANNELS     NAME(channels)

/* With two vectors of results for each row: as many as there are registers for. */
enum { ROWS = L == 8 ? 6 : 12, CHANNELS = L == 8 ? 4 : 8 };
typedef float V __attribute__((vector_size(L * sizeof(float)), aligned(sizeof(float)), may_alias));

CPU_INLINE V *NAME(at)(float *p)
{
    return (V *)p;
}

CPU_INLINE const V *NAME(in)(const float *p)
{
    return (const V *)p;
}

/* ---- one-dimensional transforms ---- */

CPU_INLINE void NAME(input)(V *o, const V *d, int s) /* B' d */
{
    const V even_a = d[4 * s] - BB * d[2 * s], even_b = d[4 * s] - AA * d[2 * s];
    const V odd_a = A * (d[3 * s] - BB * d[s]), odd_b = B * (d[3 * s] - AA * d[s]);
    o[0] = AA * BB * d[0] + (d[4 * s] - (AA + BB) * d[2 * s]);
    o[s] = even_a + odd_a;
    o[2 * s] = even_a - odd_a;
    o[3 * s] = even_b + odd_b;
    o[4 * s] = even_b - odd_b;
    o[5 * s] = AA * BB * d[s] + (d[5 * s] - (AA + BB) * d[3 * s]);
}

CPU_INLINE void NAME(output)(V *o, int t, const V *m, int s) /* A' m */
{
    const V sa = m[s] + m[2 * s], da = m[s] - m[2 * s], sb = m[3 * s] + m[4 * s],
            db = m[3 * s] - m[4 * s];
    o[0] = m[0] + sa + sb;
    o[t] = A * da + B * db;
    o[2 * t] = AA * sa + BB * sb;
    o[3 * t] = A * AA * da + (B * BB * db + m[5 * s]);
}

CPU_INLINE void NAME(output_gradient)(V *o, int t, const V *y, int s) /* A y */
{
    const V even_a = AA * y[2 * s] + y[0], odd_a = A * (AA * y[3 * s] + y[s]),
            even_b = BB * y[2 * s] + y[0], odd_b = B * (BB * y[3 * s] + y[s]);
    o[0] = y[0];
    o[t] = even_a + odd_a;
    o[2 * t] = even_a - odd_a;
    o[3 * t] = even_b + odd_b;
    o[4 * t] = even_b - odd_b;
    o[5 * t] = y[3 * s];
}

CPU_INLINE void NAME(window)(V *o, int t, const V *g, int s) /* G g */
{
    const V even_a = FA * (AA * g[2 * s] + g[0]), odd_a = FA * A * g[s],
            even_b = FB * (BB * g[2 * s] + g[0]), odd_b = FB * B * g[s];
    o[0] = F0 * g[0];
    o[t] = even_a + odd_a;
    o[2 * t] = even_a - odd_a;
    o[3 * t] = even_b + odd_b;
    o[4 * t] = even_b - odd_b;
    o[5 * t] = g[2 * s];
}

CPU_INLINE void NAME(window_gradient)(V *o, int t, const V *u, int s) /* G' u */
{
    const V sa = FA * (u[s] + u[2 * s]), da = FA * (u[s] - u[2 * s]),
            sb = FB * (u[3 * s] + u[4 * s]), db = FB * (u[3 * s] - u[4 * s]);
    o[0] = F0 * u[0] + (sa + sb);
    o[t] = A * da + B * db;
    o[2 * t] = AA * sa + (BB * sb + u[5 * s]);
}

/* ---- tiles ---- */

/* Pixels [y, y + size) x [x, x + size) of a plane, zero outside. */
CPU_INLINE void NAME(load)(V *d, const float *plane, const CpuWinograd *w, int64_t y, int64_t x,
                           int size)
{
    if (y >= 0 && x >= 0 && y + size <= w->h && x + size <= w->w) {
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++)
                d[i * size + j] = *NAME(in)(plane + ((y + i) * w->w + x + j) * L);
        return;
    }
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            const bool in = y + i >= 0 && y + i < w->h && x + j >= 0 && x + j < w->w;
            d[i * size + j] = in ? *NAME(in)(plane + ((y + i) * w->w + x + j) * L) : (V){ 0 };
        }
}

CPU_INLINE void NAME(read_tile)(V *o, const float *plane, const CpuWinograd *w, int64_t y,
                                int64_t x, bool pixels)
{
    V d[36], half[36];
    if (pixels) {
        NAME(load)(d, plane, w, y - 1, x - 1, 6);
        for (int i = 0; i < 6; i++) NAME(input)(half + i, d + i, 6);
        for (int i = 0; i < 6; i++) NAME(input)(o + i * 6, half + i * 6, 1);
    } else {
        NAME(load)(d, plane, w, y, x, 4);
        for (int i = 0; i < 4; i++) NAME(output_gradient)(half + i, 4, d + i, 4);
        for (int i = 0; i < 6; i++) NAME(output_gradient)(o + i * 6, 1, half + i * 4, 1);
    }
}

CPU_CLONES static void NAME(read_tiles)(const CpuWinograd *w, const float *x, int64_t channels,
                                        float *tiles, int64_t first, int64_t count, int64_t from,
                                        int64_t to, bool pixels)
{
    const int64_t plane = w->h * w->w * L, image = w->down * w->across, step = w->tile_step;
    const int64_t rounded = (count + ROWS - 1) / ROWS * ROWS;
    for (int64_t cb = from; cb < to; cb++) {
        float *out = tiles + cb * w->block * L;
        for (int64_t t = 0; t < count; t++, out += L) {
            const int64_t n = (first + t) / image, in = (first + t) % image;
            const float *at = x + (n * (channels / L) + cb) * plane;
            const int64_t top = in / w->across * 4, left = in % w->across * 4;
            V o[36];
            if (pixels) NAME(read_tile)(o, at, w, top, left, true);
            else NAME(read_tile)(o, at, w, top, left, false);
            for (int i = 0; i < WINOGRAD_POINTS; i++) *NAME(at)(out + i * step) = o[i];
        }
        for (int64_t t = count; t < rounded; t++, out += L)
            for (int i = 0; i < WINOGRAD_POINTS; i++) *NAME(at)(out + i * step) = (V){ 0 };
    }
}

/* y = act(v + bias, and with add what y holds) of a vector. */
CPU_INLINE void NAME(deliver)(float *y, const V *v, bool add, ActKind act)
{
    if (add) *NAME(at)(y) += *v;
    else *NAME(at)(y) = *v;
    if (act == ACT_NONE) return;
    if (act == ACT_RELU) {
        for (int l = 0; l < L; l++) y[l] = cpu_either(y[l] < 0, 0, y[l]);
    } else if (act == ACT_SILU) {
        for (int l = 0; l < L; l++) y[l] = cpu_silu(y[l]);
    } else {
        for (int l = 0; l < L; l++) y[l] = cpu_hard_swish(y[l]);
    }
}

CPU_CLONES static void NAME(write_tiles)(const CpuWinograd *w, const float *tiles,
                                         const float *bias, float *y, int64_t first, int64_t count,
                                         int64_t begin, int64_t end)
{
    const int64_t h = w->h, wide = w->w, plane = h * wide * L, across = w->across,
                  image = w->down * across, blocks = w->made / L, step = w->tile_step;
    const bool add = w->add;
    const ActKind act = w->act;
    for (int64_t kb = begin; kb < end; kb++) {
        const float *from = tiles + kb * w->block * L;
        V more = { 0 };
        for (int64_t l = 0; bias && l < L && kb * L + l < w->filters; l++)
            more[l] = bias[kb * L + l];
        for (int64_t t = 0; t < count; t++, from += L) {
            const int64_t n = (first + t) / image, in = (first + t) % image;
            float *out = y + (n * blocks + kb) * plane;
            const int64_t top = in / across * 4, left = in % across * 4;
            V d[36], half[24], o[16];
            for (int i = 0; i < WINOGRAD_POINTS; i++) d[i] = *NAME(in)(from + i * step);
            for (int i = 0; i < 6; i++) NAME(output)(half + i, 6, d + i, 6);
            for (int i = 0; i < 4; i++) NAME(output)(o + i * 4, 1, half + i * 6, 1);
            for (int64_t i = 0; i < 4 && top + i < h; i++)
                for (int64_t j = 0; j < 4 && left + j < wide; j++) {
                    const V sum = o[i * 4 + j] + more;
                    NAME(deliver)(out + ((top + i) * wide + left + j) * L, &sum, add, act);
                }
        }
    }
}

/* ---- weights ---- */

/* An L x L block of weights lies [c][k], and so does what is made of it where c is read; where k is
 * (dx), each tap's block is turned first. */
CPU_CLONES static void NAME(read_weights)(const CpuWinograd *w, const float *weights, float *u,
                                          int64_t from, int64_t to)
{
    const bool turned = w->direction == CONV_BWD_DATA;
    const int64_t cblocks = w->c / L, made = w->made / L, step = w->u_step;
    float block[9 * L * L];
    for (int64_t mb = 2 * from; mb < 2 * to && mb < made; mb++)
        for (int64_t rb = 0; rb < w->read / L; rb++) {
            const float *at =
                weights + (turned ? rb * cblocks + mb : mb * cblocks + rb) * 9 * L * L;
            if (turned) {
                for (int tap = 0; tap < 9; tap++)
                    for (int i = 0; i < L; i++)
                        for (int l = 0; l < L; l++)
                            block[((8 - tap) * L + l) * L + i] = at[(tap * L + i) * L + l];
                at = block;
            }
            float *out = u + ((mb / 2 * w->read + rb * L) * 2 + mb % 2) * L;
            for (int i = 0; i < L; i++, out += 2 * L) {
                V g[9], half[18], o[36];
                for (int tap = 0; tap < 9; tap++) g[tap] = *NAME(in)(at + (tap * L + i) * L);
                for (int j = 0; j < 3; j++) NAME(window)(half + j, 3, g + j, 3);
                for (int j = 0; j < 6; j++) NAME(window)(o + j * 6, 1, half + j * 3, 1);
                for (int j = 0; j < WINOGRAD_POINTS; j++) *NAME(at)(out + j * step) = o[j];
            }
        }
}

CPU_CLONES static void NAME(write_weights)(const CpuWinograd *w, const float *u, float *dw,
                                           int64_t from, int64_t to)
{
    const int64_t cs = w->c, ks = w->k, step = w->u_step;
    for (int64_t kb = from; kb < to; kb++)
        for (int64_t c = 0; c < cs; c++) {
            V g[36], half[18], o[9];
            float *out = dw + (kb * (cs / L) + c / L) * 9 * L * L + c % L * L;
            for (int j = 0; j < WINOGRAD_POINTS; j++)
                g[j] = *NAME(in)(u + j * step + c * ks + kb * L);
            for (int j = 0; j < 6; j++) NAME(window_gradient)(half + j, 6, g + j, 6);
            for (int j = 0; j < 3; j++) NAME(window_gradient)(o + j * 3, 1, half + j * 6, 1);
            for (int j = 0; j < 9; j++) *NAME(at)(out + j * L * L) = o[j];
        }
}

/* ---- products ---- */

/* ROWS tiles times `width` blocks of made channels, over all that are read: sums over `chunk` of
 * them are added up, which rounds less than one long sum, least where there are as many sums as
 * channels in one. */
CPU_INLINE void NAME(panel)(const CpuWinograd *w, const float *tiles, const float *u, float *to,
                            int width, int chunk)
{
    const int64_t step = w->block * L, read = w->read;
    V sum[ROWS][2];
    for (int64_t c = 0; c < read; c += chunk) {
#pragma GCC unroll 16
        for (int t = 0; t < ROWS; t++) sum[t][0] = sum[t][1] = (V){ 0 };
        for (int64_t in = c; in < c + chunk; in += chunk < L ? chunk : L) {
            const float *from = tiles + in / L * step + in % L;
            for (int l = 0; l < (chunk < L ? chunk : L); l++, u += 2 * L) {
                const V u0 = *NAME(in)(u), u1 = width == 2 ? *NAME(in)(u + L) : u0;
                if (width == 2) {
                    __builtin_prefetch(u + AHEAD);
                    if (L == 16) __builtin_prefetch(u + L + AHEAD); /* the next line */
                }
#pragma GCC unroll 16
                for (int t = 0; t < ROWS; t++) {
                    sum[t][0] += from[t * L + l] * u0;
                    if (width == 2) sum[t][1] += from[t * L + l] * u1;
                }
            }
        }
#pragma GCC unroll 16
        for (int t = 0; t < ROWS; t++) {
            V *out = NAME(at)(to + t * L), *next = NAME(at)(to + step + t * L);
            if (c) sum[t][0] += *out;
            *out = sum[t][0];
            if (width == 2 && c) sum[t][1] += *next;
            if (width == 2) *next = sum[t][1];
        }
    }
}

CPU_CLONES static void NAME(convolve)(const CpuWinograd *w, const float *tiles, const float *u,
                                      float *to, int64_t count, int64_t first, int64_t last)
{
    const int64_t made = w->made / L;
    const bool few = w->read < 128 || w->read % 16;
    for (int64_t point = first; point < last; point++)
        for (int64_t mb = 0; mb < made; mb += 2)
            for (int64_t t = 0; t < count; t += ROWS) {
                const float *from = tiles + point * w->tile_step + t * L,
                            *by = u + point * w->u_step + mb * w->read * L;
                float *out = to + point * w->tile_step + (mb * w->block + t) * L;
                if (mb + 1 == made) NAME(panel)(w, from, by, out, 1, 8);
                else if (few) NAME(panel)(w, from, by, out, 2, 8);
                else NAME(panel)(w, from, by, out, 2, 16);
            }
}

/* u[CHANNELS][width blocks of k] = the sum over these tiles; with add it is added to u. */
CPU_INLINE void NAME(square)(const CpuWinograd *w, const float *x, const float *dy, float *u,
                             int64_t count, int width, bool add)
{
    const int64_t step = w->block * L, k = w->k;
    V sum[CHANNELS][3];
#pragma GCC unroll 8
    for (int i = 0; i < CHANNELS; i++) sum[i][0] = sum[i][1] = sum[i][2] = (V){ 0 };
    for (int64_t t = 0; t < count; t++, x += L, dy += L) {
        const V y0 = *NAME(in)(dy), y1 = width > 1 ? *NAME(in)(dy + step) : y0,
                y2 = width > 2 ? *NAME(in)(dy + 2 * step) : y0;
#pragma GCC unroll 8
        for (int i = 0; i < CHANNELS; i++) {
            sum[i][0] += x[i] * y0;
            if (width > 1) sum[i][1] += x[i] * y1;
            if (width > 2) sum[i][2] += x[i] * y2;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < CHANNELS; i++, u += k)
#pragma GCC unroll 3
        for (int j = 0; j < width; j++) {
            if (add) sum[i][j] += *NAME(at)(u + j * L);
            *NAME(at)(u + j * L) = sum[i][j];
        }
}

CPU_CLONES static void NAME(correlate)(const CpuWinograd *w, const float *x, const float *dy,
                                       float *u, int64_t count, int64_t from, int64_t to, bool add)
{
    const int64_t step = w->block * L, blocks = w->k / L;
    const int64_t parts = 1 + (count - 1 - TILES / 8) / TILES, /* at most 9/8 of TILES each */
        part = (count + parts - 1) / parts;
    for (int64_t t = 0; t < count; t += part) {
        const int64_t tiles = count - t < part ? count - t : part;
        for (int64_t kb = 0, width; kb < blocks; kb += width) {
            const int64_t left = blocks - kb;
            width = left == 4 || left == 2 ? 2 : left == 1 ? 1 : 3;
            for (int64_t c = from; c < to; c += CHANNELS) {
                const float *pixels = x + c / L * step + t * L + c % L,
                            *slopes = dy + kb * step + t * L;
                float *sums = u + c * w->k + kb * L;
                if (width == 3) NAME(square)(w, pixels, slopes, sums, tiles, 3, add || t);
                else if (width == 2) NAME(square)(w, pixels, slopes, sums, tiles, 2, add || t);
                else NAME(square)(w, pixels, slopes, sums, tiles, 1, add || t);
            }
        }
    }
}

const WinogradLoops NAME(winograd_loops) = {
    .rows = ROWS,
    .read_tiles = NAME(read_tiles),
    .write_tiles = NAME(write_tiles),
    .read_weights = NAME(read_weights),
    .write_weights = NAME(write_weights),
    .convolve = NAME(convolve),
    .correlate = NAME(correlate),
};

#undef L
#undef PASTE
#undef PASTED
#undef NAME
#undef V
#undef ROWS
#undef CHANNELS
