/* global_avgpool.c - the mean over the image, N,C,H,W -> N,C, and its gradient, a channel
 * block of an image at a time. Sums are float over a run of SUM_STEPS values per lane and double
 * beyond it. */
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { SUM_STEPS = 128 };

CPU_INLINE void sum_step(const void *x, int64_t at, float *sum, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) sum[l] += cpu_lanes_load(x, at + l, type);
}

CPU_INLINE void sum_walk(const void *x, const CpuWalk *walk, double *restrict out, DType type,
                         int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : walk->stride,
                  count = walk->steps * CPU_LANES + walk->rest;
    int64_t i = 0, at = 0;
    memset(out, 0, CPU_LANES * sizeof *out);
    while (i < count) {
        float sum[CPU_LANES] = { 0 };
        int64_t end = count - i < SUM_STEPS * CPU_LANES ? count : i + SUM_STEPS * CPU_LANES;
        for (; i + CPU_LANES <= end; i += CPU_LANES, at += stride)
            sum_step(x, at, sum, type, lanes);
        if (i + CPU_HALF_LANES <= end) {
            sum_step(x, at, sum, type, CPU_HALF_LANES);
            i += CPU_HALF_LANES;
            at += CPU_HALF_LANES;
        }
        for (; i < end; i++, at++) sum_step(x, at, sum, type, 1);
        for (int l = 0; l < CPU_LANES; l++) out[l] += (double)sum[l];
    }
}

CPU_CLONES static void sum_plane(const void *x, const CpuWalk *walk, DType type,
                                 double *restrict out)
{
    CPU_WALK(sum_walk, type, walk->lanes, x, walk, out);
}

CPU_INLINE void fill_walk(void *x, const CpuWalk *walk, const float *restrict value, DType type,
                          int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : walk->stride;
    int64_t at = 0;
    for (int64_t i = 0; i < walk->steps; i++, at += stride)
#pragma omp simd
        for (int l = 0; l < lanes; l++) cpu_lanes_store(x, at + l, value[l], type);
    for (int l = 0; l < walk->rest; l++) cpu_lanes_store(x, at + l, value[l], type);
}

CPU_CLONES static void fill_plane(void *x, const CpuWalk *walk, DType type,
                                  const float *restrict value)
{
    CPU_WALK(fill_walk, type, walk->lanes, x, walk, value);
}

static Status global_avgpool_prepare(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[GLOBAL_AVGPOOL_IN_X], op));
    cpu_view_decide(cpu_backend_of(op), &op->out[GLOBAL_AVGPOOL_OUT_Y]);
    op->implementation = "lanes";
    return OK;
}

static Status global_avgpool_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GLOBAL_AVGPOOL_IN_X]);
    const void *x = op->in[GLOBAL_AVGPOOL_IN_X].data;
    const OpTensor *y = &op->out[GLOBAL_AVGPOOL_OUT_Y];
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        int64_t block = plane % v.cb, n = plane / v.cb;
        double sums[CPU_LANES];
        const CpuWalk walk = cpu_view_walk(&v, block);
        sum_plane(cpu_lanes_at(x, cpu_view_plane(&v, plane), v.type), &walk, v.type, sums);
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++)
            cpu_lanes_store(y->data, n * v.c + block * v.b + c,
                            (float)(cpu_lanes_sum(sums, c, v.b) / (double)v.hw),
                            cpu_layout_type(y));
    }
    return OK;
}

static Status global_avgpool_bwd_prepare(OpInstance *op)
{
    cpu_view_decide(cpu_backend_of(op), &op->in[GLOBAL_AVGPOOL_BWD_IN_DY]);
    cpu_view_decide(cpu_backend_of(op), &op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    op->implementation = "lanes";
    return OK;
}

static Status global_avgpool_bwd_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    const OpTensor *dy = &op->in[GLOBAL_AVGPOOL_BWD_IN_DY];
    void *dx = op->out[GLOBAL_AVGPOOL_BWD_OUT_DX].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        int64_t block = plane % v.cb, n = plane / v.cb;
        float value[CPU_LANES] = { 0 };
        const CpuWalk walk = cpu_view_walk(&v, block);
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++) {
            const float sum =
                cpu_lanes_load(dy->data, n * v.c + block * v.b + c, cpu_layout_type(dy));
            cpu_lanes_fill(value, c, v.b, sum / (float)v.hw);
        }
        fill_plane(cpu_lanes_at_out(dx, cpu_view_plane(&v, plane), v.type), &walk, v.type, value);
    }
    return OK;
}

const OpImpl cpu_global_avgpool = { .prepare = global_avgpool_prepare,
                                    .bind = cpu_bind_nothing,
                                    .run = global_avgpool_run };
const OpImpl cpu_global_avgpool_bwd = { .prepare = global_avgpool_bwd_prepare,
                                        .bind = cpu_bind_nothing,
                                        .run = global_avgpool_bwd_run };
