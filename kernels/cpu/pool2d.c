/* pool2d.c - maximum and average over windows, forward and backward, one channel block of an image
 * at a time.
 *
 * FORWARD takes the maximum of all lanes of a block at once. Padding never wins, of equal values
 * the first in window order does, and the first NaN wins over every number; the average divides by
 * the whole window, padding included, of tiles by what lies inside. Windows of 3x3 and 2x2 that lie
 * inside the image, which is nearly all there are, have code of their own with constant counts.
 * BACKWARD zeroes the plane and adds every output's gradient where it came from, in the order of
 * outputs; where dx is bf16, in a plane of f32, so that a sum is rounded once. The index tensor is
 * bytes and lies as y does.
 */
#include "kernels/cpu/blur.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"
#include <omp.h>
#include <string.h>

enum { MAX_TAPS = 256 }; /* an index is one byte */

typedef struct Range {
    int64_t first, last;
} Range; /* [first, last) */

typedef struct Pool { /* one op: geometry of x (or dx) and y (or dy) */
    const Pool2dAttr *attr;
    CpuView x, y;
    bool average;
    int64_t offset[MAX_TAPS]; /* positions from window element (0,0) to element k */
} Pool;

static void pool_init(Pool *k, const Pool2dAttr *attr, const OpTensor *x, const OpTensor *y)
{
    *k = (Pool){ .attr = attr, .x = cpu_view(x), .y = cpu_view(y) };
    ASSERT(k->x.b == k->y.b && attr->kernel_h * attr->kernel_w <= MAX_TAPS);
    switch (attr->kind) {
    case POOL_AVG:
    case POOL_AVG_TILES:
        k->average = true;
        break;
    case POOL_MAX:
        break;
    case POOL_BLUR:
    case POOL_BLUR_REFLECT: /* blur.h */
    case POOL_KIND_COUNT:
        ASSERT(!"a kind of pooling");
    }
    for (int i = 0; i < attr->kernel_h * attr->kernel_w; i++)
        k->offset[i] = i / attr->kernel_w * k->x.w + i % attr->kernel_w;
}

/* Elements of the window of output position p that lie inside [0, size). */
static inline Range taps_inside(int64_t p, int stride, int pad, int kernel_size, int64_t size)
{
    int64_t start = p * stride - pad, end = size - start;
    return (Range){ start < 0 ? -start : 0, end < kernel_size ? end : kernel_size };
}

/* A window of so many elements squared, none of which lies outside. */
static inline bool is_whole(const Pool2dAttr *a, Range r, Range s, int size)
{
    return a->kernel_w == size && a->kernel_h == size && r.last - r.first == size &&
           s.last - s.first == size;
}

/* What the sum of a window is divided by. */
static inline float divisor(const Pool2dAttr *a, Range r, Range s)
{
    if (a->kind == POOL_AVG_TILES) return (float)((r.last - r.first) * (s.last - s.first));
    return (float)(a->kernel_h * a->kernel_w);
}

/* ---- inner loops: one position, `lanes` channels. `step` elements from a position to the next,
 * `row` to the one below. ---- */

/* from: window element (0,0), which may lie outside the image; r and s say which elements do not.
 * From the last element to the first, so that "not below" makes the first of equals win. */
CPU_INLINE void max_position(const void *x, int64_t from, int64_t row, int64_t step,
                             int32_t kernel_w, Range r, Range s, float *best, int32_t *at,
                             DType type, int lanes)
{
    for (int l = 0; l < lanes; l++) {
        best[l] = cpu_lanes_load(x, from + (r.last - 1) * row + (s.last - 1) * step + l, type);
        at[l] = (int32_t)(r.last - 1) * kernel_w + (int32_t)(s.last - 1);
    }
    for (int64_t i = r.last - 1; i >= r.first; i--)
        for (int64_t j = s.last - 1; j >= s.first; j--) {
            int32_t here = (int32_t)i * kernel_w + (int32_t)j;
#pragma omp simd
            for (int l = 0; l < lanes; l++) {
                const float v = cpu_lanes_load(x, from + i * row + j * step + l, type);
                /* | and not ||: without a branch the loop vectorises */
                bool wins = (v >= best[l]) | (v != v);
                best[l] = wins ? v : best[l];
                at[l] = wins ? here : at[l];
            }
        }
}

CPU_INLINE void avg_position(const void *x, int64_t from, int64_t row, int64_t step, float taps,
                             Range r, Range s, float *y, DType type, int lanes)
{
    for (int l = 0; l < lanes; l++) y[l] = 0;
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++)
#pragma omp simd
            for (int l = 0; l < lanes; l++)
                y[l] += cpu_lanes_load(x, from + i * row + j * step + l, type);
    for (int l = 0; l < lanes; l++) y[l] /= taps;
}

/* ---- planes. index: of the block's first channel, or NULL; channels: how many of the lanes exist
 * ---- */

CPU_INLINE void forward_lanes(const Pool *k, const void *x, void *y, uint8_t *index, int channels,
                              DType type, int lanes)
{
    const Pool2dAttr *a = k->attr;
    const Range two = { 0, 2 }, three = { 0, 3 };
    const int64_t step = type == DTYPE_F32 ? lanes : k->x.step, row = k->x.w * step;
    for (int64_t p = 0; p < k->y.h; p++) {
        Range r = taps_inside(p, a->stride_h, a->pad_h, a->kernel_h, k->x.h);
        for (int64_t q = 0; q < k->y.w; q++) {
            Range s = taps_inside(q, a->stride_w, a->pad_w, a->kernel_w, k->x.w);
            const int64_t to = (p * k->y.w + q) * step, from = (p * a->stride_h - a->pad_h) * row +
                                                               (q * a->stride_w - a->pad_w) * step;
            float value[CPU_LANES];
            int32_t at[CPU_LANES] = { 0 };
            if (k->average)
                avg_position(x, from, row, step, divisor(a, r, s), r, s, value, type, lanes);
            else if (is_whole(a, r, s, 3))
                max_position(x, from, row, step, 3, three, three, value, at, type, lanes);
            else if (is_whole(a, r, s, 2))
                max_position(x, from, row, step, 2, two, two, value, at, type, lanes);
            else max_position(x, from, row, step, a->kernel_w, r, s, value, at, type, lanes);
            for (int l = 0; l < lanes; l++) cpu_lanes_store(y, to + l, value[l], type);
            if (!index) continue;
            for (int l = 0; l < lanes; l++) index[to + l] = (uint8_t)(l < channels ? at[l] : 0);
        }
    }
}

/* to: f32, `lanes` elements a position. */
CPU_INLINE void avg_position_bwd(const void *dy, int64_t from, float taps, Range r, Range s,
                                 float *dx, int64_t to, int64_t row, DType type, int lanes)
{
    float share[CPU_LANES];
    for (int l = 0; l < lanes; l++) share[l] = cpu_lanes_load(dy, from + l, type) / taps;
    for (int64_t i = r.first; i < r.last; i++)
        for (int64_t j = s.first; j < s.last; j++) {
            float *at = dx + (to + i * row + j * lanes);
#pragma omp simd
            for (int l = 0; l < lanes; l++) at[l] += share[l];
        }
}

/* dx: f32, `lanes` elements a position, which is how dx itself lies unless that is bf16. */
CPU_INLINE void backward_lanes(const Pool *k, const void *dy, const uint8_t *index, float *dx,
                               int channels, DType type, int lanes)
{
    const Pool2dAttr *a = k->attr;
    const int64_t step = type == DTYPE_F32 ? lanes : k->y.step, row = k->x.w * lanes;
    memset(dx, 0, (size_t)(k->x.h * row) * sizeof *dx);
    for (int64_t p = 0; p < k->y.h; p++) {
        Range r = taps_inside(p, a->stride_h, a->pad_h, a->kernel_h, k->x.h);
        for (int64_t q = 0; q < k->y.w; q++) {
            const int64_t from = (p * k->y.w + q) * step, to = (p * a->stride_h - a->pad_h) * row +
                                                               (q * a->stride_w - a->pad_w) * lanes;
            if (!index) {
                Range s = taps_inside(q, a->stride_w, a->pad_w, a->kernel_w, k->x.w);
                avg_position_bwd(dy, from, divisor(a, r, s), r, s, dx, to, row, type, lanes);
                continue;
            }
            for (int c = 0; c < channels; c++)
                dx[to + k->offset[index[from + c]] * lanes + c] +=
                    cpu_lanes_load(dy, from + c, type);
        }
    }
}

/* A plane of rows from one of f32. */
CPU_INLINE void round_lanes(const Pool *k, const float *from, void *to, DType type, int lanes)
{
    for (int64_t i = 0; i < k->x.hw; i++)
#pragma omp simd
        for (int l = 0; l < lanes; l++)
            cpu_lanes_store(to, i * k->x.step + l, from[i * lanes + l], type);
}

/* f(..., type, lanes) with both as constants. */
#define BY_LANES(f, view, lanes, ...)                                                              \
    do {                                                                                           \
        if ((view).type == DTYPE_F32 && (view).b == 1) f(__VA_ARGS__, DTYPE_F32, 1);               \
        else if ((view).type == DTYPE_F32 && (view).b == 8) f(__VA_ARGS__, DTYPE_F32, 8);          \
        else CPU_WALK(f, (view).type, lanes, __VA_ARGS__);                                         \
    } while (0)

CPU_CLONES static void forward_plane(const Pool *k, const void *x, void *y, uint8_t *index,
                                     int channels)
{
    BY_LANES(forward_lanes, k->x, channels, k, x, y, index, channels);
}

/* scratch: what lanes of all positions need in f32, or NULL where dx is f32 itself. */
CPU_CLONES static void backward_plane(const Pool *k, const void *dy, const uint8_t *index, void *dx,
                                      float *scratch, int channels)
{
    BY_LANES(backward_lanes, k->x, channels, k, dy, index, scratch ? scratch : (float *)dx,
             channels);
    if (scratch) CPU_WALK(round_lanes, DTYPE_BF16, channels, k, scratch, dx);
}

/* ---- the ops ---- */

static Status pool2d_prepare(OpInstance *op)
{
    OpTensor *y = &op->out[POOL_OUT_Y], *index = &op->out[POOL_OUT_INDEX];
    TRY(cpu_view_decide_like(y, &op->in[POOL_IN_X], op));
    if (cpu_blur_takes(op)) return cpu_blur_prepare(op, &op->in[POOL_IN_X], y);
    return index->desc.rank ? cpu_view_decide_like(index, y, op) : OK;
}

static void pool2d_run(OpInstance *op)
{
    Pool k;
    const void *x = op->in[POOL_IN_X].data;
    void *y = op->out[POOL_OUT_Y].data;
    uint8_t *index = op->out[POOL_OUT_INDEX].data;
    if (cpu_blur_takes(op)) {
        cpu_blur_run(op, &op->in[POOL_IN_X], &op->out[POOL_OUT_Y]);
        return;
    }
    pool_init(&k, op->attr, &op->in[POOL_IN_X], &op->out[POOL_OUT_Y]);
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        const int64_t to = cpu_view_plane(&k.y, plane);
        forward_plane(&k, cpu_lanes_at(x, cpu_view_plane(&k.x, plane), k.x.type),
                      cpu_lanes_at_out(y, to, k.x.type), index ? index + to : NULL,
                      (int)cpu_view_channels(&k.x, plane % k.x.cb));
    }
}

static Status pool2d_bwd_prepare(OpInstance *op)
{
    const OpTensor *dy = &op->in[POOL_BWD_IN_DY];
    if (op->in[POOL_BWD_IN_INDEX].desc.rank)
        TRY(cpu_view_decide_like(&op->in[POOL_BWD_IN_INDEX], dy, op));
    TRY(cpu_view_decide_like(&op->out[POOL_BWD_OUT_DX], dy, op));
    if (cpu_blur_takes(op)) return cpu_blur_prepare(op, dy, &op->out[POOL_BWD_OUT_DX]);
    const CpuView x = cpu_view(&op->out[POOL_BWD_OUT_DX]);
    if (x.type != DTYPE_F32)
        op->workspace_bytes =
            (size_t)cpu_backend_of(op)->threads * (size_t)(x.hw * CPU_LANES) * sizeof(float);
    return OK;
}

static void pool2d_bwd_run(OpInstance *op)
{
    const Pool2dAttr *attr = op->attr;
    Pool k;
    const void *dy = op->in[POOL_BWD_IN_DY].data;
    void *dx = op->out[POOL_BWD_OUT_DX].data;
    if (cpu_blur_takes(op)) {
        cpu_blur_run(op, &op->in[POOL_BWD_IN_DY], &op->out[POOL_BWD_OUT_DX]);
        return;
    }
    pool_init(&k, attr, &op->out[POOL_BWD_OUT_DX], &op->in[POOL_BWD_IN_DY]);
    const uint8_t *index = k.average ? NULL : op->in[POOL_BWD_IN_INDEX].data;
    int threads = cpu_team(op, k.x.n * k.x.cb * k.x.hw * k.x.b);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.x.n * k.x.cb; plane++) {
        const int64_t from = cpu_view_plane(&k.y, plane);
        float *scratch = NULL;
        if (k.x.type != DTYPE_F32)
            scratch = (float *)op->workspace + omp_get_thread_num() * k.x.hw * CPU_LANES;
        backward_plane(&k, cpu_lanes_at(dy, from, k.x.type), index ? index + from : NULL,
                       cpu_lanes_at_out(dx, cpu_view_plane(&k.x, plane), k.x.type), scratch,
                       (int)cpu_view_channels(&k.x, plane % k.x.cb));
    }
}

CPU_LOOPS(cpu_pool2d, "lanes", pool2d_prepare, pool2d_run);
CPU_LOOPS(cpu_pool2d_bwd, "lanes", pool2d_bwd_prepare, pool2d_bwd_run);
