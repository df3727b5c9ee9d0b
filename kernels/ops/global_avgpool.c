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

static double flops_forward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    (void)out;
    return (double)tensor_elements(in[GLOBAL_AVGPOOL_IN_X]);
}

static double flops_backward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    (void)out;
    return (double)tensor_elements(in[GLOBAL_AVGPOOL_BWD_IN_DY]);
}

const OpDef op_row_global_avgpool = {
    .inputs = 1,
    .outputs = 1,
    .in_names = { "x" },
    .out_names = { "y" },
    .in_place_of = { -1, -1, -1, -1 },
    .infer = infer_forward,
    .flops = flops_forward,
};

const OpDef op_row_global_avgpool_bwd = {
    .inputs = 1,
    .outputs = 1,
    .in_names = { "dy" },
    .out_names = { "dx" },
    .in_place_of = { -1, -1, -1, -1 },
    .infer = infer_backward,
    .flops = flops_backward,
};
