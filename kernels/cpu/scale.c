/* scale.c - y = x * factor, element by element; y may lie over x. Its tensors may be flat slabs
 * that nothing decided before. */
#include "kernels/cpu/cpu.h"

CPU_CLONES static void scale(float *y, const float *x, const float *none, int64_t count,
                             float factor)
{
    (void)none;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

static Status scale_prepare(OpInstance *op)
{
    if (op->in[SCALE_IN_X].bytes == 0) cpu_decide_plain(&op->in[SCALE_IN_X]);
    return cpu_decide_like(&op->out[SCALE_OUT_Y], &op->in[SCALE_IN_X], op);
}

static void scale_run(OpInstance *op)
{
    const ScaleAttr *attr = op->attr;
    cpu_pointwise(op, scale, &op->out[SCALE_OUT_Y], &op->in[SCALE_IN_X], NULL, attr->factor);
}

CPU_LOOPS(cpu_scale, "elementwise", scale_prepare, scale_run);
