/* op.c - the table of operations, put together from the rows of ops/x.c. */
#include "kernels/op.h"
#include "kernels/ops/infer.h"

#define ROW(kind, name, fused)   [kind] = &op_row_##name,
#define NAME(kind, name, fused)  [kind] = #name,
#define FUSED(kind, name, fused) [kind] = fused,

const OpDef *op_def(OpKind kind)
{
    static const OpDef *const rows[OP_COUNT] = { OP_LIST(ROW) };
    ASSERT(kind >= 0 && kind < OP_COUNT);
    return rows[kind];
}

const char *op_name(OpKind kind)
{
    static const char *const names[OP_COUNT] = { OP_LIST(NAME) };
    ASSERT(kind >= 0 && kind < OP_COUNT);
    return names[kind];
}

int op_in_place_of(OpKind kind, int output)
{
    return op_def(kind)->in_place_of[output] - OP_OVER(0);
}

Status op_infer(OpKind kind, const void *attr, const TensorDesc *const *in, const bool *wanted,
                TensorDesc *out)
{
    return op_def(kind)->infer(
        &(OpSlots){ .kind = kind, .attr = attr, .in = in, .wanted = wanted, .out = out });
}

double op_flops(OpKind kind, const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    const OpDef *def = op_def(kind);
    const int slot = def->work.slot, weights = def->work.weights;
    if (def->flops) return def->flops(attr, in, out);
    if (def->work.flops == 0) return 0;
    const TensorDesc *x = slot < OP_MAX_INPUTS ? in[slot] : &out[slot - OP_MAX_INPUTS],
                     *w = weights < OP_MAX_INPUTS ? in[weights] : &out[weights - OP_MAX_INPUTS];
    const double filter = weights ? (double)(w->dims[1] * w->dims[2] * w->dims[3]) : 1;
    return def->work.flops * filter * (double)tensor_elements(x);
}

static int count_names(const char *const *names, int most)
{
    int count = 0;
    while (count < most && names[count]) count++;
    return count;
}

int op_inputs(const OpDef *def)
{
    return count_names(def->in_names, OP_MAX_INPUTS);
}

int op_outputs(const OpDef *def)
{
    return count_names(def->out_names, OP_MAX_OUTPUTS);
}

FusedFor op_fused(OpKind kind)
{
    static const FusedFor fused[OP_COUNT] = { OP_LIST(FUSED) };
    ASSERT(kind >= 0 && kind < OP_COUNT);
    return fused[kind];
}
