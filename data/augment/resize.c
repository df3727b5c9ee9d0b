/* resize.c - Pillow's bilinear and bicubic resize, bit for bit: weights, order of passes, and which
 * kernels run.
 *
 * Each axis is a filter whose support grows with the reduction, so a smaller image is a weighted
 * mean and not a sampling. The weights are made in double, normalised, and rounded to fixed point
 * with 22 bits; a sum of pixel * weight then fits an int32. The horizontal pass comes first and
 * rounds to uint8, the vertical pass follows: doing it in another order or in float gives other
 * bytes. Only the columns and rows that are wanted are made, and only the source rows that those
 * need are touched.
 *
 * This is Pillow up to 12.x. Pillow 13 makes the vertical pass first where the height shrinks much
 * more than the width. That changes bytes of such crops by at most 1 with the bilinear filter, and
 * by more than 20 with the bicubic one, whose passes clip overshoot (measured in
 * docs/laboratory/data-measurements.md).
 *
 * Rows that the horizontal pass has made wait in a ring just long enough for the vertical pass, so
 * they stay in the first-level cache. Mirroring costs nothing: the table of columns is laid out
 * backwards. */
#include "data/augment/resize.h"
#include "data/augment/resize_kernels.h"
#include <math.h>
#include <string.h>

/* bytes after a row in the ring; a multiple of the alignment of int pointers */
#define ROW_SLACK 64

/* ---- filters ---- */

static double triangle(double x)
{
    if (x < 0.0) x = -x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic with a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5;
    if (x < 0.0) x = -x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

typedef struct FilterRow {
    double radius; /* beyond which the value is 0 */
    double (*value)(double x);
} FilterRow;

static const FilterRow filters[RESIZE_FILTER_COUNT] = {
    [RESIZE_BILINEAR] = { 1.0, triangle },
    [RESIZE_BICUBIC] = { 2.0, cubic },
};

static double scale_of(const ResizeAxis *axis)
{
    return (double)axis->in / (double)axis->out;
}

/* How much wider than one pixel the filter is. */
static double stretch_of(const ResizeAxis *axis)
{
    double scale = scale_of(axis);
    return scale < 1.0 ? 1.0 : scale;
}

/* Input pixels *low .. *high - 1 that output number out depends on. */
static void taps_of(const ResizeAxis *axis, ResizeFilter filter, int out, int *low, int *high)
{
    double support = filters[filter].radius * stretch_of(axis),
           center = (out + 0.5) * scale_of(axis);
    *low = (int)(center - support + 0.5);
    *high = (int)(center + support + 0.5);
    if (*low < 0) *low = 0;
    if (*high > axis->in) *high = axis->in;
}

void resize_needs(const ResizeAxis *axis, ResizeFilter filter, int *low, int *high)
{
    int unused;
    taps_of(axis, filter, axis->first, low, &unused);
    taps_of(axis, filter, axis->first + axis->count - 1, &unused, high);
}

/* The weights of output number out, which depends on length pixels from low on; exact is scratch
 * for them. */
static void make_weights(const ResizeAxis *axis, ResizeFilter filter, int out, int low, int length,
                         double *exact, int32_t *weight)
{
    double (*value)(double) = filters[filter].value;
    double per_pixel = 1.0 / stretch_of(axis), center = (out + 0.5) * scale_of(axis), sum = 0.0;
    for (int i = 0; i < length; i++) {
        exact[i] = value((i + low - center + 0.5) * per_pixel);
        sum += exact[i];
    }
    for (int i = 0; i < length; i++) {
        double w = sum != 0.0 ? exact[i] / sum : exact[i];
        weight[i] = (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << RESIZE_BITS));
    }
}

/* ---- tables ---- */

typedef struct Plan {
    const ResizeKernels *across, *down; /* whose packed tables these are */
    ResizeTaps x, y;
    double *exact;
} Plan;

static int widest(const ResizeAxis *axis, ResizeFilter filter)
{
    return (int)ceil(filters[filter].radius * stretch_of(axis)) * 2 + 1;
}

static void fill_taps(ResizeTaps *t, const ResizeAxis *axis, ResizeFilter filter, int origin,
                      bool mirror, double *exact)
{
    t->longest = 0;
    for (int k = 0; k < t->count; k++) {
        int low, high, out = axis->first + (mirror ? t->count - 1 - k : k);
        int32_t *weight = t->weight + (size_t)k * (size_t)t->width;
        taps_of(axis, filter, out, &low, &high);
        make_weights(axis, filter, out, low, high - low, exact, weight);
        t->start[k] = low - origin;
        t->length[k] = high - low;
        if (t->length[k] > t->longest) t->longest = t->length[k];
    }
}

/* Gives an axis its part of a block of ints; what follows it is returned. */
static int32_t *lay_out(ResizeTaps *t, const ResizeAxis *axis, int width, int32_t *next)
{
    t->count = axis->count;
    t->width = width;
    t->start = next;
    t->length = t->start + t->count;
    t->weight = t->length + t->count;
    return t->weight + (size_t)t->count * (size_t)width;
}

/* Both axes' tables as one scratch block: doubles first, then the ints. */
static Status plan_axes(const ResizeJob *job, ByteBuf *buf, Plan *p)
{
    int wx = widest(&job->x, job->filter), wy = widest(&job->y, job->filter), low, high;
    size_t doubles = (size_t)(wx > wy ? wx : wy);
    size_t ints = (size_t)job->x.count * ((size_t)wx + 2) + (size_t)job->y.count * ((size_t)wy + 2);
    size_t plain = doubles * sizeof(double) + ints * sizeof(int32_t);
    /* Packed: at most twice the words and three more taps, and a start. */
    size_t packed =
        (size_t)job->x.count * (2 * (size_t)wx + 8) + (size_t)job->y.count * (2 * (size_t)wy + 8);
    TRY(byte_buf_reserve(buf, plain + packed * sizeof(int32_t)));
    p->exact = (double *)(void *)buf->data;
    int32_t *next = lay_out(&p->x, &job->x, wx, (int32_t *)(void *)(p->exact + doubles));
    next = lay_out(&p->y, &job->y, wy, next);
    fill_taps(&p->x, &job->x, job->filter, job->source_x, job->flip, p->exact);
    fill_taps(&p->y, &job->y, job->filter, job->source_y, false, p->exact);
    resize_needs(&job->x, job->filter, &low, &high);
    p->x.extent = high - job->source_x;
    resize_needs(&job->y, job->filter, &low, &high);
    p->y.extent = high - job->source_y;
    p->x.packed = next;
    return OK;
}

static int32_t *pack(ResizeTaps *t, const ResizeKernels *kernels, int padded, bool movable,
                     int32_t *at)
{
    t->packed = at;
    t->padded = padded;
    t->words = kernels->words(padded);
    kernels->pack(t, movable);
    return at + (size_t)t->count * (size_t)t->words;
}

/* A source narrower than the padded taps, or a grey one, is left to the portable kernel. */
static void choose_kernels(const ResizeKernels *kernels, const ResizeJob *job, Plan *p)
{
    p->across = p->down = kernels;
    p->x.padded = p->x.longest;
    p->y.padded = p->y.longest;
    if (!kernels->pack) return;
    int32_t *next = p->x.packed;
    int padded = kernels->pad_across(p->x.longest);
    if (padded > p->x.extent || job->channels != 3) p->across = &resize_kernels_portable;
    else next = pack(&p->x, kernels, padded, true, next);
    pack(&p->y, kernels, kernels->pad_down(p->y.longest), false, next);
}

/* ---- rows ---- */

static void copy_row(const uint8_t *in, int pixel_bytes, int channels, int count, bool flip,
                     uint8_t *out)
{
    if (pixel_bytes == channels && !flip) {
        memcpy(out, in, (size_t)count * (size_t)channels);
        return;
    }
    ptrdiff_t step = flip ? -channels : channels;
    if (flip) out += (ptrdiff_t)(count - 1) * channels;
    for (int k = 0; k < count; k++, in += pixel_bytes, out += step)
        for (int c = 0; c < channels; c++) out[c] = in[c];
}

static void copy_box(const ResizeJob *job)
{
    const uint8_t *in = job->source + (size_t)(job->y.first - job->source_y) * job->source_stride +
                        (size_t)(job->x.first - job->source_x) * (size_t)job->pixel_bytes;
    for (int y = 0; y < job->y.count; y++)
        copy_row(in + (size_t)y * job->source_stride, job->pixel_bytes, job->channels, job->x.count,
                 job->flip, job->target + (size_t)y * job->target_stride);
}

typedef struct Ring { /* of rows that the horizontal pass has made */
    uint8_t *rows, *widened;
    const uint8_t **pointers; /* [y.padded] */
    size_t stride, widened_stride;
    int capacity; /* rows, a multiple of RESIZE_ROWS */
    int top;      /* first source row that is needed */
    int made;     /* next source row to make */
} Ring;

static Status ring_reserve(Ring *r, ByteBuf *buf, const ResizeJob *job, const Plan *p)
{
    size_t bytes = (size_t)job->x.count * (size_t)job->channels;
    r->capacity = (p->y.longest + 2 * RESIZE_ROWS - 1) / RESIZE_ROWS * RESIZE_ROWS;
    r->stride = (bytes + ROW_SLACK) / ROW_SLACK * ROW_SLACK + ROW_SLACK;
    r->widened_stride = ((size_t)p->x.extent * 4 + ROW_SLACK) / ROW_SLACK * ROW_SLACK;
    size_t pointers = (size_t)p->y.padded * sizeof *r->pointers;
    size_t widened = r->widened_stride * RESIZE_ROWS;
    TRY(byte_buf_reserve(buf, pointers + widened + r->stride * (size_t)r->capacity));
    r->pointers = (const uint8_t **)(void *)buf->data;
    r->widened = buf->data + pointers;
    r->rows = r->widened + widened;
    r->made = r->top = p->y.start[0];
    return OK;
}

/* Packed colour to four bytes a pixel, which is what the kernels across read. */
static const uint8_t *widen(Ring *r, const uint8_t *in, size_t in_stride, int rows, int pixels)
{
    for (int row = 0; row < rows; row++) {
        const uint8_t *from = in + (size_t)row * in_stride;
        uint8_t *to = r->widened + (size_t)row * r->widened_stride;
        for (int i = 0; i < pixels; i++, from += 3, to += 4) {
            to[0] = from[0];
            to[1] = from[1];
            to[2] = from[2];
            to[3] = 0;
        }
    }
    return r->widened;
}

/* One row by weights in plain C, for any kind of pixel. */
static void portable_row(const ResizeTaps *t, const uint8_t *in, int pixel_bytes, int channels,
                         uint8_t *out)
{
    for (int k = 0; k < t->count; k++, out += channels) {
        const uint8_t *p = in + (size_t)t->start[k] * (size_t)pixel_bytes;
        const int32_t *w = t->weight + (size_t)k * (size_t)t->width;
        for (int c = 0; c < channels; c++) {
            int32_t sum = RESIZE_HALF;
            for (int i = 0; i < t->length[k]; i++) sum += p[i * pixel_bytes + c] * w[i];
            out[c] = resize_clip(sum);
        }
    }
}

static void make_rows(const ResizeJob *job, const Plan *p, Ring *r)
{
    int left = p->y.extent - r->made, rows = left < RESIZE_ROWS ? left : RESIZE_ROWS,
        at = (r->made - r->top) % r->capacity;
    if (rows > r->capacity - at) rows = r->capacity - at;
    const uint8_t *in = job->source + (size_t)r->made * job->source_stride;
    size_t in_stride = job->source_stride;
    uint8_t *out = r->rows + (size_t)at * r->stride;
    r->made += rows;
    if (job->x.in != job->x.out && p->across->across) {
        if (job->pixel_bytes == 3) {
            in = widen(r, in, in_stride, rows, p->x.extent);
            in_stride = r->widened_stride;
        }
        p->across->across(&p->x, in, in_stride, rows, out, r->stride);
        return;
    }
    size_t skipped = (size_t)(job->x.first - job->source_x) * (size_t)job->pixel_bytes;
    for (int row = 0; row < rows; row++, in += in_stride, out += r->stride) {
        if (job->x.in == job->x.out)
            copy_row(in + skipped, job->pixel_bytes, job->channels, job->x.count, job->flip, out);
        else portable_row(&p->x, in, job->pixel_bytes, job->channels, out);
    }
}

static void make_output(const ResizeJob *job, const Plan *p, Ring *r, int k)
{
    int start = p->y.start[k], end = start + p->y.length[k];
    while (r->made < end) make_rows(job, p, r);
    for (int i = 0; i < p->y.padded; i++) {
        int row = start + i < end ? start + i : end - 1;
        r->pointers[i] = r->rows + (size_t)((row - r->top) % r->capacity) * r->stride;
    }
    p->down->down(&p->y, k, r->pointers, (size_t)job->x.count * (size_t)job->channels,
                  job->target + (size_t)k * job->target_stride);
}

Status resize_image_with(const ResizeKernels *kernels, const ResizeJob *job, ResizeScratch *scratch)
{
    ASSERT(job->channels == 1 || job->channels == 3);
    if (job->x.count == 0 || job->y.count == 0) return OK;
    if (job->x.in == job->x.out && job->y.in == job->y.out) {
        copy_box(job);
        return OK;
    }
    Plan plan;
    Ring ring;
    TRY(plan_axes(job, &scratch->weights, &plan));
    choose_kernels(kernels, job, &plan);
    TRY(ring_reserve(&ring, &scratch->rows, job, &plan));
    for (int k = 0; k < job->y.count; k++) make_output(job, &plan, &ring, k);
    return OK;
}

Status resize_image(const ResizeJob *job, ResizeScratch *scratch)
{
    const ResizeKernels *kernels = resize_kernels_avx512();
    if (!kernels) kernels = resize_kernels_avx2();
    return resize_image_with(kernels ? kernels : &resize_kernels_portable, job, scratch);
}

void resize_scratch_free(ResizeScratch *scratch)
{
    byte_buf_free(&scratch->weights);
    byte_buf_free(&scratch->rows);
}
