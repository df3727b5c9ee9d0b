/* lanes.c - the few steps that every elementwise op of the CPU backend shares; see lanes.h for the
 * design. */
#include "kernels/cpu/lanes.h"

enum { SMALL_WORK = 8192 }; /* elements; below it a parallel region costs more than it saves */

CpuBackend *cpu_backend_of(const OpInstance *op)
{
    return (CpuBackend *)op->backend; /* base is the first member */
}

Status cpu_require_decided(const OpTensor *t, const OpInstance *op)
{
    if (t->bytes != 0) return OK;
    return fail(ERR_INTERNAL, "%s: an input has no layout yet", op_name(op->kind));
}

Status cpu_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op)
{
    TRY(cpu_require_decided(model, op));
    if (t->bytes == 0) {
        t->layout = model->layout;
        t->bytes = model->bytes;
    }
    /* One shape has one activation layout, so equal sizes mean equal layouts. */
    if (t->bytes == model->bytes && tensor_same_shape(&t->desc, &model->desc)) return OK;
    return fail(ERR_INTERNAL, "%s: tensors of one elementwise op lie differently",
                op_name(op->kind));
}

Status cpu_decide_like_blocks(OpTensor *t, const OpTensor *model, const OpInstance *op)
{
    TRY(cpu_require_decided(model, op));
    if (model->layout == NULL) cpu_decide_plain(t);
    else cpu_decide_activation(cpu_backend_of(op), t);
    if (cpu_view(t).b == cpu_view(model).b) return OK;
    return fail(ERR_INTERNAL, "%s: input and output have different channel blocks",
                op_name(op->kind));
}

Status cpu_bind_nothing(OpInstance *op)
{
    (void)op; /* run() reads the slots directly */
    return OK;
}

int cpu_team(const OpInstance *op, int64_t elements)
{
    return elements < SMALL_WORK ? 1 : cpu_backend_of(op)->threads;
}

void cpu_pointwise(const OpInstance *op, CpuPointwise f, float *y, const float *a, const float *b,
                   int64_t count, float factor)
{
    int parts = cpu_team(op, count);
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        f(y + first, a + first, b ? b + first : NULL, last - first, factor);
    }
}

int64_t cpu_block_channels(const CpuView *v, int64_t block)
{
    int64_t left = v->c - block * v->b;
    return left < v->b ? left : v->b;
}

double cpu_lanes_sum(const double *lanes, int64_t channel, int64_t b)
{
    double sum = 0;
    for (int64_t l = channel; l < CPU_LANES; l += b) sum += lanes[l];
    return sum;
}

void cpu_lanes_fill(float *lanes, int64_t channel, int64_t b, float value)
{
    for (int64_t l = channel; l < CPU_LANES; l += b) lanes[l] = value;
}
