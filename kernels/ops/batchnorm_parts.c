/* batchnorm_parts.c - what is left of a batch norm when convolutions beside it do the rest: shapes,
 * work, printing.
 *
 * x is [N,C,H,W]; gamma, beta and the running statistics are [C], sums, saved and affine [2,C],
 * coefficients [3,C]. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_finalize(const OpSlots *s)
{
    const BnFinalizeAttr *a = s->attr;
    TRY(infer_need(s, BN_FINALIZE_IN_SUMS, DTYPE_F32, 2));
    const int64_t c = s->in[BN_FINALIZE_IN_SUMS]->dims[1];
    TRY(infer_need_dims(s, BN_FINALIZE_IN_SUMS, 2, (int64_t[]){ 2, c }));
    for (int slot = BN_FINALIZE_IN_GAMMA; slot <= BN_FINALIZE_IN_RUNNING_VAR; slot++)
        TRY(infer_need_dims(s, slot, 1, &c));
    if (a->count < 2) return fail(ERR_INTERNAL, "%s: one value has no variance", op_name(s->kind));
    for (int i = 0; i <= BN_FINALIZE_OUT_AFFINE; i++)
        TRY(infer_output(s, i, DTYPE_F32, 2, (int64_t[]){ 2, c }));
    return OK;
}

static Status infer_apply(const OpSlots *s)
{
    const TensorDesc *x = s->in[BN_APPLY_IN_X];
    const BatchNormAttr *a = s->attr;
    TRY(infer_normed_act(s->kind, a->act, s->in[BN_APPLY_IN_RESIDUAL] != NULL));
    TRY(infer_need(s, BN_APPLY_IN_X, DTYPE_F32, 4));
    const int64_t c = x->dims[1];
    TRY(infer_need_dims(s, BN_APPLY_IN_GAMMA, 1, &c));
    TRY(infer_need_dims(s, BN_APPLY_IN_BETA, 1, &c));
    TRY(infer_need_dims(s, BN_APPLY_IN_SAVED, 2, (int64_t[]){ 2, c }));
    if (s->in[BN_APPLY_IN_RESIDUAL]) TRY(infer_need_like(s, BN_APPLY_IN_RESIDUAL, x));
    return infer_output_like(s, BN_APPLY_OUT_Y, x);
}

static Status infer_bwd_apply(const OpSlots *s)
{
    const TensorDesc *x = s->in[BN_BWD_APPLY_IN_X];
    TRY(infer_need(s, BN_BWD_APPLY_IN_X, DTYPE_F32, 4));
    TRY(infer_need_like(s, BN_BWD_APPLY_IN_DZ, x));
    TRY(infer_need_dims(s, BN_BWD_APPLY_IN_COEFFICIENTS, 2, (int64_t[]){ 3, x->dims[1] }));
    return infer_output_like(s, BN_BWD_APPLY_OUT_DX, x);
}

static void print_apply(const void *attr, char *out, size_t bytes)
{
    const BatchNormAttr *a = attr;
    snprintf(out, bytes, "%s", a->act == ACT_NONE ? "" : op_act(a->act)->name);
}

const OpDef op_row_bn_finalize = {
    .attr_bytes = sizeof(BnFinalizeAttr),
    .in_names = { "sums", "gamma", "beta", "running_mean", "running_var" },
    .out_names = { "saved", "affine?" },
    .infer = infer_finalize,
};

const OpDef op_row_bn_apply = {
    .attr_bytes = sizeof(BatchNormAttr),
    .in_names = { "x", "gamma", "beta", "saved", "residual?" },
    .out_names = { "y" },
    .infer = infer_apply,
    .work = { 4, BN_APPLY_IN_X }, /* normalise, scale and shift */
    .print = print_apply,
};

const OpDef op_row_bn_bwd_apply = {
    .in_names = { "dz", "x", "coefficients" },
    .out_names = { "dx" },
    .in_place_of = { OP_OVER(BN_BWD_APPLY_IN_DZ) },
    .infer = infer_bwd_apply,
    .work = { 4, BN_BWD_APPLY_IN_X }, /* the terms of dx */
};
