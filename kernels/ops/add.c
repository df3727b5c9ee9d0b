/* add.c - the sum of two tensors of one shape. */
#include "kernels/ops/infer.h"

static Status infer_add(const OpSlots *s)
{
    TRY(infer_need(s, ADD_IN_A, DTYPE_F32, 0));
    TRY(infer_need_like(s, ADD_IN_B, s->in[ADD_IN_A]));
    return infer_output_like(s, ADD_OUT_Y, s->in[ADD_IN_A]);
}

const OpDef op_row_add = {
    .in_names = { "a", "b" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(ADD_IN_A) },
    .infer = infer_add,
    .work = { 1, ADD_IN_A },
};
