/* pool2d.c - maximum and average over windows, forward and backward, one channel block of an image
 * at a time.
 *
 * FORWARD takes the maximum of all lanes of a block at once. Padding never wins, of equal values
 * the first in window order does, and the first NaN wins over every number; the average divides by
 * the whole window, padding included. Windows of 3x3 that lie inside the image, which is nearly all
 * there are, have code of their own with constant counts. BACKWARD zeroes the plane and adds every
 * output's gradient where it came from, in the order of outputs. The index tensor is plain N,C,P,Q
 * bytes whatever the layout of the activations. */
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { MAX_TAPS = 256 }; /* an index is one byte */

typedef struct Range {
    int64_t first, last;
} Range; /* [first, last) */

typedef struct Pool { /* one op: geometry of x (or dx) and y (or dy) */
    const Pool2dAttr *attr;
    CpuView x, y;
    bool average;
    int64_t offset[MAX_TAPS]; /* floats from window element (0,0) to element k */
} Pool;

static void pool_init(Pool *k, const Pool2dAttr *attr, const OpTensor *x, const OpTensor *y)
{
    *k = (Pool){ .attr = attr, .x = cpu_view(x), .y = cpu_view(y) };
    ASSERT(k->x.b == k->y.b && attr->kernel_h * attr->kernel_w <= MAX_TAPS);
    switch (attr->kind) {
    case POOL_AVG:
        k->average = true;
        break;
    case POOL_MAX:
        break;
    case POOL_KIND_COUNT:
        ASSERT(!"a kind of pooling");
    }
    for (int i = 0; i < attr->kernel_h * attr->kernel_w; i++)
        k->offset[i] = (i / attr->kernel_w * k->x.w + i % attr->kernel_w) * k->x.b;
}

/* Elements of the window of output position p that lie inside [0, size). */
static inline Range taps_inside(int64_t p, int stride, int pad, int kernel_size, int64_t size)
{
    int64_t start = p * stride - pad, end = size - start;
    return (Range){ start < 0 ? -start : 0, end < kernel_size ? end : kernel_size };
}

/* ---- inner loops: one output position, `lanes` channels. x (dx) points at window element (0,0),
 * which may lie outside the image; r and s say which elements do not. ---- */

/* From the last element to the first, so that "not below" makes the first of equals win. */
CPU_INLINE void max_position(const float *x, int64_t row, int32_t kernel_w, Range r, Range s,
                             float *y, int32_t *index, int lanes)
{
    float best[CPU_LANES];
    int32_t at[CPU_LANES];
    for (int l = 0; l < lanes; l++) {
        best[l] = x[(r.last - 1) * row + (s.last - 1) * lanes + l];
        at[l] = (int32_t)(r.last - 1) * kernel_w + (int32_t)(s.last - 1);
    }
    for (int64_t i = r.last - 1; i >= r.first; i--)
        for (int64_t j = s.last - 1; j >= s.first; j--) {
            const float *v = x + i * row + j * lanes;
            int32_t here = (int32_t)i * kernel_w + (int32_t)j;
#pragma omp simd
            for (int l = 0; l < lanes; l++) {
                /* | and not ||: without a branch the loop vectorises */
                bool wins = (v[l] >= best[l]) | (v[l] != v[l]);
                best[l] = wins ? v[l] : best[l];
                at[l] = wins ? here : at[l];
            }
        }
    for (int l = 0; l < lanes; l++) {
        y[l] = best[l];
        index[l] = at[l];
    }
}

CPU_INLINE void avg_position(const Pool *k, const float *x, Range r, Range s, float *y, int lanes)
{
    float sum[CPU_LANES] = { 0 }, taps = (float)(k->attr->kernel_h * k->attr->kernel_w);
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++) {
            const float *v = x + (i * k->x.w + j) * lanes;
#pragma omp simd
            for (int l = 0; l < lanes; l++) sum[l] += v[l];
        }
    for (int l = 0; l < lanes; l++) y[l] = sum[l] / taps;
}

CPU_INLINE void avg_position_bwd(const Pool *k, float *dx, Range r, Range s, const float *dy,
                                 int lanes)
{
    float share[CPU_LANES], taps = (float)(k->attr->kernel_h * k->attr->kernel_w);
    for (int l = 0; l < lanes; l++) share[l] = dy[l] / taps;
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++) {
            float *to = dx + (i * k->x.w + j) * lanes;
#pragma omp simd
            for (int l = 0; l < lanes; l++) to[l] += share[l];
        }
}

/* ---- planes ---- */

/* index: plain bytes of the block's first channel, or NULL; channels: how many of the lanes
 * exist. */
CPU_INLINE void forward_lanes(const Pool *k, const float *x, float *y, uint8_t *index,
                              int64_t channels, int lanes)
{
    const Pool2dAttr *a = k->attr;
    const Range three = { 0, 3 };
    int64_t row = k->x.w * lanes;
    int32_t at[CPU_LANES] = { 0 };
    for (int64_t p = 0; p < k->y.h; p++) {
        Range r = taps_inside(p, a->stride_h, a->pad_h, a->kernel_h, k->x.h);
        for (int64_t q = 0; q < k->y.w; q++) {
            Range s = taps_inside(q, a->stride_w, a->pad_w, a->kernel_w, k->x.w);
            int64_t to = p * k->y.w + q;
            const float *from =
                x + ((p * a->stride_h - a->pad_h) * k->x.w + q * a->stride_w - a->pad_w) * lanes;
            if (k->average) {
                avg_position(k, from, r, s, y + to * lanes, lanes);
                continue;
            }
            if (a->kernel_w == 3 && r.last - r.first == 3 && s.last - s.first == 3 &&
                a->kernel_h == 3)
                max_position(from, row, 3, three, three, y + to * lanes, at, lanes);
            else max_position(from, row, a->kernel_w, r, s, y + to * lanes, at, lanes);
            for (int64_t c = 0; index != NULL && c < channels; c++)
                index[c * k->y.hw + to] = (uint8_t)at[c];
        }
    }
}

CPU_CLONES static void forward_plane(const Pool *k, const float *x, float *y, uint8_t *index,
                                     int64_t channels)
{
    if (k->x.b == 16) forward_lanes(k, x, y, index, channels, 16);
    else if (k->x.b == 8) forward_lanes(k, x, y, index, channels, 8);
    else forward_lanes(k, x, y, index, channels, 1);
}

CPU_INLINE void backward_lanes(const Pool *k, const float *dy, const uint8_t *index, float *dx,
                               int64_t channels, int lanes)
{
    const Pool2dAttr *a = k->attr;
    for (int64_t p = 0; p < k->y.h; p++) {
        Range r = taps_inside(p, a->stride_h, a->pad_h, a->kernel_h, k->x.h);
        for (int64_t q = 0; q < k->y.w; q++) {
            int64_t from = p * k->y.w + q;
            float *to =
                dx + ((p * a->stride_h - a->pad_h) * k->x.w + q * a->stride_w - a->pad_w) * lanes;
            if (index == NULL) {
                Range s = taps_inside(q, a->stride_w, a->pad_w, a->kernel_w, k->x.w);
                avg_position_bwd(k, to, r, s, dy + from * lanes, lanes);
                continue;
            }
            for (int64_t c = 0; c < channels; c++)
                to[k->offset[index[c * k->y.hw + from]] + c] += dy[from * lanes + c];
        }
    }
}

CPU_CLONES static void backward_plane(const Pool *k, const float *dy, const uint8_t *index,
                                      float *dx, int64_t channels)
{
    memset(dx, 0, (size_t)(k->x.hw * k->x.b) * sizeof *dx);
    if (k->x.b == 16) backward_lanes(k, dy, index, dx, channels, 16);
    else if (k->x.b == 8) backward_lanes(k, dy, index, dx, channels, 8);
    else backward_lanes(k, dy, index, dx, channels, 1);
}

/* ---- the ops ---- */

static Status pool2d_prepare(OpInstance *op)
{
    TRY(cpu_view_decide_like(&op->out[POOL_OUT_Y], &op->in[POOL_IN_X], op));
    if (op->out[POOL_OUT_INDEX].desc.rank != 0) cpu_decide_plain(&op->out[POOL_OUT_INDEX]);
    op->implementation = "lanes";
    return OK;
}

static Status pool2d_run(OpInstance *op, Stream *stream)
{
    Pool k;
    const float *x = op->in[POOL_IN_X].data;
    float *y = op->out[POOL_OUT_Y].data;
    uint8_t *index = op->out[POOL_OUT_INDEX].data;
    pool_init(&k, op->attr, &op->in[POOL_IN_X], &op->out[POOL_OUT_Y]);
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        int64_t block = plane % k.x.cb, channel = plane / k.x.cb * k.x.c + block * k.x.b;
        forward_plane(&k, x + plane * k.x.hw * k.x.b, y + plane * k.y.hw * k.y.b,
                      index ? index + channel * k.y.hw : NULL, cpu_view_channels(&k.x, block));
    }
    return OK;
}

static Status pool2d_bwd_prepare(OpInstance *op)
{
    op->implementation = "lanes";
    return cpu_view_decide_like(&op->out[POOL_BWD_OUT_DX], &op->in[POOL_BWD_IN_DY], op);
}

static Status pool2d_bwd_run(OpInstance *op, Stream *stream)
{
    const Pool2dAttr *attr = op->attr;
    Pool k;
    const float *dy = op->in[POOL_BWD_IN_DY].data;
    pool_init(&k, attr, &op->out[POOL_BWD_OUT_DX], &op->in[POOL_BWD_IN_DY]);
    const uint8_t *index = k.average ? NULL : op->in[POOL_BWD_IN_INDEX].data;
    float *dx = op->out[POOL_BWD_OUT_DX].data;
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        int64_t block = plane % k.x.cb, channel = plane / k.x.cb * k.x.c + block * k.x.b;
        backward_plane(&k, dy + plane * k.y.hw * k.y.b, index ? index + channel * k.y.hw : NULL,
                       dx + plane * k.x.hw * k.x.b, cpu_view_channels(&k.x, block));
    }
    return OK;
}

const OpImpl cpu_pool2d = { .prepare = pool2d_prepare,
                            .bind = cpu_bind_nothing,
                            .run = pool2d_run };
const OpImpl cpu_pool2d_bwd = { .prepare = pool2d_bwd_prepare,
                                .bind = cpu_bind_nothing,
                                .run = pool2d_bwd_run };
