/* global_avgpool.c - the mean over the image, N,C,H,W -> N,C, and its gradient, a strip of an image
 * at a time. */
#include "kernels/cpu/layout.h"
#include "kernels/cpu/sums.h"
#include <string.h>

CPU_INLINE void fill_step(void *x, int64_t at, const float *value, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) cpu_lanes_store(x, at + l, value[l], type);
}

CPU_CLONES static void fill_block(void *x, const CpuStrip *s, const float *restrict value)
{
    const int64_t end = s->steps * CPU_LANES;
    for (int64_t at = 0; at < end; at += CPU_LANES) fill_step(x, at, value, DTYPE_F32, CPU_LANES);
    fill_step(x, end, value, DTYPE_F32, (int)s->rest);
}

CPU_CLONES static void fill_rows(void *x, const CpuStrip *s, const float *restrict value)
{
    for (int64_t i = 0; i < s->steps; i++) fill_step(x, i * s->stride, value, DTYPE_BF16, s->lanes);
}

static Status global_avgpool_prepare(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[GLOBAL_AVGPOOL_IN_X], op));
    cpu_view_decide(cpu_backend_of(op), &op->out[GLOBAL_AVGPOOL_OUT_Y]);
    return OK;
}

static void global_avgpool_run(OpInstance *op)
{
    CpuView v = cpu_view(&op->in[GLOBAL_AVGPOOL_IN_X]);
    const void *x = op->in[GLOBAL_AVGPOOL_IN_X].data;
    const OpTensor *y = &op->out[GLOBAL_AVGPOOL_OUT_Y];
    const int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    const int64_t strips = cpu_view_strips(&v, threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * strips; i++) {
        const CpuStrip strip = cpu_view_strip(&v, strips, i);
        double sums[CPU_STRIP];
        cpu_sums_of_strip(&v, &strip, x, sums);
        for (int64_t c = 0; c < strip.channels; c++)
            cpu_lanes_store(y->data, strip.n * v.c + strip.first + c,
                            (float)(sums[c] / (double)v.hw), cpu_layout_type(y));
    }
}

static Status global_avgpool_bwd_prepare(OpInstance *op)
{
    cpu_view_decide(cpu_backend_of(op), &op->in[GLOBAL_AVGPOOL_BWD_IN_DY]);
    cpu_view_decide(cpu_backend_of(op), &op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    return OK;
}

static void global_avgpool_bwd_run(OpInstance *op)
{
    CpuView v = cpu_view(&op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    const OpTensor *dy = &op->in[GLOBAL_AVGPOOL_BWD_IN_DY];
    void *dx = op->out[GLOBAL_AVGPOOL_BWD_OUT_DX].data;
    const int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    const int64_t strips = cpu_view_strips(&v, threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * strips; i++) {
        const CpuStrip strip = cpu_view_strip(&v, strips, i);
        void *to = cpu_lanes_at_out(dx, strip.at, v.type);
        float value[CPU_STRIP];
        memset(value, 0, (size_t)strip.lanes * sizeof *value);
        for (int64_t c = 0; c < strip.channels; c++) {
            const float sum =
                cpu_lanes_load(dy->data, strip.n * v.c + strip.first + c, cpu_layout_type(dy));
            cpu_view_fill(&v, value, c, sum / (float)v.hw);
        }
        if (v.rows) fill_rows(to, &strip, value);
        else fill_block(to, &strip, value);
    }
}

CPU_LOOPS(cpu_global_avgpool, "lanes", global_avgpool_prepare, global_avgpool_run);
CPU_LOOPS(cpu_global_avgpool_bwd, "lanes", global_avgpool_bwd_prepare, global_avgpool_bwd_run);
