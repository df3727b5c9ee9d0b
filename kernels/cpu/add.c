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
    op->implementation = "elementwise";
    TRY(cpu_decide_beside(&op->in[ADD_IN_B], &op->in[ADD_IN_A], op));
    return cpu_decide_like(&op->out[ADD_OUT_Y], &op->in[ADD_IN_A], op);
}

static Status add_run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    cpu_pointwise(op, add, &op->out[ADD_OUT_Y], &op->in[ADD_IN_A], &op->in[ADD_IN_B], 1);
    return OK;
}

const OpImpl cpu_add = { CPU_UNBOUND(add_prepare, add_run) };
