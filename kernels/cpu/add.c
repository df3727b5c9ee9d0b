/* add.c - y = a + b, element by element in whatever layout both have; y may lie over either. */
#include "kernels/cpu/cpu.h"

CPU_CLONES static void add(float *y, const float *a, const float *b, int64_t count, float factor)
{
    (void)factor;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static Status add_prepare(OpInstance *op)
{
    TRY(cpu_decide_beside(&op->in[ADD_IN_B], &op->in[ADD_IN_A], op));
    return cpu_decide_like(&op->out[ADD_OUT_Y], &op->in[ADD_IN_A], op);
}

static void add_run(OpInstance *op)
{
    cpu_pointwise(op, add, &op->out[ADD_OUT_Y], &op->in[ADD_IN_A], &op->in[ADD_IN_B], 1);
}

CPU_LOOPS(cpu_add, "elementwise", add_prepare, add_run);
