/* subsample.c - the parameter-free shortcut of the CIFAR ResNets: every stride-th pixel, added
 * channels zero at the end; and its gradient. */
#include "kernels/ops/infer.h"
#include <inttypes.h>
#include <stdio.h>

static Status output_dims(OpKind kind, const SubsampleAttr *a, const TensorDesc *x, int64_t y[4])
{
    if (a->stride < 1 || a->out_channels < x->dims[1])
        return fail(ERR_INTERNAL,
                    "%s: stride %d from %" PRId64 " to %" PRId64 " channels: impossible",
                    op_name(kind), a->stride, x->dims[1], a->out_channels);
    y[0] = x->dims[0];
    y[1] = a->out_channels;
    y[2] = (x->dims[2] + a->stride - 1) / a->stride;
    y[3] = (x->dims[3] + a->stride - 1) / a->stride;
    return OK;
}

static Status infer_forward(const OpSlots *s)
{
    int64_t y[4];
    TRY(infer_need(s, SUBSAMPLE_IN_X, DTYPE_F32, 4));
    TRY(output_dims(s->kind, s->attr, s->in[SUBSAMPLE_IN_X], y));
    return infer_output(s, SUBSAMPLE_OUT_Y, DTYPE_F32, 4, y);
}

static Status infer_backward(const OpSlots *s)
{
    int64_t y[4];
    TRY(infer_preset(s, SUBSAMPLE_BWD_OUT_DX, 4));
    TRY(output_dims(s->kind, s->attr, &s->out[SUBSAMPLE_BWD_OUT_DX], y));
    return infer_need_dims(s, SUBSAMPLE_BWD_IN_DY, 4, y);
}

static void print_subsample(const void *attr, char *out, size_t bytes)
{
    const SubsampleAttr *a = attr;
    snprintf(out, bytes, "/%d to %" PRId64, a->stride, a->out_channels);
}

const OpDef op_row_subsample = {
    .attr_bytes = sizeof(SubsampleAttr),
    .in_names = { "x" },
    .out_names = { "y" },
    .infer = infer_forward,
    .print = print_subsample,
};

const OpDef op_row_subsample_bwd = {
    .attr_bytes = sizeof(SubsampleAttr),
    .in_names = { "dy" },
    .out_names = { "dx" },
    .infer = infer_backward,
    .print = print_subsample,
};
