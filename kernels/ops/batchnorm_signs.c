/* batchnorm_signs.c - the end of a residual block in training, with the signs of what it makes as
 * bits, and the statistics of the norm on its shortcut: shapes, work, printing. */
#include "kernels/ops/infer.h"

/* One byte for eight channels of a position. */
static TensorDesc signs_of(const TensorDesc *x)
{
    const int64_t bytes = x->dims[0] * x->dims[2] * x->dims[3] * ((x->dims[1] + 7) / 8);
    return tensor_desc(DTYPE_U8, 1, &bytes);
}

static Status check(const OpSlots *s, int x)
{
    const BatchNormAttr *a = s->attr;
    TRY(infer_need(s, x, DTYPE_F32, 4));
    const ActKind act = s->kind == OP_BN_STATISTICS ? ACT_NONE : ACT_RELU;
    if (a->mode == BN_TRAIN && !a->ranks && a->act == act) return OK;
    return fail(ERR_INTERNAL, "%s: it requires %s in training", op_name(s->kind),
                op_act(act)->name);
}

static Status infer_statistics(const OpSlots *s)
{
    TRY(check(s, BN_IN_X));
    const int64_t c = s->in[BN_IN_X]->dims[1];
    TRY(infer_need_dims(s, BN_IN_RUNNING_MEAN, 1, &c));
    TRY(infer_need_dims(s, BN_IN_RUNNING_VAR, 1, &c));
    return infer_output(s, BN_OUT_SAVED, DTYPE_F32, 2, (int64_t[]){ 2, c });
}

static Status check_residual(const OpSlots *s, int64_t c)
{
    if (!s->in[BN_SIGNS_IN_RESIDUAL_SAVED]) return OK;
    TRY(infer_need_dims(s, BN_SIGNS_IN_RESIDUAL_GAMMA, 1, &c));
    TRY(infer_need_dims(s, BN_SIGNS_IN_RESIDUAL_BETA, 1, &c));
    return infer_need_dims(s, BN_SIGNS_IN_RESIDUAL_SAVED, 2, (int64_t[]){ 2, c });
}

static Status infer_forward(const OpSlots *s)
{
    TRY(check(s, BN_IN_X));
    const TensorDesc *x = s->in[BN_IN_X], signs = signs_of(x);
    for (int slot = BN_IN_GAMMA; slot <= BN_IN_RUNNING_VAR; slot++)
        TRY(infer_need_dims(s, slot, 1, &x->dims[1]));
    TRY(infer_need_like(s, BN_IN_RESIDUAL, x));
    TRY(check_residual(s, x->dims[1]));
    TRY(infer_output_like(s, BN_OUT_Y, x));
    TRY(infer_output_like(s, BN_SIGNS_OUT_SIGNS, &signs));
    return infer_output(s, BN_OUT_SAVED, DTYPE_F32, 2, (int64_t[]){ 2, x->dims[1] });
}

static Status infer_backward(const OpSlots *s)
{
    TRY(check(s, BN_BWD_IN_X));
    const TensorDesc *x = s->in[BN_BWD_IN_X], signs = signs_of(x);
    const int64_t c = x->dims[1];
    TRY(infer_need_like(s, BN_BWD_IN_DY, x));
    if (s->in[BN_BWD_IN_DY2]) TRY(infer_need_like(s, BN_BWD_IN_DY2, x));
    TRY(infer_need_like(s, BN_SIGNS_BWD_IN_SIGNS, &signs));
    TRY(infer_need_dims(s, BN_BWD_IN_GAMMA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_BETA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_SAVED, 2, (int64_t[]){ 2, c }));
    TRY(infer_output(s, BN_BWD_OUT_DGAMMA, DTYPE_F32, 1, &c));
    TRY(infer_output(s, BN_BWD_OUT_DBETA, DTYPE_F32, 1, &c));
    TRY(infer_output_like(s, BN_BWD_OUT_DRESIDUAL, x));
    return infer_output_like(s, BN_BWD_OUT_DX, x);
}

static void print_batchnorm_signs(const void *attr, char *out, size_t bytes)
{
    op_def(OP_BATCHNORM)->print(attr, out, bytes);
}

const OpDef op_row_bn_statistics = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "x", "gamma?", "beta?", "running_mean", "running_var" },
    .out_names = { "no_y?", "saved" },
    .infer = infer_statistics,
    .work = { 3, BN_IN_X },
    .print = print_batchnorm_signs,
};

const OpDef op_row_bn_signs = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "x", "gamma", "beta", "running_mean", "running_var", "residual",
                  "residual_gamma?", "residual_beta?", "residual_saved?" },
    .out_names = { "y", "saved", "signs" },
    .infer = infer_forward,
    .work = { 7, BN_IN_X },
    .print = print_batchnorm_signs,
};

const OpDef op_row_bn_signs_bwd = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "dy", "dy2?", "x", "signs", "gamma", "beta", "saved" },
    .out_names = { "dx", "dgamma", "dbeta", "dresidual?" },
    .in_place_of = { [BN_BWD_OUT_DX] = OP_OVER(BN_BWD_IN_DY),
                     [BN_BWD_OUT_DRESIDUAL] = OP_OVER(BN_BWD_IN_DY2) },
    .infer = infer_backward,
    .work = { 9, BN_BWD_IN_X },
    .print = print_batchnorm_signs,
};
