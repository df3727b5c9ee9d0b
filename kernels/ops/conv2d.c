/* conv2d.c - shapes and work of the convolution and its two gradients.
 *
 * x [N,C,H,W], w [K,C/G,R,S], b [K], y [N,K,P,Q]. All three kinds are one relation between x, w and
 * y; each checks it with whichever two it is given, and the shape of the third (dx, dw) comes from
 * the caller because a stride leaves it open. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status check_attr(OpKind kind, const Conv2dAttr *a)
{
    if (a->stride_h < 1 || a->stride_w < 1 || a->groups < 1 || a->pad_top < 0 ||
        a->pad_bottom < 0 || a->pad_left < 0 || a->pad_right < 0)
        return fail(ERR_INTERNAL, "%s: stride %dx%d, pads %d,%d,%d,%d, groups %d: invalid",
                    op_name(kind), a->stride_h, a->stride_w, a->pad_top, a->pad_bottom, a->pad_left,
                    a->pad_right, a->groups);
    return OK;
}

/* w's dims past its rank are 1. */
static Status check_weights(OpKind kind, const TensorDesc *w)
{
    return w->rank >= 1 ? OK
                        : fail(ERR_INTERNAL, "%s: weights have rank %d", op_name(kind), w->rank);
}

/* The shape of y for x and w. */
static Status output_dims(OpKind kind, const Conv2dAttr *a, const TensorDesc *x,
                          const TensorDesc *w, int64_t y[4])
{
    char xs[96], ws[96];
    tensor_format(x, xs, sizeof xs);
    tensor_format(w, ws, sizeof ws);
    TRY(check_weights(kind, w));
    if (w->dims[1] * a->groups != x->dims[1] || w->dims[0] % a->groups)
        return fail(ERR_INTERNAL, "%s: weights %s do not fit x %s with %d groups", op_name(kind),
                    ws, xs, a->groups);
    y[0] = x->dims[0];
    y[1] = w->dims[0];
    y[2] = infer_output_size(x->dims[2], a->pad_top + a->pad_bottom, w->dims[2], a->stride_h);
    y[3] = infer_output_size(x->dims[3], a->pad_left + a->pad_right, w->dims[3], a->stride_w);
    if (y[2] < 1 || y[3] < 1)
        return fail(ERR_INTERNAL, "%s: the window of %s does not fit into padded x %s",
                    op_name(kind), ws, xs);
    return OK;
}

static Status infer_forward(const OpSlots *s)
{
    int64_t y[4];
    TRY(check_attr(s->kind, s->attr));
    TRY(infer_need(s, CONV_IN_X, DTYPE_F32, 4));
    TRY(infer_need(s, CONV_IN_W, DTYPE_F32, 0));
    TRY(output_dims(s->kind, s->attr, s->in[CONV_IN_X], s->in[CONV_IN_W], y));
    /* or gamma of OP_CONV2D_BN, whose row asks here too */
    if (s->in[CONV_IN_B]) TRY(infer_need_dims(s, CONV_IN_B, 1, &y[1]));
    return infer_output(s, CONV_OUT_Y, DTYPE_F32, 4, y);
}

static Status infer_bwd_data(const OpSlots *s)
{
    int64_t y[4];
    TRY(check_attr(s->kind, s->attr));
    TRY(infer_need(s, CONV_BWD_DATA_IN_W, DTYPE_F32, 0));
    TRY(infer_preset(s, CONV_BWD_DATA_OUT_DX, 4));
    TRY(output_dims(s->kind, s->attr, &s->out[CONV_BWD_DATA_OUT_DX], s->in[CONV_BWD_DATA_IN_W], y));
    return infer_need_dims(s, CONV_BWD_DATA_IN_DY, 4, y);
}

static Status infer_bwd_weights(const OpSlots *s)
{
    int64_t y[4];
    TRY(check_attr(s->kind, s->attr));
    TRY(infer_need(s, CONV_BWD_WEIGHTS_IN_X, DTYPE_F32, 4));
    TRY(infer_preset(s, CONV_BWD_WEIGHTS_OUT_DW, 0));
    TRY(output_dims(s->kind, s->attr, s->in[CONV_BWD_WEIGHTS_IN_X],
                    &s->out[CONV_BWD_WEIGHTS_OUT_DW], y));
    TRY(infer_need_dims(s, CONV_BWD_WEIGHTS_IN_DY, 4, y));
    return infer_output(s, CONV_BWD_WEIGHTS_OUT_DB, DTYPE_F32, 1, &y[1]);
}

static void print_conv2d(const void *attr, char *out, size_t bytes)
{
    const Conv2dAttr *a = attr;
    char stride[32], pad[64], groups[32] = "";
    if (a->stride_h == a->stride_w) {
        snprintf(stride, sizeof stride, "/%d", a->stride_h);
    } else {
        snprintf(stride, sizeof stride, "/%dx%d", a->stride_h, a->stride_w);
    }
    bool same =
        a->pad_top == a->pad_bottom && a->pad_left == a->pad_right && a->pad_top == a->pad_left;
    if (same) {
        snprintf(pad, sizeof pad, " pad %d", a->pad_top);
    } else {
        snprintf(pad, sizeof pad, " pad %d,%d,%d,%d", a->pad_top, a->pad_bottom, a->pad_left,
                 a->pad_right);
    }
    if (a->groups > 1) snprintf(groups, sizeof groups, " groups %d", a->groups);
    snprintf(out, bytes, "%s%s%s", stride, pad, groups);
}

/* Each element of y is a dot product over C/G,R,S; the gradients do the same products. */
#define NAMES(...) __VA_ARGS__
#define CONV_ROW(in, out, f, y, w)                                                                 \
    {                                                                                              \
        .attr_bytes = sizeof(Conv2dAttr), .in_names = { in }, .out_names = { out }, .infer = f,    \
        .work = { 2, y, w }, .print = print_conv2d                                                 \
    }

const OpDef op_row_conv2d =
    CONV_ROW(NAMES("x", "w", "b?"), "y", infer_forward, OP_OUTPUT(CONV_OUT_Y), CONV_IN_W);
const OpDef op_row_conv2d_bwd_data =
    CONV_ROW(NAMES("dy", "w"), "dx", infer_bwd_data, CONV_BWD_DATA_IN_DY, CONV_BWD_DATA_IN_W);
const OpDef op_row_conv2d_bwd_weights =
    CONV_ROW(NAMES("x", "dy"), NAMES("dw", "db?"), infer_bwd_weights, CONV_BWD_WEIGHTS_IN_DY,
             OP_OUTPUT(CONV_BWD_WEIGHTS_OUT_DW));
