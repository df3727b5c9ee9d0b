/* scale.c - y = x * factor, element by element; y may lie over x. Its tensors may be flat slabs that nothing decided
 * before. */
#include "kernels/cpu/lanes.h"

CPU_CLONES static void scale(float *y, const float *x, float factor, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

static Status scale_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    if (op->in[SCALE_IN_X].bytes == 0) cpu_decide_plain(&op->in[SCALE_IN_X]);
    return cpu_decide_like(&op->out[SCALE_OUT_Y], &op->in[SCALE_IN_X], op);
}

static Status scale_run(OpInstance *op, Stream *stream)
{
    const ScaleAttr *attr = op->attr;
    const float *x = op->in[SCALE_IN_X].data;
    float *y = op->out[SCALE_OUT_Y].data;
    int64_t count = (int64_t)(op->in[SCALE_IN_X].bytes / sizeof *x);
    int parts = cpu_team(op, count);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        scale(y + first, x + first, attr->factor, last - first);
    }
    return OK;
}

const OpImpl cpu_scale = { .prepare = scale_prepare, .bind = cpu_bind_nothing, .run = scale_run };
