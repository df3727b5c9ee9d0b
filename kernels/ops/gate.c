/* gate.c - y[n,c,h,w] = x[n,c,h,w] sigmoid(g[n,c]), and its gradient: shapes and work. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_forward(const OpSlots *s)
{
    TRY(infer_need(s, GATE_IN_X, DTYPE_F32, 4));
    TRY(infer_need_dims(s, GATE_IN_G, 2, s->in[GATE_IN_X]->dims));
    return infer_output_like(s, GATE_OUT_Y, s->in[GATE_IN_X]);
}

static Status infer_backward(const OpSlots *s)
{
    const TensorDesc *x = s->in[GATE_BWD_IN_X];
    TRY(infer_need(s, GATE_BWD_IN_X, DTYPE_F32, 4));
    TRY(infer_need_like(s, GATE_BWD_IN_DY, x));
    TRY(infer_need_dims(s, GATE_BWD_IN_G, 2, x->dims));
    TRY(infer_output_like(s, GATE_BWD_OUT_DX, x));
    return infer_output_like(s, GATE_BWD_OUT_DG, s->in[GATE_BWD_IN_G]);
}

static void print_gate(const void *attr, char *out, size_t bytes)
{
    const GateAttr *a = attr;
    snprintf(out, bytes, "%s", a->hard ? "hard" : "");
}

const OpDef op_row_gate = {
    .attr_bytes = sizeof(GateAttr),
    .in_names = { "x", "g" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(GATE_IN_X) },
    .infer = infer_forward,
    .work = { 1, GATE_IN_X },
    .print = print_gate,
};

const OpDef op_row_gate_bwd = {
    .attr_bytes = sizeof(GateAttr),
    .in_names = { "dy", "x", "g" },
    .out_names = { "dx", "dg" },
    .in_place_of = { OP_OVER(GATE_BWD_IN_DY) },
    .infer = infer_backward,
    .work = { 3, GATE_BWD_IN_X }, /* dx, and a product and a sum for dg */
    .print = print_gate,
};
