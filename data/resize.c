/* resize.c - Pillow's bilinear resize, bit for bit.
 *
 * Each axis is a triangle filter whose support grows with the reduction, so a smaller image is a weighted mean and not
 * a sampling. The weights are made in double, normalised, and rounded to fixed point with 22 bits; a sum of pixel *
 * weight then fits an int32. The horizontal pass comes first and rounds to uint8, the vertical pass follows: doing it
 * in another order or in float gives other bytes. Only the columns and rows that are wanted are made, and only the
 * source rows that those need are touched.
 *
 * This is Pillow up to 12.x. Pillow 13 makes the vertical pass first where the height shrinks much more than the width,
 * which moves bytes of such crops by at most 1; everything else is the same there.
 *
 * Speed: the inner loops are written for the compiler's vectoriser; the vertical one is a plain multiply-add over a
 * row. */
#include "data/resize.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

#define PRECISION_BITS (32 - 8 - 2)
#define HALF           (1 << (PRECISION_BITS - 1))

typedef struct Taps { /* of the wanted outputs of one axis */
    int *start;       /* [count] first input pixel */
    int *length;      /* [count] how many */
    int32_t *weight;  /* [count][width] fixed point */
    int width;
} Taps;

static double scale_of(const ResizeAxis *axis)
{
    return (double)axis->in / (double)axis->out;
}

static double support_of(const ResizeAxis *axis)
{
    double scale = scale_of(axis);
    return scale < 1.0 ? 1.0 : scale;
}

static int taps_width(const ResizeAxis *axis)
{
    return (int)ceil(support_of(axis)) * 2 + 1;
}

static double triangle(double x)
{
    if (x < 0.0) x = -x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* The weights of output number out; exact is scratch for taps->width doubles. */
static void make_taps(const ResizeAxis *axis, int out, double *exact, int *start, int *length, int32_t *weight)
{
    double support = support_of(axis), per_pixel = 1.0 / support, center = (out + 0.5) * scale_of(axis), sum = 0.0;
    int low = (int)(center - support + 0.5), high = (int)(center + support + 0.5);
    if (low < 0) low = 0;
    if (high > axis->in) high = axis->in;
    for (int i = 0; i < high - low; i++) {
        exact[i] = triangle((i + low - center + 0.5) * per_pixel);
        sum += exact[i];
    }
    for (int i = 0; i < high - low; i++) {
        double w = sum != 0.0 ? exact[i] / sum : exact[i];
        weight[i] = (int32_t)(0.5 + w * (1 << PRECISION_BITS));
    }
    *start = low;
    *length = high - low;
}

/* Lays both axes' tables out in one scratch block: doubles first, then the ints. */
static Status plan_axes(const ResizeJob *job, ByteBuf *buf, Taps *x, Taps *y)
{
    const ResizeAxis *axes[2] = { &job->x, &job->y };
    Taps *taps[2] = { x, y };
    size_t doubles = 0, ints = 0;
    for (int i = 0; i < 2; i++) {
        taps[i]->width = taps_width(axes[i]);
        if ((size_t)taps[i]->width > doubles) doubles = (size_t)taps[i]->width;
        ints += (size_t)axes[i]->count * ((size_t)taps[i]->width + 2);
    }
    TRY(buf_reserve(buf, doubles * sizeof(double) + ints * sizeof(int32_t)));
    double *exact = (double *)(void *)buf->data;
    int32_t *next = (int32_t *)(void *)(exact + doubles);
    for (int i = 0; i < 2; i++) {
        const ResizeAxis *axis = axes[i];
        Taps *t = taps[i];
        t->start = next;
        t->length = t->start + axis->count;
        t->weight = t->length + axis->count;
        next = t->weight + (size_t)axis->count * (size_t)t->width;
        for (int k = 0; k < axis->count; k++)
            make_taps(axis, axis->first + k, exact, &t->start[k], &t->length[k],
                      t->weight + (size_t)k * (size_t)t->width);
    }
    return OK;
}

static inline uint8_t clip8(int32_t sum)
{
    int32_t v = sum >> PRECISION_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void horizontal_row_rgb(const uint8_t *restrict in, const Taps *taps, int count, bool flip,
                               uint8_t *restrict out)
{
    for (int k = 0; k < count; k++) {
        const uint8_t *p = in + 3 * (size_t)taps->start[k];
        const int32_t *w = taps->weight + (size_t)k * (size_t)taps->width;
        int32_t r = HALF, g = HALF, b = HALF;
        for (int i = 0; i < taps->length[k]; i++, p += 3) {
            r += p[0] * w[i];
            g += p[1] * w[i];
            b += p[2] * w[i];
        }
        uint8_t *o = out + 3 * (size_t)(flip ? count - 1 - k : k);
        o[0] = clip8(r);
        o[1] = clip8(g);
        o[2] = clip8(b);
    }
}

static void horizontal_row_grey(const uint8_t *restrict in, const Taps *taps, int count, bool flip,
                                uint8_t *restrict out)
{
    for (int k = 0; k < count; k++) {
        const uint8_t *p = in + taps->start[k];
        const int32_t *w = taps->weight + (size_t)k * (size_t)taps->width;
        int32_t sum = HALF;
        for (int i = 0; i < taps->length[k]; i++) sum += p[i] * w[i];
        out[flip ? count - 1 - k : k] = clip8(sum);
    }
}

/* out[i] = weighted sum over rows in[t * stride + i]; sums is scratch for bytes int32. */
static void vertical_row(const uint8_t *in, size_t stride, const int32_t *weight, int length, size_t bytes,
                         int32_t *restrict sums, uint8_t *restrict out)
{
    for (size_t i = 0; i < bytes; i++) sums[i] = HALF;
    for (int t = 0; t < length; t++) {
        const uint8_t *restrict row = in + (size_t)t * stride;
        int32_t w = weight[t];
        for (size_t i = 0; i < bytes; i++) sums[i] += row[i] * w;
    }
    for (size_t i = 0; i < bytes; i++) out[i] = clip8(sums[i]);
}

static void copy_row(const uint8_t *in, int channels, int count, bool flip, uint8_t *out)
{
    size_t c = (size_t)channels, n = (size_t)count;
    if (!flip) {
        memcpy(out, in, n * c);
        return;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < c; i++) out[(n - 1 - k) * c + i] = in[k * c + i];
}

static void copy_box(const ResizeJob *job)
{
    const uint8_t *in =
        job->source + (size_t)job->y.first * job->source_stride + (size_t)(job->x.first * job->channels);
    for (int y = 0; y < job->y.count; y++)
        copy_row(in + (size_t)y * job->source_stride, job->channels, job->x.count, job->flip,
                 job->target + (size_t)y * job->target_stride);
}

/* One source row to the wanted columns. */
static void horizontal_row(const ResizeJob *job, const Taps *taps, const uint8_t *in, uint8_t *out)
{
    if (job->x.in == job->x.out)
        copy_row(in + (size_t)(job->x.first * job->channels), job->channels, job->x.count, job->flip, out);
    else if (job->channels == 3) horizontal_row_rgb(in, taps, job->x.count, job->flip, out);
    else horizontal_row_grey(in, taps, job->x.count, job->flip, out);
}

Status resize_bilinear(const ResizeJob *job, ResizeScratch *scratch)
{
    ASSERT(job->channels == 1 || job->channels == 3);
    if (job->x.count == 0 || job->y.count == 0) return OK;
    if (job->x.in == job->x.out && job->y.in == job->y.out) {
        copy_box(job);
        return OK;
    }
    Taps x, y;
    TRY(plan_axes(job, &scratch->weights, &x, &y));
    int last = job->y.count - 1;
    int top = y.start[0], rows = y.start[last] + y.length[last] - top; /* source rows that the wanted rows need */
    size_t bytes = (size_t)job->x.count * (size_t)job->channels;
    size_t sums_bytes = bytes * sizeof(int32_t);
    TRY(buf_reserve(&scratch->rows, sums_bytes + bytes * (size_t)rows));
    int32_t *sums = (int32_t *)(void *)scratch->rows.data;
    uint8_t *middle = scratch->rows.data + sums_bytes;
    for (int r = 0; r < rows; r++)
        horizontal_row(job, &x, job->source + (size_t)(top + r) * job->source_stride, middle + (size_t)r * bytes);
    for (int k = 0; k < job->y.count; k++)
        vertical_row(middle + (size_t)(y.start[k] - top) * bytes, bytes, y.weight + (size_t)k * (size_t)y.width,
                     y.length[k], bytes, sums, job->target + (size_t)k * job->target_stride);
    return OK;
}

void resize_scratch_free(ResizeScratch *scratch)
{
    buf_free(&scratch->weights);
    buf_free(&scratch->rows);
}
