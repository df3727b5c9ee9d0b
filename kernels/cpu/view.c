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
    if (!model->layout) cpu_decide_plain(t);
    else cpu_view_decide(cpu_backend_of(op), t);
    if (cpu_view(t).b == cpu_view(model).b) return OK;
    return fail(ERR_INTERNAL, "%s: input and output have different channel blocks",
                op_name(op->kind));
}

static void set_blocks(CpuView *v, int64_t block)
{
    v->b = block;
    v->cb = (v->c + block - 1) / block;
    v->step = block;
    v->block_step = v->hw * block;
    v->image = v->cb * v->block_step;
}

static void set_rows(CpuView *v)
{
    v->rows = true;
    v->b = v->block_step = CPU_LANES;
    v->cb = (v->c + CPU_LANES - 1) / CPU_LANES;
    v->step = v->c;
    v->image = v->hw * v->c;
}

CpuView cpu_view(const OpTensor *t)
{
    const TensorDesc *d = &t->desc;
    const Layout *layout = t->layout;
    ASSERT((d->rank == 2 || d->rank == 4) && (!layout || layout->block || layout->rows));
    CpuView v = { .n = d->dims[0], .c = d->dims[1], .h = 1, .w = 1, .type = cpu_layout_type(t) };
    if (d->rank == 4) {
        v.h = d->dims[2];
        v.w = d->dims[3];
    }
    v.hw = v.h * v.w;
    if (layout && layout->rows) set_rows(&v);
    else set_blocks(&v, layout ? layout->block : 1);
    return v;
}

int64_t cpu_view_channels(const CpuView *v, int64_t block)
{
    int64_t left = v->c - block * v->b;
    return left < v->b ? left : v->b;
}

int64_t cpu_view_at(const CpuView *v, int64_t n, int64_t c, int64_t position)
{
    return n * v->image + c / v->b * v->block_step + position * v->step + c % v->b;
}

int64_t cpu_view_plane(const CpuView *v, int64_t plane)
{
    return plane / v->cb * v->image + plane % v->cb * v->block_step;
}

int64_t cpu_view_strips(const CpuView *v, int threads)
{
    enum { EACH = 4, STRIP_BLOCKS = CPU_STRIP / CPU_LANES };
    int64_t strips = (v->cb + STRIP_BLOCKS - 1) / STRIP_BLOCKS;
    if (!v->rows) return v->cb;
    if (strips * v->n < EACH * threads) strips = (EACH * threads + v->n - 1) / v->n;
    return strips < v->cb ? strips : v->cb;
}

CpuStrip cpu_view_strip(const CpuView *v, int64_t strips, int64_t i)
{
    const int64_t count = v->hw * v->b;
    int64_t first, last;
    cpu_share(v->cb, (int)(i % strips), (int)strips, &first, &last);
    CpuStrip s = { .n = i / strips,
                   .first = first * v->b,
                   .channels = (last < v->cb ? last * v->b : v->c) - first * v->b,
                   .at = i / strips * v->image + first * v->block_step,
                   .steps = v->rows ? v->hw : count / CPU_LANES,
                   .stride = v->rows ? v->c : CPU_LANES,
                   .rest = v->rows ? 0 : count % CPU_LANES };
    s.lanes = v->rows ? (int)s.channels : CPU_LANES;
    return s;
}

void cpu_view_fill(const CpuView *v, float *lanes, int64_t c, float value)
{
    cpu_lanes_fill(lanes + c / v->b * CPU_LANES, c % v->b, v->b, value);
}

double cpu_view_sum(const CpuView *v, const double *lanes, int64_t c)
{
    return cpu_lanes_sum(lanes + c / v->b * CPU_LANES, c % v->b, v->b);
}
