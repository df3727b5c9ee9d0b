/* pool2d.c - maximum and average over windows, and over whole images.
 *
 * Maximum: padding never wins; of equal values the first in row-major window order does (torch's
 * rule); NaN wins over everything. Its index is r * kernel_w + s. Average: the divisor is the whole
 * window, padding included. Blur: the weighted sum of all of the window, where padding is zero or
 * the pixel that a mirror at the edge would show. */
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

/* One window over one image: image is dims N,C,H,W. */
typedef struct Window {
    int64_t h0, w0;         /* image position of window element (0,0) */
    int64_t r0, r1, s0, s1; /* the part of the window inside the image */
} Window;

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t smallest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static Window window_at(const Pool2dAttr *a, const int64_t *image, int64_t p, int64_t q)
{
    Window v = { p * a->stride_h - a->pad_h, q * a->stride_w - a->pad_w, 0, 0, 0, 0 };
    v.r0 = largest(0, -v.h0);
    v.r1 = smallest(a->kernel_h, image[2] - v.h0);
    v.s0 = largest(0, -v.w0);
    v.s1 = smallest(a->kernel_w, image[3] - v.w0);
    return v;
}

static double pool_max(const Pool2dAttr *a, const double *plane, int64_t width, const Window *v,
                       int64_t *index)
{
    double best = -INFINITY;
    *index = v->r0 * a->kernel_w + v->s0;
    for (int64_t r = v->r0; r < v->r1; r++)
        for (int64_t s = v->s0; s < v->s1; s++) {
            double value = plane[(v->h0 + r) * width + v->w0 + s];
            if (value > best || (isnan(value) && !isnan(best))) {
                best = value;
                *index = r * a->kernel_w + s;
            }
        }
    return best;
}

/* Where position `at` of an axis of `size` is read; -1: nowhere, it is zero. */
static int64_t source_of(PoolKind kind, int64_t at, int64_t size)
{
    if (at >= 0 && at < size) return at;
    if (kind != POOL_BLUR_REFLECT) return -1;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

/* The weight of an element of a window, and the pixel that it is of; -1: of none. */
static double weigh(const Pool2dAttr *a, const int64_t *image, const Window *v, int element,
                    int64_t *pixel)
{
    static const double blur[] = { 0.25, 0.5, 0.25 };
    const int r = element / a->kernel_w, s = element % a->kernel_w;
    const int64_t h = source_of(a->kind, v->h0 + r, image[2]),
                  w = source_of(a->kind, v->w0 + s, image[3]);
    *pixel = h < 0 || w < 0 ? -1 : h * image[3] + w;
    if (a->kind == POOL_AVG) return 1 / ((double)a->kernel_h * (double)a->kernel_w);
    if (a->kind == POOL_AVG_TILES) return 1 / (double)((v->r1 - v->r0) * (v->s1 - v->s0));
    return blur[r] * blur[s];
}

static double pool_sum(const Pool2dAttr *a, const double *plane, const int64_t *image,
                       const Window *v)
{
    double sum = 0;
    for (int i = 0; i < a->kernel_h * a->kernel_w; i++) {
        int64_t pixel;
        const double weight = weigh(a, image, v, i, &pixel);
        if (pixel >= 0) sum += weight * plane[pixel];
    }
    return sum;
}

static double pool(const Pool2dAttr *a, const double *plane, const int64_t *image, const Window *v,
                   int64_t *index)
{
    switch (a->kind) {
    case POOL_MAX:
        return pool_max(a, plane, image[3], v, index);
    case POOL_AVG:
    case POOL_BLUR:
    case POOL_BLUR_REFLECT:
    case POOL_AVG_TILES:
        return pool_sum(a, plane, image, v);
    case POOL_KIND_COUNT:
        break;
    }
    return NAN;
}

static void run_forward(OpInstance *op)
{
    const Pool2dAttr *a = op->attr;
    const int64_t *image = ref_in_dims(op, POOL_IN_X), *d = ref_out_dims(op, POOL_OUT_Y);
    double *y = ref_out(op, POOL_OUT_Y);
    uint8_t *indices = ref_has_out(op, POOL_OUT_INDEX) ? op->out[POOL_OUT_INDEX].data : NULL;
    for (int64_t nc = 0; nc < d[0] * d[1]; nc++)
        for (int64_t p = 0; p < d[2]; p++)
            for (int64_t q = 0; q < d[3]; q++) {
                const double *plane = ref_in(op, POOL_IN_X) + nc * image[2] * image[3];
                Window v = window_at(a, image, p, q);
                int64_t at = (nc * d[2] + p) * d[3] + q, index = 0;
                y[at] = pool(a, plane, image, &v, &index);
                if (indices) indices[at] = (uint8_t)index;
            }
}

static void pool_sum_bwd(const Pool2dAttr *a, double *plane, const int64_t *image, const Window *v,
                         double dy)
{
    for (int i = 0; i < a->kernel_h * a->kernel_w; i++) {
        int64_t pixel;
        const double weight = weigh(a, image, v, i, &pixel);
        if (pixel >= 0) plane[pixel] += weight * dy;
    }
}

static void run_backward(OpInstance *op)
{
    const Pool2dAttr *a = op->attr;
    const int64_t *image = ref_out_dims(op, POOL_BWD_OUT_DX), *d = ref_in_dims(op, POOL_BWD_IN_DY);
    const uint8_t *indices = op->in[POOL_BWD_IN_INDEX].data;
    memset(op->out[POOL_BWD_OUT_DX].data, 0, op->out[POOL_BWD_OUT_DX].bytes);
    for (int64_t nc = 0; nc < d[0] * d[1]; nc++)
        for (int64_t p = 0; p < d[2]; p++)
            for (int64_t q = 0; q < d[3]; q++) {
                double *plane = ref_out(op, POOL_BWD_OUT_DX) + nc * image[2] * image[3];
                Window v = window_at(a, image, p, q);
                int64_t at = (nc * d[2] + p) * d[3] + q;
                double dy = ref_in(op, POOL_BWD_IN_DY)[at];
                switch (a->kind) {
                case POOL_MAX:
                    plane[(v.h0 + indices[at] / a->kernel_w) * image[3] + v.w0 +
                          indices[at] % a->kernel_w] += dy;
                    break;
                case POOL_AVG:
                case POOL_BLUR:
                case POOL_BLUR_REFLECT:
                case POOL_AVG_TILES:
                    pool_sum_bwd(a, plane, image, &v, dy);
                    break;
                case POOL_KIND_COUNT:
                    plane[0] = NAN;
                }
            }
}

static void run_global(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, GLOBAL_AVGPOOL_IN_X);
    const double *x = ref_in(op, GLOBAL_AVGPOOL_IN_X);
    double *y = ref_out(op, GLOBAL_AVGPOOL_OUT_Y);
    int64_t hw = d[2] * d[3];
    for (int64_t nc = 0; nc < d[0] * d[1]; nc++) {
        double sum = 0;
        for (int64_t i = 0; i < hw; i++) sum += x[nc * hw + i];
        y[nc] = sum / (double)hw;
    }
}

static void run_global_bwd(OpInstance *op)
{
    const int64_t *d = ref_out_dims(op, GLOBAL_AVGPOOL_BWD_OUT_DX);
    const double *dy = ref_in(op, GLOBAL_AVGPOOL_BWD_IN_DY);
    double *dx = ref_out(op, GLOBAL_AVGPOOL_BWD_OUT_DX);
    int64_t hw = d[2] * d[3];
    for (int64_t nc = 0; nc < d[0] * d[1]; nc++)
        for (int64_t i = 0; i < hw; i++) dx[nc * hw + i] = dy[nc] / (double)hw;
}

REF_LOOPS(ref_pool2d, run_forward);
REF_LOOPS(ref_pool2d_bwd, run_backward);
REF_LOOPS(ref_global_avgpool, run_global);
REF_LOOPS(ref_global_avgpool_bwd, run_global_bwd);
