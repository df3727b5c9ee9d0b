/* drop.c - dropout and stochastic depth: shapes and work. Of rank 2 or 4; dim 0 counts images. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status check_attr(const OpSlots *s, int scalars)
{
    const DropAttr *a = s->attr;
    if (!(a->rate >= 0 && a->rate < 1) || a->layer >> 24)
        return fail(ERR_INTERNAL, "%s: rate %g or layer %u is invalid", op_name(s->kind),
                    (double)a->rate, a->layer);
    return infer_need_dims(s, scalars, 1, (const int64_t[]){ SCALAR_COUNT });
}

static Status check_x(const OpSlots *s, int slot)
{
    const TensorDesc *x = s->in[slot];
    TRY(infer_need(s, slot, DTYPE_F32, 0));
    if (x->rank == 4 || x->rank == 2) return OK;
    return fail(ERR_INTERNAL, "%s: x has rank %d, expected 2 or 4", op_name(s->kind), x->rank);
}

static Status check_where(const OpSlots *s, int slot, const TensorDesc *x)
{
    const DropAttr *a = s->attr;
    if (!s->in[slot]) return OK;
    if (x->rank != 4 || x->dims[0] != 1 || a->per_image)
        return fail(ERR_INTERNAL, "%s: where, but %lld images%s", op_name(s->kind),
                    (long long)x->dims[0], a->per_image ? " dropped whole" : "");
    const TensorDesc where =
        tensor_desc(DTYPE_I32, 2, (const int64_t[]){ x->dims[2] * x->dims[3], 2 });
    return infer_need_like(s, slot, &where);
}

static Status infer_forward(const OpSlots *s)
{
    TRY(check_x(s, DROP_IN_X));
    TRY(check_attr(s, DROP_IN_SCALARS));
    TRY(check_where(s, DROP_IN_WHERE, s->in[DROP_IN_X]));
    if (s->in[DROP_IN_RESIDUAL]) TRY(infer_need_like(s, DROP_IN_RESIDUAL, s->in[DROP_IN_X]));
    return infer_output_like(s, DROP_OUT_Y, s->in[DROP_IN_X]);
}

static Status infer_backward(const OpSlots *s)
{
    TRY(check_x(s, DROP_BWD_IN_DY));
    TRY(check_attr(s, DROP_BWD_IN_SCALARS));
    TRY(check_where(s, DROP_BWD_IN_WHERE, s->in[DROP_BWD_IN_DY]));
    return infer_output_like(s, DROP_BWD_OUT_DX, s->in[DROP_BWD_IN_DY]);
}

static void print_drop(const void *attr, char *out, size_t bytes)
{
    const DropAttr *a = attr;
    snprintf(out, bytes, "%g %s", (double)a->rate, a->per_image ? "of images" : "of elements");
}

const OpDef op_row_drop = {
    .attr_bytes = sizeof(DropAttr),
    .in_names = { "x", "scalars", "residual?", "where?" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(DROP_IN_X) },
    .infer = infer_forward,
    .work = { 1, DROP_IN_X },
    .print = print_drop,
};

const OpDef op_row_drop_bwd = {
    .attr_bytes = sizeof(DropAttr),
    .in_names = { "dy", "scalars", "where?" },
    .out_names = { "dx" },
    .in_place_of = { OP_OVER(DROP_BWD_IN_DY) },
    .infer = infer_backward,
    .work = { 1, DROP_BWD_IN_DY },
    .print = print_drop,
};
