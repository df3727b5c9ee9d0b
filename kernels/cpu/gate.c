/* gate.c - y = x sigmoid(g), or x hard_sigmoid(g), and its gradient, a strip of an image at a time:
 * one pass over memory each. Sums are float over a run of SUM_STEPS values per lane and double
 * beyond it. */
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { SUM_STEPS = 128 };

/* The gates of a strip's channels, by lanes; of lanes past C zero. */
static void spread_gates(const CpuView *v, const CpuStrip *s, const OpTensor *g,
                         const GateAttr *attr, float lanes[CPU_STRIP])
{
    memset(lanes, 0, (size_t)s->lanes * sizeof *lanes);
    for (int64_t c = 0; c < s->channels; c++) {
        const float z = cpu_lanes_load(g->data, s->n * v->c + s->first + c, cpu_layout_type(g));
        cpu_view_fill(v, lanes, c, attr->hard ? cpu_hard_sigmoid(z) : cpu_sigmoid(z));
    }
}

static double slope_of_gate(float g, const GateAttr *attr)
{
    if (attr->hard) return g <= -3.0f || g >= 3.0f ? 0 : 1.0 / 6;
    /* s (1 - s); 1 - s itself would lose the digits of gates near 1 */
    return (double)cpu_sigmoid(g) * (double)cpu_sigmoid(-g);
}

CPU_INLINE void gate_step(void *y, const void *x, int64_t at, const float *gates, DType type,
                          int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++)
        cpu_lanes_store(y, at + l, cpu_lanes_load(x, at + l, type) * gates[l], type);
}

CPU_CLONES static void gate_block(void *y, const void *x, const CpuStrip *s,
                                  const float *restrict gates)
{
    const int64_t end = s->steps * CPU_LANES;
    for (int64_t at = 0; at < end; at += CPU_LANES)
        gate_step(y, x, at, gates, DTYPE_F32, CPU_LANES);
    gate_step(y, x, end, gates, DTYPE_F32, (int)s->rest);
}

CPU_CLONES static void gate_rows(void *y, const void *x, const CpuStrip *s,
                                 const float *restrict gates)
{
    for (int64_t i = 0; i < s->steps; i++)
        gate_step(y, x, i * s->stride, gates, DTYPE_BF16, s->lanes);
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

CPU_INLINE void gate_bwd_strip(void *dx, const void *dy, const void *x, const CpuStrip *s,
                               const float *restrict gates, double *restrict out, float *sum,
                               DType type, int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : s->stride;
    int64_t i = 0, at = 0;
    memset(out, 0, (size_t)lanes * sizeof *out);
    while (i < s->steps) {
        const int64_t end = s->steps - i < SUM_STEPS ? s->steps : i + SUM_STEPS;
        memset(sum, 0, (size_t)lanes * sizeof *sum);
        for (; i < end; i++, at += stride) gate_bwd_step(dx, dy, x, at, gates, sum, type, lanes);
        for (int l = 0; l < lanes; l++) out[l] += (double)sum[l];
    }
}

CPU_CLONES static void gate_bwd_block(void *dx, const void *dy, const void *x, const CpuStrip *s,
                                      const float *restrict gates, double *restrict out)
{
    float sum[CPU_LANES];
    gate_bwd_strip(dx, dy, x, s, gates, out, sum, DTYPE_F32, CPU_LANES);
    memset(sum, 0, sizeof sum);
    gate_bwd_step(dx, dy, x, s->steps * CPU_LANES, gates, sum, DTYPE_F32, (int)s->rest);
    for (int l = 0; l < s->rest; l++) out[l] += (double)sum[l];
}

CPU_CLONES static void gate_bwd_rows(void *dx, const void *dy, const void *x, const CpuStrip *s,
                                     const float *restrict gates, double *restrict out)
{
    float sum[CPU_STRIP];
    gate_bwd_strip(dx, dy, x, s, gates, out, sum, DTYPE_BF16, s->lanes);
}

static Status gate_prepare(OpInstance *op)
{
    cpu_view_decide(cpu_backend_of(op), &op->in[GATE_IN_G]);
    return cpu_decide_like(&op->out[GATE_OUT_Y], &op->in[GATE_IN_X], op);
}

static void gate_run(OpInstance *op)
{
    CpuView v = cpu_view(&op->in[GATE_IN_X]);
    const void *x = op->in[GATE_IN_X].data;
    void *y = op->out[GATE_OUT_Y].data;
    const int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    const int64_t strips = cpu_view_strips(&v, threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * strips; i++) {
        const CpuStrip strip = cpu_view_strip(&v, strips, i);
        float gates[CPU_STRIP];
        spread_gates(&v, &strip, &op->in[GATE_IN_G], op->attr, gates);
        (v.rows ? gate_rows : gate_block)(cpu_lanes_at_out(y, strip.at, v.type),
                                          cpu_lanes_at(x, strip.at, v.type), &strip, gates);
    }
}

static Status gate_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[GATE_BWD_IN_X];
    cpu_view_decide(cpu_backend_of(op), &op->in[GATE_BWD_IN_G]);
    TRY(cpu_decide_like(&op->out[GATE_BWD_OUT_DG], &op->in[GATE_BWD_IN_G], op));
    TRY(cpu_decide_like(&op->in[GATE_BWD_IN_DY], x, op));
    return cpu_decide_like(&op->out[GATE_BWD_OUT_DX], x, op);
}

static void gate_bwd_run(OpInstance *op)
{
    CpuView v = cpu_view(&op->in[GATE_BWD_IN_X]);
    const void *dy = op->in[GATE_BWD_IN_DY].data, *x = op->in[GATE_BWD_IN_X].data;
    const OpTensor *g = &op->in[GATE_BWD_IN_G];
    void *dx = op->out[GATE_BWD_OUT_DX].data, *dg = op->out[GATE_BWD_OUT_DG].data;
    const DType type = v.type, g_type = cpu_layout_type(g);
    const int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    const int64_t strips = cpu_view_strips(&v, threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * strips; i++) {
        const CpuStrip strip = cpu_view_strip(&v, strips, i);
        float gates[CPU_STRIP];
        double sums[CPU_STRIP];
        spread_gates(&v, &strip, g, op->attr, gates);
        (v.rows ? gate_bwd_rows : gate_bwd_block)(
            cpu_lanes_at_out(dx, strip.at, type), cpu_lanes_at(dy, strip.at, type),
            cpu_lanes_at(x, strip.at, type), &strip, gates, sums);
        for (int64_t c = 0; c < strip.channels; c++) {
            const int64_t at_g = strip.n * v.c + strip.first + c;
            const double slope = slope_of_gate(cpu_lanes_load(g->data, at_g, g_type), op->attr);
            cpu_lanes_store(dg, at_g, (float)(cpu_view_sum(&v, sums, c) * slope), g_type);
        }
    }
}

CPU_LOOPS(cpu_gate, "lanes", gate_prepare, gate_run);
CPU_LOOPS(cpu_gate_bwd, "lanes", gate_bwd_prepare, gate_bwd_run);
