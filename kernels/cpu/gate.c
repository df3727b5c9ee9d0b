/* gate.c - y = x sigmoid(g), or x hard_sigmoid(g), and its gradient, a channel block of an image at
 * a time: one pass over memory each. Sums are float over a run of SUM_STEPS values per lane and
 * double beyond it. */
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { SUM_STEPS = 128 };

/* The gates of a plane's channels, one to a lane; zero for channels past C. */
static void spread_gates(const CpuView *v, int64_t plane, const OpTensor *g, const GateAttr *attr,
                         float *lanes)
{
    int64_t block = plane % v->cb, at = plane / v->cb * v->c + block * v->b;
    memset(lanes, 0, CPU_LANES * sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(v, block); c++) {
        const float z = cpu_lanes_load(g->data, at + c, cpu_layout_type(g));
        cpu_lanes_fill(lanes, c, v->b, attr->hard ? cpu_hard_sigmoid(z) : cpu_sigmoid(z));
    }
}

static double slope_of_gate(float g, const GateAttr *attr)
{
    if (attr->hard) return g <= -3.0f || g >= 3.0f ? 0 : 1.0 / 6;
    /* s (1 - s); 1 - s itself would lose the digits of gates near 1 */
    return (double)cpu_sigmoid(g) * (double)cpu_sigmoid(-g);
}

CPU_INLINE void gate_walk(void *y, const void *x, const CpuWalk *walk, const float *restrict gates,
                          DType type, int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : walk->stride;
    int64_t at = 0;
    for (int64_t i = 0; i < walk->steps; i++, at += stride)
#pragma omp simd
        for (int l = 0; l < lanes; l++)
            cpu_lanes_store(y, at + l, cpu_lanes_load(x, at + l, type) * gates[l], type);
    for (int l = 0; l < walk->rest; l++)
        cpu_lanes_store(y, at + l, cpu_lanes_load(x, at + l, type) * gates[l], type);
}

CPU_CLONES static void gate_plane(void *y, const void *x, const CpuWalk *walk, DType type,
                                  const float *restrict gates)
{
    CPU_WALK(gate_walk, type, walk->lanes, y, x, walk, gates);
}

CPU_INLINE void gate_bwd_step(void *dx, const void *dy, const void *x, int64_t at,
                              const float *gates, float *sum, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float d = cpu_lanes_load(dy, at + l, type);
        sum[l] += d * cpu_lanes_load(x, at + l, type);
        cpu_lanes_store(dx, at + l, d * gates[l], type);
    }
}

CPU_INLINE void gate_bwd_walk(void *dx, const void *dy, const void *x, const CpuWalk *walk,
                              const float *restrict gates, double *restrict out, DType type,
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
            gate_bwd_step(dx, dy, x, at, gates, sum, type, lanes);
        if (i + CPU_HALF_LANES <= end) {
            gate_bwd_step(dx, dy, x, at, gates, sum, type, CPU_HALF_LANES);
            i += CPU_HALF_LANES;
            at += CPU_HALF_LANES;
        }
        for (; i < end; i++, at++) gate_bwd_step(dx, dy, x, at, gates, sum, type, 1);
        for (int l = 0; l < CPU_LANES; l++) out[l] += (double)sum[l];
    }
}

CPU_CLONES static void gate_bwd_plane(void *dx, const void *dy, const void *x, const CpuWalk *walk,
                                      DType type, const float *restrict gates, double *restrict out)
{
    CPU_WALK(gate_bwd_walk, type, walk->lanes, dx, dy, x, walk, gates, out);
}

static Status gate_prepare(OpInstance *op)
{
    op->implementation = "lanes";
    cpu_view_decide(cpu_backend_of(op), &op->in[GATE_IN_G]);
    return cpu_decide_like(&op->out[GATE_OUT_Y], &op->in[GATE_IN_X], op);
}

static Status gate_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GATE_IN_X]);
    const void *x = op->in[GATE_IN_X].data;
    void *y = op->out[GATE_OUT_Y].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        float gates[CPU_LANES];
        const CpuWalk walk = cpu_view_walk(&v, plane % v.cb);
        const int64_t at = cpu_view_plane(&v, plane);
        spread_gates(&v, plane, &op->in[GATE_IN_G], op->attr, gates);
        gate_plane(cpu_lanes_at_out(y, at, v.type), cpu_lanes_at(x, at, v.type), &walk, v.type,
                   gates);
    }
    return OK;
}

static Status gate_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[GATE_BWD_IN_X];
    op->implementation = "lanes";
    cpu_view_decide(cpu_backend_of(op), &op->in[GATE_BWD_IN_G]);
    TRY(cpu_decide_like(&op->out[GATE_BWD_OUT_DG], &op->in[GATE_BWD_IN_G], op));
    TRY(cpu_decide_like(&op->in[GATE_BWD_IN_DY], x, op));
    return cpu_decide_like(&op->out[GATE_BWD_OUT_DX], x, op);
}

static Status gate_bwd_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GATE_BWD_IN_X]);
    const void *dy = op->in[GATE_BWD_IN_DY].data, *x = op->in[GATE_BWD_IN_X].data;
    const OpTensor *g = &op->in[GATE_BWD_IN_G];
    void *dx = op->out[GATE_BWD_OUT_DX].data, *dg = op->out[GATE_BWD_OUT_DG].data;
    const DType type = v.type, g_type = cpu_layout_type(g);
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        float gates[CPU_LANES];
        double sums[CPU_LANES];
        const int64_t at = cpu_view_plane(&v, plane), block = plane % v.cb, n = plane / v.cb;
        const CpuWalk walk = cpu_view_walk(&v, block);
        spread_gates(&v, plane, g, op->attr, gates);
        gate_bwd_plane(cpu_lanes_at_out(dx, at, type), cpu_lanes_at(dy, at, type),
                       cpu_lanes_at(x, at, type), &walk, type, gates, sums);
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++) {
            const int64_t at_g = n * v.c + block * v.b + c;
            const double slope = slope_of_gate(cpu_lanes_load(g->data, at_g, g_type), op->attr);
            cpu_lanes_store(dg, at_g, (float)(cpu_lanes_sum(sums, c, v.b) * slope), g_type);
        }
    }
    return OK;
}

const OpImpl cpu_gate = { .prepare = gate_prepare, .bind = cpu_bind_nothing, .run = gate_run };
const OpImpl cpu_gate_bwd = { .prepare = gate_bwd_prepare,
                              .bind = cpu_bind_nothing,
                              .run = gate_bwd_run };
