/* softmax_xent.c - loss, counts and the gradient of the logits: shapes and printing. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer(const void *attr, const TensorDesc *const *in, const bool *wanted,
                    TensorDesc *out)
{
    const OpKind kind = OP_SOFTMAX_XENT;
    const XentAttr *a = attr;
    const TensorDesc *logits = in[XENT_IN_LOGITS];
    if (!(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        return fail(ERR_INTERNAL, "%s: label smoothing %g is not in [0,1]", op_name(kind),
                    (double)a->label_smoothing);
    TRY(infer_need(kind, XENT_IN_LOGITS, logits, DTYPE_F32, 2));
    const bool twice = a->views == 2;
    if (twice && (logits->dims[0] % 2 != 0 || wanted[XENT_OUT_DLOGITS] || in[XENT_IN_MIX]))
        return fail(ERR_INTERNAL, "%s: two views of %lld rows in all, without gradient and mixing",
                    op_name(kind), (long long)logits->dims[0]);
    TensorDesc labels =
        tensor_desc(DTYPE_I32, 1, (int64_t[]){ twice ? logits->dims[0] / 2 : logits->dims[0] });
    TRY(infer_need_like(kind, XENT_IN_LABELS, in[XENT_IN_LABELS], &labels));
    TRY(infer_need_dims(kind, XENT_IN_SCALARS, in[XENT_IN_SCALARS], 1,
                        (int64_t[]){ SCALAR_COUNT }));
    if (in[XENT_IN_LOSS_SCALE])
        TRY(infer_need_dims(kind, XENT_IN_LOSS_SCALE, in[XENT_IN_LOSS_SCALE], 1,
                            (int64_t[]){ LOSS_SCALE_COUNT }));
    if (in[XENT_IN_MIX])
        TRY(infer_need_dims(kind, XENT_IN_MIX, in[XENT_IN_MIX], 1, (int64_t[]){ MIX_COUNT }));
    TRY(infer_output(kind, XENT_OUT_STATS, wanted[XENT_OUT_STATS], &out[XENT_OUT_STATS], DTYPE_F64,
                     1, (int64_t[]){ STATS_COUNT }));
    return infer_output_like(kind, XENT_OUT_DLOGITS, wanted[XENT_OUT_DLOGITS],
                             &out[XENT_OUT_DLOGITS], logits);
}

/* Maximum, exp, sum, logarithm and gradient: five operations an element. */
static double flops(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    (void)out;
    return 5.0 * (double)tensor_elements(in[XENT_IN_LOGITS]);
}

static void print(const void *attr, char *out, size_t bytes)
{
    const XentAttr *a = attr;
    snprintf(out, bytes, "smoothing %g", (double)a->label_smoothing);
}

const OpDef op_row_softmax_xent = {
    .attr_bytes = sizeof(XentAttr),
    .inputs = 5,
    .outputs = 2,
    .in_names = { "logits", "labels", "scalars", "loss_scale?", "mix?" },
    .out_names = { "stats", "dlogits?" },
    .in_place_of = { -1, XENT_IN_LOGITS, -1, -1 },
    .infer = infer,
    .flops = flops,
    .print = print,
};
