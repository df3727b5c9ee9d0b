/* softmax_xent.c - loss, counts and the gradient of the logits: shapes and printing. */
#include "kernels/ops/softmax_xent.h"
#include "kernels/ops/infer.h"
#include <stdio.h>

const char *const softmax_xent_loss_names[LOSS_KIND_COUNT + 1] = {
    [LOSS_CROSS_ENTROPY] = "cross_entropy", [LOSS_BCE] = "bce"
};

static Status infer_softmax_xent(const OpSlots *s)
{
    const XentAttr *a = s->attr;
    const TensorDesc *logits = s->in[XENT_IN_LOGITS];
    if (!(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        return fail(ERR_INTERNAL, "%s: label smoothing %g is not in [0,1]", op_name(s->kind),
                    (double)a->label_smoothing);
    TRY(infer_need(s, XENT_IN_LOGITS, DTYPE_F32, 2));
    const int views = op_input_views(a->views);
    const bool trains = s->wanted[XENT_OUT_DLOGITS] || s->in[XENT_IN_MIX] || s->in[XENT_IN_TEACHER];
    if (views > 1 && (logits->dims[0] % views != 0 || trains))
        return fail(ERR_INTERNAL,
                    "%s: %d views of %lld rows in total: rows must be a multiple of views, without "
                    "gradient, mixing or teacher",
                    op_name(s->kind), views, (long long)logits->dims[0]);
    TensorDesc labels = tensor_desc(DTYPE_I32, 1, (int64_t[]){ logits->dims[0] / views });
    TRY(infer_need_like(s, XENT_IN_LABELS, &labels));
    TRY(infer_need_dims(s, XENT_IN_SCALARS, 1, (int64_t[]){ SCALAR_COUNT }));
    if (s->in[XENT_IN_LOSS_SCALE])
        TRY(infer_need_dims(s, XENT_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT }));
    if (s->in[XENT_IN_MIX]) TRY(infer_need_dims(s, XENT_IN_MIX, 1, (int64_t[]){ MIX_COUNT }));
    if (s->in[XENT_IN_CLASS_WEIGHTS])
        TRY(infer_need_dims(s, XENT_IN_CLASS_WEIGHTS, 1, (int64_t[]){ logits->dims[1] }));
    const int64_t rows[] = { labels.dims[0], (logits->dims[1] + 7) / 8 };
    const TensorDesc targets = tensor_desc(DTYPE_U8, 2, rows);
    if (s->in[XENT_IN_TARGETS]) TRY(infer_need_like(s, XENT_IN_TARGETS, &targets));
    if (s->in[XENT_IN_TARGETS] && a->loss != LOSS_BCE)
        return fail(ERR_INTERNAL, "%s: rows of bits require binary cross entropy",
                    op_name(s->kind));
    if (s->in[XENT_IN_TEACHER]) TRY(infer_need_like(s, XENT_IN_TEACHER, logits));
    if (s->in[XENT_IN_TEACHER] && !(a->temperature > 0 && a->distill >= 0 && a->distill <= 1))
        return fail(ERR_INTERNAL, "%s: temperature %g, teacher's share %g", op_name(s->kind),
                    (double)a->temperature, (double)a->distill);
    TRY(infer_output(s, XENT_OUT_STATS, DTYPE_F64, 1, (int64_t[]){ STATS_COUNT }));
    return infer_output_like(s, XENT_OUT_DLOGITS, logits);
}

static void print_softmax_xent(const void *attr, char *out, size_t bytes)
{
    const XentAttr *a = attr;
    snprintf(out, bytes, "%ssmoothing %g", a->loss == LOSS_BCE ? "bce, " : "",
             (double)a->label_smoothing);
}

const OpDef op_row_softmax_xent = {
    .attr_bytes = sizeof(XentAttr),
    .in_names = { "logits", "labels", "scalars", "loss_scale?", "mix?", "class_weights?",
                  "targets?", "teacher?" },
    .out_names = { "stats", "dlogits?" },
    .in_place_of = { [XENT_OUT_DLOGITS] = OP_OVER(XENT_IN_LOGITS) },
    .infer = infer_softmax_xent,
    .work = { 5, XENT_IN_LOGITS }, /* maximum, exp, sum, logarithm, gradient */
    .print = print_softmax_xent,
};
