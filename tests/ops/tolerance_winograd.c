/* tolerance_winograd.c - how much rounding can show in each result of a convolution by Winograd's
 * F(4x4,3x3), in units of eps.
 *
 * Each result is a bilinear form of the inputs, computed as it is written in
 * kernels/cpu/winograd.h: transforms of both, products, a sum, a transform back. Each rounding on
 * the way is at most eps of what it rounds, and the size of that is at most what the same form
 * gives with the absolute values of all matrices and inputs. That is S here; the roundings of one
 * result add up like those of a sum of that many terms (Barabasz et al., "Error analysis and
 * improving the accuracy of Winograd convolution for deep neural networks", ACM TOMS 46.4). The
 * matrices are made here from the points, as Toom and Cook's interpolation has them. */
#include "tests/ops/check.h"
#include <math.h>
#include <string.h>

enum { OUT = 4, IN = 6, TAPS = 3, POINTS = IN * IN };

static const double points[IN - 1] = { 0, 0.625, -0.625, 1.5, -1.5 }; /* and infinity */

typedef struct Matrices { /* absolute values */
    double b[IN][IN], g[IN][TAPS], a[IN][OUT];
} Matrices;

/* Coefficients of the product of (x - q) over all points q but the one numbered `without`. */
static void polynomial(int without, double *out)
{
    memset(out, 0, IN * sizeof *out);
    out[0] = 1;
    for (int i = 0, degree = 0; i < IN - 1; i++) {
        if (i == without) continue;
        degree++;
        for (int k = degree; k >= 0; k--)
            out[k] = (k ? out[k - 1] : 0) - points[i] * (k < degree ? out[k] : 0);
    }
}

static Matrices make_matrices(void)
{
    Matrices m = { .g[IN - 1][TAPS - 1] = 1, .a[IN - 1][OUT - 1] = 1 };
    for (int i = 0; i < IN; i++) {
        double row[IN], others = 1;
        polynomial(i, row);
        for (int k = 0; k < IN; k++) m.b[i][k] = fabs(row[k]);
        if (i == IN - 1) break;
        for (int k = 0; k < IN - 1; k++)
            if (k != i) others *= points[i] - points[k];
        for (int k = 0; k < TAPS; k++) m.g[i][k] = fabs(pow(points[i], k) / others);
        for (int k = 0; k < OUT; k++) m.a[i][k] = fabs(pow(points[i], k));
    }
    return m;
}

/* to[IN][IN] += t v t' for v[n][n]; t has n columns. */
static void widen(const double *t, int n, const double *v, double *to)
{
    for (int i = 0; i < IN; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < IN; j++)
                for (int l = 0; l < n; l++)
                    to[i * IN + j] += t[i * n + k] * v[k * n + l] * t[j * n + l];
}

/* Element (k, l) of t' v t for v[IN][IN]. */
static double narrow(const double *t, int n, const double *v, int k, int l)
{
    double sum = 0;
    for (int i = 0; i < IN; i++)
        for (int j = 0; j < IN; j++) sum += t[i * n + k] * v[i * IN + j] * t[j * n + l];
    return sum;
}

/* |x| of a square of a plane, zero outside. */
static void take(const Host *x, int64_t plane, int64_t top, int64_t left, int size, double *out)
{
    const int64_t h = x->desc.dims[2], w = x->desc.dims[3];
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            const int64_t y = top + i, z = left + j;
            const bool in = y >= 0 && y < h && z >= 0 && z < w;
            out[i * size + j] = in ? fabs(x->v[(plane * h + y) * w + z]) : 0;
        }
}

typedef struct Walk { /* over tiles of images h x w */
    int64_t n, top, left;
} Walk;

static bool next_tile(Walk *t, const int64_t *dims)
{
    t->left += OUT;
    if (t->left >= dims[3]) {
        t->left = 0;
        t->top += OUT;
    }
    if (t->top >= dims[2]) {
        t->top = 0;
        t->n++;
    }
    return t->n < dims[0];
}

/* y or dx. u: [result's channel][read channel][POINTS] */
static void scale_results(const Matrices *m, const Host *x, const int64_t *dims, const double *u,
                          double *scale)
{
    const int64_t read = x->desc.dims[1], made = dims[1];
    Walk t = { .left = -OUT };
    while (next_tile(&t, dims))
        for (int64_t k = 0; k < made; k++) {
            double sum[POINTS] = { 0 };
            for (int64_t c = 0; c < read; c++) {
                double d[POINTS], v[POINTS] = { 0 };
                take(x, t.n * read + c, t.top - 1, t.left - 1, IN, d);
                widen(m->b[0], IN, d, v);
                for (int i = 0; i < POINTS; i++) sum[i] += v[i] * u[(k * read + c) * POINTS + i];
            }
            for (int i = 0; i < OUT && t.top + i < dims[2]; i++)
                for (int j = 0; j < OUT && t.left + j < dims[3]; j++)
                    scale[((t.n * made + k) * dims[2] + t.top + i) * dims[3] + t.left + j] =
                        narrow(m->a[0], OUT, sum, i, j);
        }
}

static void scale_gradient(const Matrices *m, const Host *x, const Host *dy, double *scale)
{
    const int64_t channels = x->desc.dims[1], filters = dy->desc.dims[1];
    for (int64_t k = 0; k < filters; k++)
        for (int64_t c = 0; c < channels; c++) {
            double sum[POINTS] = { 0 };
            Walk t = { .left = -OUT };
            while (next_tile(&t, dy->desc.dims)) {
                double d[POINTS], v[POINTS] = { 0 }, g[POINTS] = { 0 };
                take(x, t.n * channels + c, t.top - 1, t.left - 1, IN, d);
                widen(m->b[0], IN, d, v);
                take(dy, t.n * filters + k, t.top, t.left, OUT, d);
                widen(m->a[0], OUT, d, g);
                for (int i = 0; i < POINTS; i++) sum[i] += v[i] * g[i];
            }
            for (int i = 0; i < TAPS * TAPS; i++)
                scale[(k * channels + c) * TAPS * TAPS + i] =
                    narrow(m->g[0], TAPS, sum, i / TAPS, i % TAPS);
        }
}

/* What a folded batch norm multiplies filter k by. */
static double factor_of(const Problem *p, const Host *in, int64_t k)
{
    if (p->kind != OP_CONV2D_BN) return 1;
    return fabs(in[CONV_BN_IN_GAMMA].v[k]) /
           sqrt(in[CONV_BN_IN_RUNNING_VAR].v[k] + (double)p->attr.conv_bn.eps);
}

Status tolerance_winograd_scale(Arena *arena, const Problem *p, const Host *in, double *scale)
{
    const Matrices m = make_matrices();
    if (p->kind == OP_CONV2D_BWD_WEIGHTS) {
        scale_gradient(&m, &in[CONV_BWD_WEIGHTS_IN_X], &in[CONV_BWD_WEIGHTS_IN_DY], scale);
        return OK;
    }
    const bool back = p->kind == OP_CONV2D_BWD_DATA;
    const Host *w = &in[layouts_weight_input(p->kind)];
    const int64_t filters = w->desc.dims[0], channels = w->desc.dims[1];
    double *u = arena_alloc(arena, (size_t)(filters * channels * POINTS) * sizeof *u);
    if (!u) return ERR_MEMORY;
    memset(u, 0, (size_t)(filters * channels * POINTS) * sizeof *u);
    for (int64_t k = 0; k < filters; k++)
        for (int64_t c = 0; c < channels; c++) {
            double g[TAPS * TAPS];
            for (int i = 0; i < TAPS * TAPS; i++) {
                const double v = fabs(w->v[(k * channels + c) * TAPS * TAPS + i]);
                g[back ? TAPS * TAPS - 1 - i : i] = v * factor_of(p, in, k);
            }
            widen(m.g[0], TAPS, g, &u[(back ? c * filters + k : k * channels + c) * POINTS]);
        }
    scale_results(&m, &in[back ? CONV_BWD_DATA_IN_DY : CONV_IN_X],
                  p->out[back ? CONV_BWD_DATA_OUT_DX : CONV_OUT_Y].dims, u, scale);
    return OK;
}
