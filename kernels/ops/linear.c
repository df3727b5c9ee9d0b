/* linear.c - y = x w^T + b and its gradients: shapes and work. x is [N,C], or [N,C,H,W] taken as N
 * rows of C*H*W. w is [K,C], or [K,C,1,1] where the layer is a 1x1 convolution of one pixel. */
#include "kernels/ops/infer.h"

static Status check_weights(OpKind kind, const TensorDesc *w)
{
    char text[96];
    if (w->rank == 2 || (w->rank == 4 && w->dims[2] == 1 && w->dims[3] == 1)) return OK;
    tensor_format(w, text, sizeof text);
    return fail(ERR_INTERNAL, "%s: weights are %s, expected rank 2 or windows of 1x1",
                op_name(kind), text);
}

/* Checks x against w and gives the shape of y. */
static Status output_dims(OpKind kind, const TensorDesc *x, const TensorDesc *w, int64_t y[2])
{
    char xs[96], ws[96];
    tensor_format(x, xs, sizeof xs);
    tensor_format(w, ws, sizeof ws);
    if (x->rank < 2)
        return fail(ERR_INTERNAL, "%s: x is %s, expected rank 2 or 4", op_name(kind), xs);
    if (tensor_elements(x) != x->dims[0] * w->dims[1])
        return fail(ERR_INTERNAL, "%s: weights %s do not fit x %s", op_name(kind), ws, xs);
    y[0] = x->dims[0];
    y[1] = w->dims[0];
    return OK;
}

static Status infer_forward(const OpSlots *s)
{
    int64_t y[2];
    TRY(infer_need(s, LINEAR_IN_X, DTYPE_F32, 0));
    TRY(infer_need(s, LINEAR_IN_W, DTYPE_F32, 0));
    TRY(check_weights(s->kind, s->in[LINEAR_IN_W]));
    TRY(output_dims(s->kind, s->in[LINEAR_IN_X], s->in[LINEAR_IN_W], y));
    if (s->in[LINEAR_IN_B]) TRY(infer_need_dims(s, LINEAR_IN_B, 1, &y[1]));
    return infer_output(s, LINEAR_OUT_Y, DTYPE_F32, 2, y);
}

static Status infer_bwd_data(const OpSlots *s)
{
    int64_t y[2];
    TRY(infer_need(s, LINEAR_BWD_DATA_IN_W, DTYPE_F32, 0));
    TRY(check_weights(s->kind, s->in[LINEAR_BWD_DATA_IN_W]));
    TRY(infer_preset(s, LINEAR_BWD_DATA_OUT_DX, 0));
    TRY(output_dims(s->kind, &s->out[LINEAR_BWD_DATA_OUT_DX], s->in[LINEAR_BWD_DATA_IN_W], y));
    return infer_need_dims(s, LINEAR_BWD_DATA_IN_DY, 2, y);
}

static Status infer_bwd_weights(const OpSlots *s)
{
    const int dw = LINEAR_BWD_WEIGHTS_OUT_DW, db = LINEAR_BWD_WEIGHTS_OUT_DB;
    int64_t y[2];
    TRY(infer_need(s, LINEAR_BWD_WEIGHTS_IN_X, DTYPE_F32, 0));
    TRY(infer_preset(s, dw, 0));
    TRY(check_weights(s->kind, &s->out[dw]));
    TRY(output_dims(s->kind, s->in[LINEAR_BWD_WEIGHTS_IN_X], &s->out[dw], y));
    TRY(infer_need_dims(s, LINEAR_BWD_WEIGHTS_IN_DY, 2, y));
    return infer_output(s, db, DTYPE_F32, 1, &y[1]);
}

const OpDef op_row_linear = {
    .in_names = { "x", "w", "b?" },
    .out_names = { "y" },
    .infer = infer_forward,
    .work = { 2, OP_OUTPUT(LINEAR_OUT_Y), LINEAR_IN_W },
};

const OpDef op_row_linear_bwd_data = {
    .in_names = { "dy", "w" },
    .out_names = { "dx" },
    .infer = infer_bwd_data,
    .work = { 2, LINEAR_BWD_DATA_IN_DY, LINEAR_BWD_DATA_IN_W },
};

const OpDef op_row_linear_bwd_weights = {
    .in_names = { "x", "dy" },
    .out_names = { "dw", "db?" },
    .infer = infer_bwd_weights,
    .work = { 2, LINEAR_BWD_WEIGHTS_IN_DY, OP_OUTPUT(LINEAR_BWD_WEIGHTS_OUT_DW) },
};
