/* add.c - y = a + b, element by element in whatever layout both have; y may lie over either. */
#include "kernels/cpu/lanes.h"

CPU_CLONES static void add(float *y, const float *a, const float *b, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static Status add_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    TRY(cpu_decide_like(&op->in[ADD_IN_B], &op->in[ADD_IN_A], op));
    return cpu_decide_like(&op->out[ADD_OUT_Y], &op->in[ADD_IN_A], op);
}

static Status add_run(OpInstance *op, Stream *stream)
{
    const float *a = op->in[ADD_IN_A].data, *b = op->in[ADD_IN_B].data;
    float *y = op->out[ADD_OUT_Y].data;
    int64_t count = (int64_t)(op->in[ADD_IN_A].bytes / sizeof *a);
    int parts = cpu_team(op, count);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        add(y + first, a + first, b + first, last - first);
    }
    return OK;
}

const OpImpl cpu_add = { .prepare = add_prepare, .bind = cpu_bind_nothing, .run = add_run };
