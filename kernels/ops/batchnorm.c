/* batchnorm.c - y = act(bn(x) + residual), and its gradient: shapes, work, printing.
 *
 * x is [N,C,H,W] or [N,C]; the channel is dim 1. gamma, beta and the running statistics are [C],
 * saved is [2,C]. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status check_x(const OpSlots *s, int slot, bool residual)
{
    const BatchNormAttr *a = s->attr;
    const TensorDesc *x = s->in[slot];
    TRY(infer_need(s, slot, DTYPE_F32, 0));
    if (x->rank != 4 && x->rank != 2)
        return fail(ERR_INTERNAL, "%s: x has rank %d, expected 4 or 2", op_name(s->kind), x->rank);
    if ((unsigned)a->mode >= BN_MODE_COUNT)
        return fail(ERR_INTERNAL, "%s: bad mode", op_name(s->kind));
    return infer_normed_act(s->kind, a->act, residual);
}

/* Sums over ranks are there exactly where the attributes say so. */
static Status check_sums(const OpSlots *s, int slot, int64_t c)
{
    const BatchNormAttr *a = s->attr;
    const TensorDesc need = tensor_desc(DTYPE_F64, 2, (int64_t[]){ 2, c });
    if (a->ranks == 0 && !s->in[slot]) return OK;
    if (a->ranks < 1 || a->mode != BN_TRAIN)
        return fail(ERR_INTERNAL, "%s: sums require training over ranks", op_name(s->kind));
    return infer_need_like(s, slot, &need);
}

static Status infer_forward(const OpSlots *s)
{
    const TensorDesc *x = s->in[BN_IN_X];
    TRY(check_x(s, BN_IN_X, s->in[BN_IN_RESIDUAL] != NULL));
    for (int slot = BN_IN_GAMMA; slot <= BN_IN_RUNNING_VAR; slot++)
        TRY(infer_need_dims(s, slot, 1, &x->dims[1]));
    if (s->in[BN_IN_RESIDUAL]) TRY(infer_need_like(s, BN_IN_RESIDUAL, x));
    TRY(check_sums(s, BN_IN_SUMS, x->dims[1]));
    TRY(infer_output_like(s, BN_OUT_Y, x));
    return infer_output(s, BN_OUT_SAVED, DTYPE_F32, 2, (int64_t[]){ 2, x->dims[1] });
}

static bool wants(const OpSlots *s, int output)
{
    return s->wanted[output] || s->out[output].rank;
}

/* What both ops of backward read; their outputs for gamma, beta and residual have the same slots.
 */
static Status infer_backward_inputs(const OpSlots *s)
{
    const BatchNormAttr *a = s->attr;
    const TensorDesc *x = s->in[BN_BWD_IN_X];
    const bool residual = wants(s, BN_BWD_OUT_DRESIDUAL);
    TRY(check_x(s, BN_BWD_IN_X, residual));
    const int64_t c = x->dims[1];
    TRY(infer_need_like(s, BN_BWD_IN_DY, x));
    if (s->in[BN_BWD_IN_DY2]) TRY(infer_need_like(s, BN_BWD_IN_DY2, x));
    if (s->in[BN_BWD_IN_Y]) TRY(infer_need_like(s, BN_BWD_IN_Y, x));
    TRY(infer_need_dims(s, BN_BWD_IN_GAMMA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_BETA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_SAVED, 2, (int64_t[]){ 2, c }));
    if (residual && a->act != ACT_NONE && !s->in[BN_BWD_IN_Y])
        return fail(ERR_INTERNAL, "%s: y is required with a residual and an activation",
                    op_name(s->kind));
    TRY(infer_output(s, BN_BWD_OUT_DGAMMA, DTYPE_F32, 1, &c));
    TRY(infer_output(s, BN_BWD_OUT_DBETA, DTYPE_F32, 1, &c));
    return infer_output_like(s, BN_BWD_OUT_DRESIDUAL, x);
}

static Status infer_backward(const OpSlots *s)
{
    TRY(infer_backward_inputs(s));
    TRY(check_sums(s, BN_BWD_IN_SUMS, s->in[BN_BWD_IN_X]->dims[1]));
    for (int i = BN_BWD_OUT_DGAMMA; s->in[BN_BWD_IN_SUMS] && i <= BN_BWD_OUT_DRESIDUAL; i++)
        if (wants(s, i))
            return fail(ERR_INTERNAL, "%s: with sums, dx is the only output", op_name(s->kind));
    return infer_output_like(s, BN_BWD_OUT_DX, s->in[BN_BWD_IN_X]);
}

static Status infer_sums(const OpSlots *s)
{
    const TensorDesc *x = s->in[BN_SUMS_IN_X];
    TRY(infer_need(s, BN_SUMS_IN_X, DTYPE_F32, 0));
    if (x->rank != 4 && x->rank != 2)
        return fail(ERR_INTERNAL, "%s: x has rank %d, expected 4 or 2", op_name(s->kind), x->rank);
    return infer_output(s, BN_SUMS_OUT_SUMS, DTYPE_F64, 2, (int64_t[]){ 2, x->dims[1] });
}

static Status infer_backward_sums(const OpSlots *s)
{
    TRY(infer_backward_inputs(s));
    return infer_output(s, BN_BWD_SUMS_OUT_SUMS, DTYPE_F64, 2,
                        (int64_t[]){ 2, s->in[BN_BWD_IN_X]->dims[1] });
}

static void print_batchnorm(const void *attr, char *out, size_t bytes)
{
    static const char *const modes[BN_MODE_COUNT] = {
        [BN_TRAIN] = "train", [BN_EVAL] = "eval", [BN_FROZEN] = "frozen"
    };
    const BatchNormAttr *a = attr;
    const bool act = a->act != ACT_NONE;
    char over[32] = "";
    if (a->ranks > 0) snprintf(over, sizeof over, " over %d ranks", a->ranks);
    snprintf(out, bytes, "%s%s%s%s", modes[a->mode], over, act ? " " : "",
             act ? op_act(a->act)->name : "");
}

const OpDef op_row_batchnorm = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "x", "gamma", "beta", "running_mean", "running_var", "residual?", "sums?" },
    .out_names = { "y", "saved" },
    .infer = infer_forward,
    .work = { 7, BN_IN_X }, /* the two moments: 3; normalise, scale and shift: 4 */
    .print = print_batchnorm,
};

const OpDef op_row_batchnorm_bwd = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "dy", "dy2?", "x", "y?", "gamma", "beta", "saved", "sums?" },
    .out_names = { "dx", "dgamma?", "dbeta?", "dresidual?" },
    .in_place_of = { [BN_BWD_OUT_DX] = OP_OVER(BN_BWD_IN_DY),
                     [BN_BWD_OUT_DRESIDUAL] = OP_OVER(BN_BWD_IN_DY2) },
    .infer = infer_backward,
    .work = { 9, BN_BWD_IN_X }, /* two sums: 4; the three terms of dx: 5 */
    .print = print_batchnorm,
};

const OpDef op_row_bn_sums = {
    .in_names = { "x" },
    .out_names = { "sums" },
    .infer = infer_sums,
    .work = { 3, BN_SUMS_IN_X },
};

const OpDef op_row_bn_bwd_sums = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "dy", "dy2?", "x", "y?", "gamma", "beta", "saved" },
    .out_names = { "sums", "dgamma", "dbeta", "dresidual?" },
    .in_place_of = { [BN_BWD_SUMS_OUT_DRESIDUAL] = OP_OVER(BN_BWD_IN_DY) },
    .infer = infer_backward_sums,
    .work = { 4, BN_BWD_IN_X },
    .print = print_batchnorm,
};
