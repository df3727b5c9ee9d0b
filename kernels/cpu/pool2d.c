/* pool2d.c - maximum and average over windows, forward and backward, one channel block of an image at a time.
 *
 * FORWARD takes the maximum of all lanes of a block at once. Padding never wins, of equal values the first in window
 * order does, and a NaN wins over every number; the average divides by the whole window, padding included. BACKWARD
 * gathers: every input position sums over the few windows that cover it, in their order, so it is written once and
 * never zeroed before. Of a max pool, only windows whose index names this position count. The index tensor is plain
 * N,C,P,Q bytes; backward turns a block's bytes into lanes first, in a part of the workspace that belongs to the
 * thread. */
#include "kernels/cpu/lanes.h"
#include <omp.h>

enum { SCRATCH_ALIGN = 64 };

typedef struct Range {
    int64_t first, last;
} Range; /* [first, last) */

typedef struct Pool { /* one op: geometry of x (or dx) and y (or dy) */
    const Pool2dAttr *attr;
    CpuView x, y;
} Pool;

/* Elements of the window of output position p that lie inside [0, size). */
static inline Range taps_inside(int64_t p, int stride, int pad, int window, int64_t size)
{
    int64_t start = p * stride - pad, first = start < 0 ? -start : 0,
            last = size - start < window ? size - start : window;
    return (Range){first, last};
}

/* Output positions in [0, outputs) whose window covers input position h. */
static inline Range windows_over(int64_t h, int stride, int pad, int window, int64_t outputs)
{
    int64_t at = h + pad, first = at < window ? 0 : (at - window) / stride + 1, last = at / stride + 1;
    return (Range){first, last < outputs ? last : outputs};
}

/* ---- inner loops: one output (or input) position, `lanes` channels ---- */

CPU_INLINE void max_position(const Pool *k, const float *x, Range r, Range s, float *y, int32_t *index, int lanes)
{
    /* x points at window element (0,0), which may lie outside; r and s say what does not */
    int64_t row = k->x.w * lanes;
    float best[CPU_LANES];
    int32_t at[CPU_LANES];
    for (int l = 0; l < lanes; l++) {
        best[l] = x[r.first * row + s.first * lanes + l];
        at[l] = (int32_t)(r.first * k->attr->window_w + s.first);
    }
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++) {
            const float *v = x + i * row + j * lanes;
            int32_t here = (int32_t)(i * k->attr->window_w + j);
#pragma omp simd
            for (int l = 0; l < lanes; l++) {
                bool wins = (v[l] > best[l]) | ((v[l] != v[l]) & (best[l] == best[l]));
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
    float sum[CPU_LANES] = {0}, taps = (float)(k->attr->window_h * k->attr->window_w);
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++) {
            const float *v = x + (i * k->x.w + j) * lanes;
#pragma omp simd
            for (int l = 0; l < lanes; l++) sum[l] += v[l];
        }
    for (int l = 0; l < lanes; l++) y[l] = sum[l] / taps;
}

/* Gradient of one input position from windows p x q; index NULL: average. */
CPU_INLINE void gather_position(const Pool *k, const float *dy, const uint8_t *index, int64_t h, int64_t w, Range p,
                                Range q, float *dx, int lanes)
{
    const Pool2dAttr *a = k->attr;
    float sum[CPU_LANES] = {0}, taps = (float)(a->window_h * a->window_w);
    for (int64_t i = p.first; i < p.last; i++)
        for (int64_t j = q.first; j < q.last; j++) {
            int64_t from = (i * k->y.w + j) * lanes;
            int32_t here = (int32_t)((h + a->pad_h - i * a->stride_h) * a->window_w + w + a->pad_w - j * a->stride_w);
#pragma omp simd
            for (int l = 0; l < lanes; l++) sum[l] += index == NULL || index[from + l] == here ? dy[from + l] : 0.0f;
        }
    for (int l = 0; l < lanes; l++) dx[l] = index == NULL ? sum[l] / taps : sum[l];
}

/* ---- planes ---- */

/* index: plain bytes of the block's first channel, or NULL; channels: how many of the lanes exist. */
CPU_INLINE void forward_lanes(const Pool *k, const float *x, float *y, uint8_t *index, int64_t channels, int lanes)
{
    const Pool2dAttr *a = k->attr;
    int32_t at[CPU_LANES] = {0};
    for (int64_t p = 0; p < k->y.h; p++)
        for (int64_t q = 0; q < k->y.w; q++) {
            Range r = taps_inside(p, a->stride_h, a->pad_h, a->window_h, k->x.h),
                  s = taps_inside(q, a->stride_w, a->pad_w, a->window_w, k->x.w);
            int64_t to = p * k->y.w + q, from = (p * a->stride_h - a->pad_h) * k->x.w + q * a->stride_w - a->pad_w;
            if (a->kind == POOL_AVG) {
                avg_position(k, x + from * lanes, r, s, y + to * lanes, lanes);
                continue;
            }
            max_position(k, x + from * lanes, r, s, y + to * lanes, at, lanes);
            for (int64_t c = 0; index != NULL && c < channels; c++) index[c * k->y.hw + to] = (uint8_t)at[c];
        }
}

CPU_CLONES static void forward_plane(const Pool *k, const float *x, float *y, uint8_t *index, int64_t channels)
{
    if (k->x.b == 16)
        forward_lanes(k, x, y, index, channels, 16);
    else if (k->x.b == 8)
        forward_lanes(k, x, y, index, channels, 8);
    else
        forward_lanes(k, x, y, index, channels, 1);
}

CPU_INLINE void backward_lanes(const Pool *k, const float *dy, const uint8_t *index, float *dx, int lanes)
{
    const Pool2dAttr *a = k->attr;
    for (int64_t h = 0; h < k->x.h; h++)
        for (int64_t w = 0; w < k->x.w; w++) {
            Range p = windows_over(h, a->stride_h, a->pad_h, a->window_h, k->y.h),
                  q = windows_over(w, a->stride_w, a->pad_w, a->window_w, k->y.w);
            float *to = dx + (h * k->x.w + w) * lanes;
            if (index != NULL)
                gather_position(k, dy, index, h, w, p, q, to, lanes);
            else
                gather_position(k, dy, NULL, h, w, p, q, to, lanes);
        }
}

CPU_CLONES static void backward_plane(const Pool *k, const float *dy, const uint8_t *index, float *dx)
{
    if (k->x.b == 16)
        backward_lanes(k, dy, index, dx, 16);
    else if (k->x.b == 8)
        backward_lanes(k, dy, index, dx, 8);
    else
        backward_lanes(k, dy, index, dx, 1);
}

/* [c][hw] bytes -> [hw][b]; lanes without a channel become 0, which is harmless: their dy is zero. */
static void index_to_lanes(const Pool *k, const uint8_t *plain, int64_t channels, uint8_t *lanes)
{
    for (int64_t i = 0; i < k->y.hw; i++)
        for (int64_t l = 0; l < k->y.b; l++) lanes[i * k->y.b + l] = l < channels ? plain[l * k->y.hw + i] : 0;
}

/* ---- the ops ---- */

static Status pool2d_prepare(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[POOL_IN_X], op));
    if (op->in[POOL_IN_X].layout) /* y lies as x does: in blocks, or plain */
        cpu_decide_activation(cpu_backend_of(op), &op->out[POOL_OUT_Y]);
    else
        cpu_decide_plain(&op->out[POOL_OUT_Y]);
    if (op->out[POOL_OUT_INDEX].desc.rank != 0) cpu_decide_plain(&op->out[POOL_OUT_INDEX]);
    op->implementation = "lanes";
    return OK;
}

static Status pool2d_run(OpInstance *op, Stream *stream)
{
    Pool k = {.attr = op->attr, .x = cpu_view(&op->in[POOL_IN_X]), .y = cpu_view(&op->out[POOL_OUT_Y])};
    const float *x = op->in[POOL_IN_X].data;
    float *y = op->out[POOL_OUT_Y].data;
    uint8_t *index = op->out[POOL_OUT_INDEX].data;
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
    (void)stream; /* CPU ops run when called */
    ASSERT(k.x.b == k.y.b);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        int64_t block = plane % k.x.cb, channel = plane / k.x.cb * k.x.c + block * k.x.b;
        forward_plane(&k, x + plane * k.x.hw * k.x.b, y + plane * k.y.hw * k.y.b,
                      index ? index + channel * k.y.hw : NULL, cpu_block_channels(&k.x, block));
    }
    return OK;
}

static size_t scratch_bytes(const CpuView *y)
{
    return ((size_t)(y->hw * y->b) + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

static Status pool2d_bwd_prepare(OpInstance *op)
{
    const Pool2dAttr *attr = op->attr;
    const OpTensor *dy = &op->in[POOL_BWD_IN_DY];
    TRY(cpu_require_decided(dy, op));
    if (dy->layout)
        cpu_decide_activation(cpu_backend_of(op), &op->out[POOL_BWD_OUT_DX]);
    else
        cpu_decide_plain(&op->out[POOL_BWD_OUT_DX]);
    CpuView y = cpu_view(dy);
    if (attr->kind == POOL_MAX) op->workspace_bytes = (size_t)cpu_backend_of(op)->threads * scratch_bytes(&y);
    op->implementation = "lanes";
    return OK;
}

static Status pool2d_bwd_run(OpInstance *op, Stream *stream)
{
    const Pool2dAttr *attr = op->attr;
    Pool k = {.attr = attr, .x = cpu_view(&op->out[POOL_BWD_OUT_DX]), .y = cpu_view(&op->in[POOL_BWD_IN_DY])};
    const float *dy = op->in[POOL_BWD_IN_DY].data;
    const uint8_t *index = attr->kind == POOL_MAX ? op->in[POOL_BWD_IN_INDEX].data : NULL;
    float *dx = op->out[POOL_BWD_OUT_DX].data;
    uint8_t *workspace = op->workspace;
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
    (void)stream; /* CPU ops run when called */
    ASSERT(k.x.b == k.y.b);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        int64_t block = plane % k.x.cb, channel = plane / k.x.cb * k.x.c + block * k.x.b;
        const uint8_t *lanes = NULL;
        if (index != NULL) {
            uint8_t *scratch = workspace + (size_t)omp_get_thread_num() * scratch_bytes(&k.y);
            index_to_lanes(&k, index + channel * k.y.hw, cpu_block_channels(&k.x, block), scratch);
            lanes = scratch;
        }
        backward_plane(&k, dy + plane * k.y.hw * k.y.b, lanes, dx + plane * k.x.hw * k.x.b);
    }
    return OK;
}

const OpImpl cpu_pool2d = {.prepare = pool2d_prepare, .bind = cpu_bind_nothing, .run = pool2d_run};
const OpImpl cpu_pool2d_bwd = {.prepare = pool2d_bwd_prepare, .bind = cpu_bind_nothing, .run = pool2d_bwd_run};
