/* global_avgpool.c - the mean over the image, N,C,H,W -> N,C (plain), and its gradient, a channel
 * block of an image at a time. Sums are float over a run of SUM_STEPS values per lane and double
 * beyond it. */
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { SUM_STEPS = 128 };

CPU_INLINE void sum_step(const float *x, float *sum, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) sum[l] += x[l];
}

CPU_CLONES static void sum_plane(const float *restrict x, int64_t count, double *restrict out)
{
    int64_t i = 0;
    memset(out, 0, CPU_LANES * sizeof *out);
    while (i < count) {
        float sum[CPU_LANES] = { 0 };
        int64_t end = count - i < SUM_STEPS * CPU_LANES ? count : i + SUM_STEPS * CPU_LANES;
        for (; i + CPU_LANES <= end; i += CPU_LANES) sum_step(x + i, sum, CPU_LANES);
        if (i + CPU_HALF_LANES <= end) {
            sum_step(x + i, sum, CPU_HALF_LANES);
            i += CPU_HALF_LANES;
        }
        for (; i < end; i++) sum_step(x + i, sum, 1);
        for (int l = 0; l < CPU_LANES; l++) out[l] += (double)sum[l];
    }
}

CPU_CLONES static void fill_plane(float *restrict x, int64_t count, const float *restrict value)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= count; i += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) x[i + l] = value[l];
    for (int l = 0; i < count; i++, l++) x[i] = value[l];
}

static Status global_avgpool_prepare(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[GLOBAL_AVGPOOL_IN_X], op));
    cpu_decide_plain(&op->out[GLOBAL_AVGPOOL_OUT_Y]);
    op->implementation = "lanes";
    return OK;
}

static Status global_avgpool_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GLOBAL_AVGPOOL_IN_X]);
    const float *x = op->in[GLOBAL_AVGPOOL_IN_X].data;
    float *y = op->out[GLOBAL_AVGPOOL_OUT_Y].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        int64_t block = plane % v.cb, n = plane / v.cb;
        double sums[CPU_LANES];
        sum_plane(x + plane * v.hw * v.b, v.hw * v.b, sums);
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++)
            y[n * v.c + block * v.b + c] = (float)(cpu_lanes_sum(sums, c, v.b) / (double)v.hw);
    }
    return OK;
}

static Status global_avgpool_bwd_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->in[GLOBAL_AVGPOOL_BWD_IN_DY]);
    cpu_view_decide(cpu_backend_of(op), &op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    op->implementation = "lanes";
    return OK;
}

static Status global_avgpool_bwd_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    const float *dy = op->in[GLOBAL_AVGPOOL_BWD_IN_DY].data;
    float *dx = op->out[GLOBAL_AVGPOOL_BWD_OUT_DX].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        int64_t block = plane % v.cb, n = plane / v.cb;
        float value[CPU_LANES] = { 0 };
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++)
            cpu_lanes_fill(value, c, v.b, dy[n * v.c + block * v.b + c] / (float)v.hw);
        fill_plane(dx + plane * v.hw * v.b, v.hw * v.b, value);
    }
    return OK;
}

const OpImpl cpu_global_avgpool = { .prepare = global_avgpool_prepare,
                                    .bind = cpu_bind_nothing,
                                    .run = global_avgpool_run };
const OpImpl cpu_global_avgpool_bwd = { .prepare = global_avgpool_bwd_prepare,
                                        .bind = cpu_bind_nothing,
                                        .run = global_avgpool_bwd_run };
