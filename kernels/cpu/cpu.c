/* cpu.c - the few steps that every elementwise op of the CPU backend shares. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/layout.h"
#include <string.h>

enum { SMALL_WORK = 8192 }; /* elements; below it a parallel region costs more than it saves */
enum { TILE = 512 };        /* elements that are widened at a time; they stay in cache */

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
    return fail(ERR_INTERNAL, "%s: tensors of one elementwise op have different layouts",
                op_name(op->kind));
}

Status cpu_decide_beside(OpTensor *t, const OpTensor *model, const OpInstance *op)
{
    if (t->bytes != 0 && t->desc.rank == 2 && tensor_same_shape(&t->desc, &model->desc))
        return cpu_require_decided(model, op);
    return cpu_decide_like(t, model, op);
}

Status cpu_prepare_plain(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank != 0) cpu_decide_plain(&op->out[i]);
    return OK;
}

Status cpu_bind_nothing(OpInstance *op)
{
    (void)op;
    return OK;
}

int cpu_team(const OpInstance *op, int64_t elements)
{
    return elements < SMALL_WORK ? 1 : cpu_backend_of(op)->threads;
}

void cpu_clear(const OpInstance *op, const OpTensor *t)
{
    const int parts = cpu_team(op, tensor_elements(&t->desc));
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share((int64_t)t->bytes, part, parts, &first, &last);
        memset((char *)t->data + first, 0, (size_t)(last - first));
    }
}

static const float *widened(const OpTensor *t, int64_t first, int64_t count, float *tile)
{
    if (cpu_layout_type(t) == DTYPE_F32) return (const float *)t->data + first;
    cpu_lanes_widen(tile, (const uint16_t *)t->data + first, count);
    return tile;
}

void cpu_pointwise_range(CpuPointwise f, const OpTensor *y, const OpTensor *a, const OpTensor *b,
                         int64_t first, int64_t last, float factor)
{
    const bool narrows = cpu_layout_type(y) == DTYPE_BF16,
               wide = !narrows && cpu_layout_type(a) == DTYPE_F32 &&
                      (!b || cpu_layout_type(b) == DTYPE_F32);
    const int64_t step = wide ? last - first : TILE;
    float tile[3][TILE];
    for (int64_t i = first; i < last; i += step) {
        const int64_t count = last - i < step ? last - i : step;
        float *to = narrows ? tile[0] : (float *)y->data + i;
        f(to, widened(a, i, count, tile[1]), b ? widened(b, i, count, tile[2]) : NULL, count,
          factor);
        if (narrows) cpu_lanes_narrow((uint16_t *)y->data + i, to, count);
    }
}

void cpu_pointwise(const OpInstance *op, CpuPointwise f, const OpTensor *y, const OpTensor *a,
                   const OpTensor *b, float factor)
{
    const int64_t count = (int64_t)(a->bytes / dtype_bytes(cpu_layout_type(a)));
    int parts = cpu_team(op, count);
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        cpu_pointwise_range(f, y, a, b, first, last, factor);
    }
}
