/* depthwise.c - dw[c,r,s] = sum over n, p, q of x[n,c,h,w] dy[n,c,p,q] with h = p stride + r - pad,
 * w likewise: sums of a channel block of one image first, in f32, then those of all images in
 * order, in double. */
#include "kernels/cpu/depthwise.h"
#include <string.h>

bool cpu_depthwise_takes(const ConvProblem *p)
{
    const ConvGeometry *g = p->geometry;
    const bool lie_alike = p->x->block > 1 ? p->x->block == p->y->block : p->x->rows && p->y->rows;
    return p->direction == CONV_BWD_WEIGHTS && lie_alike && conv2d_depthwise(g) &&
           g->w[4] <= DEPTHWISE_MAX_COLUMNS;
}

static CpuView view_of(const int64_t *dims, const Layout *layout)
{
    return cpu_view(&(OpTensor){ .desc = tensor_desc(DTYPE_F32, 4, dims), .layout = layout });
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
    /* the first position whose window begins in the image, and the first whose window ends
     * outside */
    out->inner[0] = (g->pad_before[1] + g->stride[1] - 1) / g->stride[1];
    out->inner[1] = (g->x[3] + g->pad_before[1] - g->w[4]) / g->stride[1] + 1;
    if (out->inner[1] > g->y[3]) out->inner[1] = g->y[3];
    const int64_t dims[] = { out->x.n, out->x.cb, out->rows * out->columns, CPU_LANES };
    return cpu_layout_plain(b, parts, 4, dims);
}

/* Adds positions q up to end of a row of dy to the sums of taps `first` up to `last` of a row of
 * the window. */
CPU_INLINE void add_positions(const CpuDepthwise *d, const void *x, const void *dy, int64_t q,
                              int64_t end, float sum[][CPU_LANES], int first, int last, int lanes,
                              DType type)
{
    const int64_t step = d->x.step, stride = d->stride[1] * step;
    for (int64_t at = q * stride - d->pad[1] * step; q < end; q++, at += stride) {
        const void *g = cpu_lanes_at(dy, q * d->y.step, type);
        for (int s = first; s < last; s++) {
            const void *v = cpu_lanes_at(x, at + s * step, type);
#pragma omp simd
            for (int l = 0; l < lanes; l++)
                sum[s][l] += cpu_lanes_load(v, l, type) * cpu_lanes_load(g, l, type);
        }
    }
}

/* Where all taps see the image: sums of their own stay in registers. */
CPU_INLINE void add_inner(const CpuDepthwise *d, const void *x, const void *dy, int64_t q,
                          int64_t end, float sum[][CPU_LANES], int columns, int lanes, DType type)
{
    float own[DEPTHWISE_MAX_COLUMNS][CPU_LANES];
    memcpy(own, sum, (size_t)columns * sizeof own[0]);
    add_positions(d, x, dy, q, end, own, 0, columns, lanes, type);
    memcpy(sum, own, (size_t)columns * sizeof own[0]);
}

CPU_INLINE void sum_row(const CpuDepthwise *d, const void *x, const void *dy,
                        float sum[][CPU_LANES], int columns, int lanes, DType type)
{
    for (int64_t q = 0; q < d->y.w; q++) {
        const int64_t at = q * d->stride[1] - d->pad[1], left = d->x.w - at;
        if (q == d->inner[0] && d->inner[1] > q) {
            add_inner(d, x, dy, q, d->inner[1], sum, columns, lanes, type);
            q = d->inner[1] - 1;
        } else {
            add_positions(d, x, dy, q, q + 1, sum, at < 0 ? (int)-at : 0,
                          left < columns ? (int)left : columns, lanes, type);
        }
    }
}

/* One channel block of one image. */
CPU_INLINE void sum_plane(const CpuDepthwise *d, const void *x, const void *dy, float *out,
                          int columns, int lanes, DType type)
{
    for (int64_t r = 0; r < d->rows; r++) {
        float sum[DEPTHWISE_MAX_COLUMNS][CPU_LANES];
        memset(sum, 0, sizeof sum);
        for (int64_t p = 0; p < d->y.h; p++) {
            const int64_t h = p * d->stride[0] + r - d->pad[0];
            if (h < 0 || h >= d->x.h) continue;
            sum_row(d, cpu_lanes_at(x, h * d->x.w * d->x.step, type),
                    cpu_lanes_at(dy, p * d->y.w * d->y.step, type), sum, columns, lanes, type);
        }
        memcpy(out + r * columns * CPU_LANES, sum, (size_t)columns * sizeof sum[0]);
    }
}

/* Windows and blocks that networks have get loops of constant length. */
CPU_INLINE void sum_any(const CpuDepthwise *d, const void *x, const void *dy, float *out, int lanes,
                        DType type)
{
    if (lanes == CPU_LANES && d->columns == 3) sum_plane(d, x, dy, out, 3, CPU_LANES, type);
    else if (lanes == CPU_LANES && d->columns == 5) sum_plane(d, x, dy, out, 5, CPU_LANES, type);
    else if (lanes == CPU_HALF_LANES && d->columns == 5)
        sum_plane(d, x, dy, out, 5, CPU_HALF_LANES, type);
    else if (lanes == CPU_LANES && d->columns == 7) sum_plane(d, x, dy, out, 7, CPU_LANES, type);
    else if (lanes == CPU_HALF_LANES && d->columns == 7)
        sum_plane(d, x, dy, out, 7, CPU_HALF_LANES, type);
    else sum_plane(d, x, dy, out, d->columns, lanes, type);
}

CPU_CLONES static void sum_f32(const CpuDepthwise *d, const void *x, const void *dy, float *out,
                               int lanes)
{
    sum_any(d, x, dy, out, lanes, DTYPE_F32);
}

CPU_CLONES static void sum_bf16(const CpuDepthwise *d, const void *x, const void *dy, float *out,
                                int lanes)
{
    sum_any(d, x, dy, out, lanes, DTYPE_BF16);
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
    const DType type = d->x.type;
    float *parts = address[DEPTHWISE_PARTS];
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t plane = 0; plane < d->x.n * d->x.cb; plane++) {
            const void *x = cpu_lanes_at(address[DEPTHWISE_X], cpu_view_plane(&d->x, plane), type);
            const void *dy =
                cpu_lanes_at(address[DEPTHWISE_DY], cpu_view_plane(&d->y, plane), type);
            float *out = parts + plane * d->rows * d->columns * CPU_LANES;
            if (d->x.rows) sum_bf16(d, x, dy, out, (int)cpu_view_channels(&d->x, plane % d->x.cb));
            else sum_f32(d, x, dy, out, (int)d->x.b);
        }
#pragma omp for schedule(static)
        for (int64_t channel = 0; channel < d->x.c; channel++)
            sum_images(d, parts, address[DEPTHWISE_DW], channel);
    }
    return OK;
}
