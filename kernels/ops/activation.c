/* activation.c - elementwise non-linearities on their own, where no batch norm takes them along. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status check_attr(OpKind kind, const ActivationAttr *a)
{
    return (unsigned)a->act < ACT_COUNT
               ? OK
               : fail(ERR_INTERNAL, "%s: unknown activation %d", op_name(kind), (int)a->act);
}

static Status infer_forward(const OpSlots *s)
{
    TRY(check_attr(s->kind, s->attr));
    TRY(infer_need(s, ACTIVATION_IN_X, DTYPE_F32, 0));
    return infer_output_like(s, ACTIVATION_OUT_Y, s->in[ACTIVATION_IN_X]);
}

static Status infer_backward(const OpSlots *s)
{
    TRY(check_attr(s->kind, s->attr));
    TRY(infer_need(s, ACTIVATION_BWD_IN_DY, DTYPE_F32, 0));
    TRY(infer_need_like(s, ACTIVATION_BWD_IN_Y, s->in[ACTIVATION_BWD_IN_DY]));
    return infer_output_like(s, ACTIVATION_BWD_OUT_DX, s->in[ACTIVATION_BWD_IN_DY]);
}

static void print_activation(const void *attr, char *out, size_t bytes)
{
    const ActivationAttr *a = attr;
    snprintf(out, bytes, "%s", op_act(a->act)->name);
}

const OpDef op_row_activation = {
    .attr_bytes = sizeof(ActivationAttr),
    .in_names = { "x" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(ACTIVATION_IN_X) },
    .infer = infer_forward,
    .work = { 1, ACTIVATION_IN_X },
    .print = print_activation,
};

const OpDef op_row_activation_bwd = {
    .attr_bytes = sizeof(ActivationAttr),
    .in_names = { "dy", "y" },
    .out_names = { "dx" },
    .in_place_of = { OP_OVER(ACTIVATION_BWD_IN_DY) },
    .infer = infer_backward,
    .work = { 1, ACTIVATION_BWD_IN_DY },
    .print = print_activation,
};
