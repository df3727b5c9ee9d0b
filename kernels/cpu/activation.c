/* activation.c - y = act(x) and dx = dy act'(y), element by element in whatever layout x has. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"
#include <string.h>

/* NAME and NAME_bwd, of x[i], and of dy[i] and at[i], which is y or x. */
#define ACTIVATION(name, y_of_x, dx_of_dy_and_at)                                                  \
    CPU_CLONES static void name(float *y, const float *x, const float *none, int64_t count,        \
                                float factor)                                                      \
    {                                                                                              \
        (void)none;                                                                                \
        (void)factor;                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] = y_of_x;                     \
    }                                                                                              \
    CPU_CLONES static void name##_bwd(float *dx, const float *dy, const float *at, int64_t count,  \
                                      float factor)                                                \
    {                                                                                              \
        (void)factor;                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) dx[i] = dx_of_dy_and_at;           \
    }
/* NaN is no number below zero: it passes, forward and backward, as in torch. */
ACTIVATION(relu, x[i] <= 0.0f ? 0.0f : x[i], at[i] <= 0.0f ? 0.0f : dy[i])
ACTIVATION(silu, cpu_silu(x[i]), dy[i] * cpu_silu_slope(at[i]))
ACTIVATION(gelu, cpu_gelu(x[i]), dy[i] * cpu_gelu_slope(at[i]))
ACTIVATION(gelu_tanh, cpu_gelu_tanh(x[i]), dy[i] * cpu_gelu_tanh_slope(at[i]))
ACTIVATION(relu6, cpu_relu6(x[i]), cpu_relu6_bwd(dy[i], at[i]))
ACTIVATION(hard_swish, cpu_hard_swish(x[i]), cpu_hard_swish_bwd(dy[i], at[i]))
ACTIVATION(tanh_of, cpu_tanh(x[i]), dy[i] * cpu_tanh_slope(at[i]))

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
    [ACT_RELU6] = { relu6, relu6_bwd },
    [ACT_HARD_SWISH] = { hard_swish, hard_swish_bwd },
    [ACT_TANH] = { tanh_of, tanh_of_bwd },
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
    TRY(check_act(op));
    return cpu_decide_like(&op->out[ACTIVATION_OUT_Y], &op->in[ACTIVATION_IN_X], op);
}

static void activation_run(OpInstance *op)
{
    const ActivationAttr *attr = op->attr;
    cpu_pointwise(op, functions[attr->act].forward, &op->out[ACTIVATION_OUT_Y],
                  &op->in[ACTIVATION_IN_X], NULL, 1);
}

static Status activation_bwd_prepare(OpInstance *op)
{
    TRY(check_act(op));
    TRY(cpu_decide_beside(&op->in[ACTIVATION_BWD_IN_DY], &op->in[ACTIVATION_BWD_IN_Y], op));
    return cpu_decide_like(&op->out[ACTIVATION_BWD_OUT_DX], &op->in[ACTIVATION_BWD_IN_DY], op);
}

static void activation_bwd_run(OpInstance *op)
{
    const ActivationAttr *attr = op->attr;
    cpu_pointwise(op, functions[attr->act].backward, &op->out[ACTIVATION_BWD_OUT_DX],
                  &op->in[ACTIVATION_BWD_IN_DY], &op->in[ACTIVATION_BWD_IN_Y], 1);
}

CPU_LOOPS(cpu_activation, "elementwise", activation_prepare, activation_run);
CPU_LOOPS(cpu_activation_bwd, "elementwise", activation_bwd_prepare, activation_bwd_run);
