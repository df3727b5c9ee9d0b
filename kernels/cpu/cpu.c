/* cpu.c - the few steps that every elementwise op of the CPU backend shares. */
#include "kernels/cpu/cpu.h"

enum { SMALL_WORK = 8192 }; /* elements; below it a parallel region costs more than it saves */

CpuBackend *cpu_backend_of(const OpInstance *op)
{
    return (CpuBackend *)op->backend; /* base is the first member */
}

void cpu_decide_plain(OpTensor *t)
{
    if (t->bytes) return;
    t->layout = NULL;
    t->bytes = tensor_plain_bytes(&t->desc);
}

void cpu_share(int64_t total, int part, int parts, int64_t *first, int64_t *last)
{
    int64_t each = total / parts, rest = total % parts;
    *first = part * each + (part < rest ? part : rest);
    *last = *first + each + (part < rest ? 1 : 0);
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
