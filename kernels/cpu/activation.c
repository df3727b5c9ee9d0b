/* activation.c - y = act(x) and dx = dy act'(y), element by element in whatever layout x has. */
#include "kernels/cpu/lanes.h"
#include <string.h>

/* NaN is no number below zero: it passes, forward and backward, as in torch. */
CPU_CLONES static void relu(float *y, const float *x, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

CPU_CLONES static void relu_bwd(float *dx, const float *dy, const float *y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

static void copy(float *y, const float *x, int64_t count)
{
    if (y != x) memcpy(y, x, (size_t)count * sizeof *y);
}

static Status activation_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    return cpu_decide_like(&op->out[ACTIVATION_OUT_Y], &op->in[ACTIVATION_IN_X], op);
}

static Status activation_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    const float *x = op->in[ACTIVATION_IN_X].data;
    float *y = op->out[ACTIVATION_OUT_Y].data;
    int64_t count = (int64_t)(op->in[ACTIVATION_IN_X].bytes / sizeof *x);
    int parts = cpu_team(op, count);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        (attr->act == ACT_RELU ? relu : copy)(y + first, x + first, last - first);
    }
    return OK;
}

static Status activation_bwd_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    TRY(cpu_decide_like(&op->in[ACTIVATION_BWD_IN_DY], &op->in[ACTIVATION_BWD_IN_Y], op));
    return cpu_decide_like(&op->out[ACTIVATION_BWD_OUT_DX], &op->in[ACTIVATION_BWD_IN_Y], op);
}

static Status activation_bwd_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    const float *dy = op->in[ACTIVATION_BWD_IN_DY].data, *y = op->in[ACTIVATION_BWD_IN_Y].data;
    float *dx = op->out[ACTIVATION_BWD_OUT_DX].data;
    int64_t count = (int64_t)(op->in[ACTIVATION_BWD_IN_Y].bytes / sizeof *y);
    int parts = cpu_team(op, count);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        if (attr->act == ACT_RELU) relu_bwd(dx + first, dy + first, y + first, last - first);
        else copy(dx + first, dy + first, last - first);
    }
    return OK;
}

const OpImpl cpu_activation = { .prepare = activation_prepare, .bind = cpu_bind_nothing, .run = activation_run };
const OpImpl cpu_activation_bwd = { .prepare = activation_bwd_prepare,
                                    .bind = cpu_bind_nothing,
                                    .run = activation_bwd_run };
