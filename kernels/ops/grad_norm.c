/* grad_norm.c - the norm of all gradients in two passes: sums of squares of fixed chunks, then
 * their root and the factor by which the update shrinks gradients that are too long. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_squares(const OpSlots *s)
{
    TRY(infer_need(s, GRAD_SQUARES_IN_X, DTYPE_F32, 1));
    int64_t chunks =
        (s->in[GRAD_SQUARES_IN_X]->dims[0] + GRAD_SQUARES_CHUNK - 1) / GRAD_SQUARES_CHUNK;
    return infer_output(s, GRAD_SQUARES_OUT_SUMS, DTYPE_F64, 1, &chunks);
}

static Status infer_norm(const OpSlots *s)
{
    const GradNormAttr *a = s->attr;
    if (!(a->max_norm >= 0))
        return fail(ERR_INTERNAL, "%s: %g is not a valid maximum norm", op_name(s->kind),
                    (double)a->max_norm);
    if (!(a->length >= 0))
        return fail(ERR_INTERNAL, "%s: %g is not a valid length", op_name(s->kind),
                    (double)a->length);
    TRY(infer_need(s, GRAD_NORM_IN_SUMS, DTYPE_F64, 1));
    if (s->in[GRAD_NORM_IN_LOSS_SCALE])
        TRY(infer_need_dims(s, GRAD_NORM_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT }));
    return infer_output(s, GRAD_NORM_OUT_CLIP, DTYPE_F32, 1, (int64_t[]){ CLIP_COUNT });
}

static void print_norm(const void *attr, char *out, size_t bytes)
{
    const GradNormAttr *a = attr;
    if (a->length > 0) snprintf(out, bytes, "made %g long", (double)a->length);
    else snprintf(out, bytes, "at most %g", (double)a->max_norm);
}

const OpDef op_row_grad_squares = {
    .in_names = { "x" },
    .out_names = { "sums" },
    .infer = infer_squares,
    .work = { 2, GRAD_SQUARES_IN_X },
};

const OpDef op_row_grad_norm = {
    .attr_bytes = sizeof(GradNormAttr),
    .in_names = { "sums", "loss_scale?" },
    .out_names = { "clip" },
    .infer = infer_norm,
    .print = print_norm,
};
