/* depthwise.c - dw[c,r,s] = sum over n, p, q of x[n,c,h,w] dy[n,c,p,q] with h = p stride + r - pad,
 * w likewise: sums of a channel block of one image first, in f32, then those of all images in
 * order, in double. Each value is read for every tap, so x is copied first, with the zeros beside
 * it that windows reach, and what is rows becomes f32 blocks. */
#include "kernels/cpu/depthwise.h"
#include <omp.h>
#include <string.h>

bool cpu_depthwise_takes(const ConvProblem *p)
{
    const ConvGeometry *g = p->geometry;
    const bool lie_alike = p->x->block > 1 ? p->x->block == p->y->block : p->x->rows && p->y->rows;
    return p->direction == CONV_BWD_WEIGHTS && lie_alike && conv2d_depthwise(g) &&
           g->w[4] <= DEPTHWISE_MAX_COLUMNS && g->pad_before[1] < g->w[4];
}

static CpuView view_of(const int64_t *dims, const Layout *layout)
{
    return cpu_view(&(OpTensor){ .desc = tensor_desc(DTYPE_F32, 4, dims), .layout = layout });
}

/* Of a thread's copies of a plane of x and one of dy. */
static int64_t copied_positions(const CpuDepthwise *d)
{
    return d->x.h * d->width + (d->y.rows ? d->y.hw : 0);
}

Status cpu_depthwise_prepare(CpuBackend *b, CpuDepthwise *out, const ConvProblem *p,
                             const Layout **parts)
{
    const ConvGeometry *g = p->geometry;
    *out = (CpuDepthwise){ .x = view_of(g->x, p->x),
                           .y = view_of(g->y, p->y),
                           .rows = g->w[3],
                           .stride = { g->stride[0], g->stride[1] },
                           .pad = { g->pad_before[0], g->pad_before[1] },
                           .columns = (int)g->w[4] };
    out->width = (out->y.w - 1) * g->stride[1] + g->w[4];
    const int64_t sums = out->x.n * out->x.cb * out->rows * out->columns;
    return cpu_layout_plain(b, parts, 2,
                            (int64_t[]){ sums + b->threads * copied_positions(out), CPU_LANES });
}

/* One channel block of one image: x is d->width positions wide. */
CPU_INLINE void sum_plane(const CpuDepthwise *d, const float *x, const float *dy, float *out,
                          int columns, int lanes)
{
    const int64_t stride = d->stride[1] * lanes;
    for (int64_t r = 0; r < d->rows; r++) {
        float sum[DEPTHWISE_MAX_COLUMNS][CPU_LANES] = { { 0 } };
        for (int64_t p = 0; p < d->y.h; p++) {
            const int64_t h = p * d->stride[0] + r - d->pad[0];
            if (h < 0 || h >= d->x.h) continue;
            const float *v = x + h * d->width * lanes, *g = dy + p * d->y.w * lanes;
            for (int64_t q = 0; q < d->y.w; q++, v += stride, g += lanes)
                for (int s = 0; s < columns; s++)
#pragma omp simd
                    for (int l = 0; l < lanes; l++) sum[s][l] += v[s * lanes + l] * g[l];
        }
        memcpy(out + r * columns * CPU_LANES, sum, (size_t)columns * sizeof sum[0]);
    }
}

/* Windows and blocks that networks have get loops of constant length. */
CPU_CLONES static void sum_any(const CpuDepthwise *d, const float *x, const float *dy, float *out,
                               int lanes)
{
    if (lanes == CPU_LANES && d->columns == 3) sum_plane(d, x, dy, out, 3, CPU_LANES);
    else if (lanes == CPU_LANES && d->columns == 5) sum_plane(d, x, dy, out, 5, CPU_LANES);
    else if (lanes == CPU_LANES && d->columns == 7) sum_plane(d, x, dy, out, 7, CPU_LANES);
    else if (lanes == CPU_HALF_LANES && d->columns == 5)
        sum_plane(d, x, dy, out, 5, CPU_HALF_LANES);
    else if (lanes == CPU_HALF_LANES && d->columns == 7)
        sum_plane(d, x, dy, out, 7, CPU_HALF_LANES);
    else sum_plane(d, x, dy, out, d->columns, lanes);
}

/* A row of `count` positions of rows, as f32. */
CPU_CLONES static void widen_row(const uint16_t *restrict from, int64_t count, int64_t step,
                                 int lanes, float *restrict to)
{
    for (int64_t i = 0; i < count; i++, from += step, to += CPU_LANES)
        if (lanes == CPU_LANES)
            for (int l = 0; l < CPU_LANES; l++) to[l] = float_from_bf16(from[l]);
        else
            for (int l = 0; l < CPU_LANES; l++) to[l] = l < lanes ? float_from_bf16(from[l]) : 0;
}

/* A plane as a block of f32, `width` positions wide, `left` of them and those on the right zero. */
static void copy_plane(const CpuView *v, const void *data, int64_t plane, int64_t left,
                       int64_t width, float *to)
{
    const int64_t first = cpu_view_plane(v, plane), right = width - left - v->w;
    for (int64_t h = 0; h < v->h; h++, to += width * v->b) {
        const void *from = cpu_lanes_at(data, first + h * v->w * v->step, v->type);
        const int64_t count = right < 0 ? v->w + right : v->w;
        float *row = to + left * v->b;
        memset(to, 0, (size_t)(left * v->b) * sizeof *to);
        if (v->rows) widen_row(from, count, v->step, (int)cpu_view_channels(v, plane % v->cb), row);
        else memcpy(row, from, (size_t)(count * v->b) * sizeof *row);
        if (right > 0) memset(row + count * v->b, 0, (size_t)(right * v->b) * sizeof *row);
    }
}

static void sum_images(const CpuDepthwise *d, const float *parts, float *dw, int64_t channel)
{
    const int64_t taps = d->rows * d->columns, block = channel / d->x.b, lane = channel % d->x.b;
    for (int64_t tap = 0; tap < taps; tap++) {
        double sum = 0;
        for (int64_t n = 0; n < d->x.n; n++)
            sum += (double)parts[((n * d->x.cb + block) * taps + tap) * CPU_LANES + lane];
        dw[channel * taps + tap] = (float)sum;
    }
}

Status cpu_depthwise_run(const void *cookie, void *const *address, int threads)
{
    const CpuDepthwise *d = cookie;
    const int64_t planes = d->x.n * d->x.cb, sums = d->rows * d->columns * CPU_LANES;
    float *parts = address[DEPTHWISE_PARTS];
#pragma omp parallel num_threads(threads)
    {
        float *x = parts + planes * sums + omp_get_thread_num() * copied_positions(d) * CPU_LANES,
              *own = x + d->x.h * d->width * CPU_LANES;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < planes; i++) {
            const float *dy = own;
            copy_plane(&d->x, address[DEPTHWISE_X], i, d->pad[1], d->width, x);
            if (d->y.rows) copy_plane(&d->y, address[DEPTHWISE_DY], i, 0, d->y.w, own);
            else dy = (const float *)address[DEPTHWISE_DY] + cpu_view_plane(&d->y, i);
            sum_any(d, x, dy, parts + i * sums, (int)d->x.b);
        }
#pragma omp for schedule(static)
        for (int64_t channel = 0; channel < d->x.c; channel++)
            sum_images(d, parts, address[DEPTHWISE_DW], channel);
    }
    return OK;
}
