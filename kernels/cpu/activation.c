/* activation.c - y = act(x) and dx = dy act'(y), element by element in whatever layout x has. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"
#include <string.h>

/* NaN is no number below zero: it passes, forward and backward, as in torch. */
CPU_CLONES static void relu(float *y, const float *x, const float *none, int64_t count,
                            float factor)
{
    (void)none;
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

CPU_CLONES static void relu_bwd(float *dx, const float *dy, const float *y, int64_t count,
                                float factor)
{
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

CPU_CLONES static void silu(float *y, const float *x, const float *none, int64_t count,
                            float factor)
{
    (void)none;
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = cpu_silu(x[i]);
}

CPU_CLONES static void silu_bwd(float *dx, const float *dy, const float *x, int64_t count,
                                float factor)
{
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * cpu_silu_slope(x[i]);
}

CPU_CLONES static void gelu(float *y, const float *x, const float *none, int64_t count,
                            float factor)
{
    (void)none;
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = cpu_gelu(x[i]);
}

CPU_CLONES static void gelu_bwd(float *dx, const float *dy, const float *x, int64_t count,
                                float factor)
{
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * cpu_gelu_slope(x[i]);
}

CPU_CLONES static void gelu_tanh(float *y, const float *x, const float *none, int64_t count,
                                 float factor)
{
    (void)none;
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = cpu_gelu_tanh(x[i]);
}

CPU_CLONES static void gelu_tanh_bwd(float *dx, const float *dy, const float *x, int64_t count,
                                     float factor)
{
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * cpu_gelu_tanh_slope(x[i]);
}

static void copy(float *y, const float *x, const float *none, int64_t count, float factor)
{
    (void)none;
    (void)factor;
    if (y != x) memcpy(y, x, (size_t)count * sizeof *y);
}

static const struct {
    CpuPointwise forward, backward;
} functions[ACT_COUNT] = {
    [ACT_NONE] = { copy, copy },
    [ACT_RELU] = { relu, relu_bwd },
    [ACT_SILU] = { silu, silu_bwd },
    [ACT_GELU] = { gelu, gelu_bwd },
    [ACT_GELU_TANH] = { gelu_tanh, gelu_tanh_bwd },
};

static Status check_act(const OpInstance *op)
{
    const ActivationAttr *attr = op->attr;
    return functions[attr->act].forward && functions[attr->act].backward
               ? OK
               : fail(ERR_INTERNAL, "%s: no kernel for %s", op_name(op->kind),
                      op_act(attr->act)->name);
}

static Status activation_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    TRY(check_act(op));
    return cpu_decide_like(&op->out[ACTIVATION_OUT_Y], &op->in[ACTIVATION_IN_X], op);
}

static Status activation_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    (void)stream; /* CPU ops run when called */
    cpu_pointwise(op, functions[attr->act].forward, &op->out[ACTIVATION_OUT_Y],
                  &op->in[ACTIVATION_IN_X], NULL, 1);
    return OK;
}

static Status activation_bwd_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    TRY(check_act(op));
    TRY(cpu_decide_beside(&op->in[ACTIVATION_BWD_IN_DY], &op->in[ACTIVATION_BWD_IN_Y], op));
    return cpu_decide_like(&op->out[ACTIVATION_BWD_OUT_DX], &op->in[ACTIVATION_BWD_IN_DY], op);
}

static Status activation_bwd_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    (void)stream; /* CPU ops run when called */
    cpu_pointwise(op, functions[attr->act].backward, &op->out[ACTIVATION_BWD_OUT_DX],
                  &op->in[ACTIVATION_BWD_IN_DY], &op->in[ACTIVATION_BWD_IN_Y], 1);
    return OK;
}

const OpImpl cpu_activation = { .prepare = activation_prepare,
                                .bind = cpu_bind_nothing,
                                .run = activation_run };
const OpImpl cpu_activation_bwd = { .prepare = activation_bwd_prepare,
                                    .bind = cpu_bind_nothing,
                                    .run = activation_bwd_run };
