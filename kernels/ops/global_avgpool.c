/* global_avgpool.c - the mean over the image: N,C,H,W -> N,C, and its gradient. */
#include "kernels/ops/infer.h"

static Status infer_forward(const OpSlots *s)
{
    const int slot = GLOBAL_AVGPOOL_OUT_Y;
    TRY(infer_need(s, GLOBAL_AVGPOOL_IN_X, DTYPE_F32, 4));
    return infer_output(s, slot, DTYPE_F32, 2, s->in[GLOBAL_AVGPOOL_IN_X]->dims);
}

static Status infer_backward(const OpSlots *s)
{
    TRY(infer_preset(s, GLOBAL_AVGPOOL_BWD_OUT_DX, 4));
    return infer_need_dims(s, GLOBAL_AVGPOOL_BWD_IN_DY, 2, s->out[GLOBAL_AVGPOOL_BWD_OUT_DX].dims);
}

const OpDef op_row_global_avgpool = {
    .in_names = { "x" },
    .out_names = { "y" },
    .infer = infer_forward,
    .work = { 1, GLOBAL_AVGPOOL_IN_X },
};

const OpDef op_row_global_avgpool_bwd = {
    .in_names = { "dy" },
    .out_names = { "dx" },
    .infer = infer_backward,
    .work = { 1, GLOBAL_AVGPOOL_BWD_IN_DY },
};
