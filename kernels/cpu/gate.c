/* gate.c - y = x sigmoid(g) and its gradient, a channel block of an image at a time: one pass over
 * memory each. Sums are float over a run of SUM_STEPS values per lane and double beyond it. */
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { SUM_STEPS = 128 };

/* The gates of a plane's channels, one to a lane; zero for channels past C. */
static void spread_gates(const CpuView *v, int64_t plane, const float *g, float *lanes)
{
    int64_t block = plane % v->cb, n = plane / v->cb;
    memset(lanes, 0, CPU_LANES * sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(v, block); c++)
        cpu_lanes_fill(lanes, c, v->b, cpu_sigmoid(g[n * v->c + block * v->b + c]));
}

CPU_CLONES static void gate_plane(float *y, const float *x, int64_t count,
                                  const float *restrict gates)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= count; i += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) y[i + l] = x[i + l] * gates[l];
    for (int l = 0; i < count; i++, l++) y[i] = x[i] * gates[l];
}

CPU_INLINE void gate_bwd_step(float *dx, const float *dy, const float *x, const float *gates,
                              float *sum, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float d = dy[l];
        sum[l] += d * x[l];
        dx[l] = d * gates[l];
    }
}

CPU_CLONES static void gate_bwd_plane(float *dx, const float *dy, const float *x, int64_t count,
                                      const float *restrict gates, double *restrict out)
{
    int64_t i = 0;
    memset(out, 0, CPU_LANES * sizeof *out);
    while (i < count) {
        float sum[CPU_LANES] = { 0 };
        int64_t end = count - i < SUM_STEPS * CPU_LANES ? count : i + SUM_STEPS * CPU_LANES;
        for (; i + CPU_LANES <= end; i += CPU_LANES)
            gate_bwd_step(dx + i, dy + i, x + i, gates, sum, CPU_LANES);
        if (i + CPU_HALF_LANES <= end) {
            gate_bwd_step(dx + i, dy + i, x + i, gates, sum, CPU_HALF_LANES);
            i += CPU_HALF_LANES;
        }
        for (; i < end; i++) gate_bwd_step(dx + i, dy + i, x + i, gates, sum, 1);
        for (int l = 0; l < CPU_LANES; l++) out[l] += (double)sum[l];
    }
}

static Status gate_prepare(OpInstance *op)
{
    op->implementation = "lanes";
    cpu_decide_plain(&op->in[GATE_IN_G]);
    return cpu_decide_like(&op->out[GATE_OUT_Y], &op->in[GATE_IN_X], op);
}

static Status gate_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GATE_IN_X]);
    const float *x = op->in[GATE_IN_X].data, *g = op->in[GATE_IN_G].data;
    float *y = op->out[GATE_OUT_Y].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        float gates[CPU_LANES];
        int64_t count = v.hw * v.b, at = plane * count;
        spread_gates(&v, plane, g, gates);
        gate_plane(y + at, x + at, count, gates);
    }
    return OK;
}

static Status gate_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[GATE_BWD_IN_X];
    op->implementation = "lanes";
    cpu_decide_plain(&op->in[GATE_BWD_IN_G]);
    cpu_decide_plain(&op->out[GATE_BWD_OUT_DG]);
    TRY(cpu_decide_like(&op->in[GATE_BWD_IN_DY], x, op));
    return cpu_decide_like(&op->out[GATE_BWD_OUT_DX], x, op);
}

static Status gate_bwd_run(OpInstance *op, Stream *stream)
{
    CpuView v = cpu_view(&op->in[GATE_BWD_IN_X]);
    const float *dy = op->in[GATE_BWD_IN_DY].data, *x = op->in[GATE_BWD_IN_X].data,
                *g = op->in[GATE_BWD_IN_G].data;
    float *dx = op->out[GATE_BWD_OUT_DX].data, *dg = op->out[GATE_BWD_OUT_DG].data;
    int threads = cpu_team(op, v.n * v.cb * v.hw * v.b);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) {
        float gates[CPU_LANES];
        double sums[CPU_LANES];
        int64_t count = v.hw * v.b, at = plane * count, block = plane % v.cb, n = plane / v.cb;
        spread_gates(&v, plane, g, gates);
        gate_bwd_plane(dx + at, dy + at, x + at, count, gates, sums);
        for (int64_t c = 0; c < cpu_view_channels(&v, block); c++) {
            const int64_t at_g = n * v.c + block * v.b + c;
            /* s (1 - s); 1 - s itself would lose the digits of gates near 1 */
            double slope = (double)cpu_sigmoid(g[at_g]) * (double)cpu_sigmoid(-g[at_g]);
            dg[at_g] = (float)(cpu_lanes_sum(sums, c, v.b) * slope);
        }
    }
    return OK;
}

const OpImpl cpu_gate = { .prepare = gate_prepare, .bind = cpu_bind_nothing, .run = gate_run };
const OpImpl cpu_gate_bwd = { .prepare = gate_bwd_prepare,
                              .bind = cpu_bind_nothing,
                              .run = gate_bwd_run };
