/* view.c - see view.h. */
#include "kernels/cpu/view.h"
#include "kernels/cpu/layout.h"

void cpu_view_decide(CpuBackend *b, OpTensor *t)
{
    if (t->bytes) return;
    t->layout = cpu_layout_of_activation(b, &t->desc, &t->bytes);
}

Status cpu_view_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op)
{
    TRY(cpu_require_decided(model, op));
    if (model->layout == NULL) cpu_decide_plain(t);
    else cpu_view_decide(cpu_backend_of(op), t);
    if (cpu_view(t).b == cpu_view(model).b) return OK;
    return fail(ERR_INTERNAL, "%s: input and output have different channel blocks",
                op_name(op->kind));
}

CpuView cpu_view(const OpTensor *t)
{
    const TensorDesc *d = &t->desc;
    ASSERT((d->rank == 2 || d->rank == 4) && (!t->layout || t->layout->block));
    CpuView v = { .n = d->dims[0], .c = d->dims[1], .h = 1, .w = 1 };
    if (d->rank == 4) {
        v.h = d->dims[2];
        v.w = d->dims[3];
    }
    v.hw = v.h * v.w;
    v.b = t->layout ? t->layout->block : 1;
    v.cb = (v.c + v.b - 1) / v.b;
    return v;
}

int64_t cpu_view_channels(const CpuView *v, int64_t block)
{
    int64_t left = v->c - block * v->b;
    return left < v->b ? left : v->b;
}
