/* batchnorm_pool.c - a batch norm in training and the max pooling behind it: shapes, work,
 * printing.
 *
 * It is OP_BATCHNORM and OP_POOL2D in one, and their rows check, count and print what is theirs. */
#include "kernels/ops/infer.h"
#include <stdio.h>
#include <string.h>

static Status check_attr(const OpSlots *s)
{
    const BnPoolAttr *a = s->attr;
    if (a->norm.mode != BN_TRAIN || a->norm.ranks || a->norm.act != ACT_RELU ||
        a->pool.kind != POOL_MAX)
        return fail(ERR_INTERNAL, "%s: only max pooling after relu in training is supported",
                    op_name(s->kind));
    return OK;
}

/* Those of the pooling of x; index is wanted. */
static Status pooled_dims(const Pool2dAttr *pool, const TensorDesc *x, TensorDesc out[2])
{
    const TensorDesc *in[OP_MAX_INPUTS] = { [POOL_IN_X] = x };
    const bool wanted[OP_MAX_OUTPUTS] = { [POOL_OUT_Y] = true, [POOL_OUT_INDEX] = true };
    TensorDesc made[OP_MAX_OUTPUTS] = { { 0 } };
    TRY(op_infer(OP_POOL2D, pool, in, wanted, made));
    out[0] = made[POOL_OUT_Y];
    out[1] = made[POOL_OUT_INDEX];
    return OK;
}

static Status infer_forward(const OpSlots *s)
{
    const BnPoolAttr *a = s->attr;
    const TensorDesc *x = s->in[BN_IN_X];
    TensorDesc pooled[2];
    TRY(check_attr(s));
    TRY(infer_need(s, BN_IN_X, DTYPE_F32, 4));
    for (int slot = BN_IN_GAMMA; slot <= BN_IN_RUNNING_VAR; slot++)
        TRY(infer_need_dims(s, slot, 1, &x->dims[1]));
    TRY(pooled_dims(&a->pool, x, pooled));
    TRY(infer_output_like(s, BN_POOL_OUT_Y, &pooled[0]));
    TRY(infer_output_like(s, BN_POOL_OUT_INDEX, &pooled[1]));
    return infer_output(s, BN_POOL_OUT_SAVED, DTYPE_F32, 2, (int64_t[]){ 2, x->dims[1] });
}

static Status infer_backward(const OpSlots *s)
{
    const BnPoolAttr *a = s->attr;
    TensorDesc pooled[2];
    TRY(check_attr(s));
    if (s->in[BN_BWD_IN_DY2])
        return fail(ERR_INTERNAL, "%s: dy cannot have a second part", op_name(s->kind));
    TRY(infer_need(s, BN_BWD_IN_X, DTYPE_F32, 4));
    const int64_t c = s->in[BN_BWD_IN_X]->dims[1];
    TRY(pooled_dims(&a->pool, s->in[BN_BWD_IN_X], pooled));
    TRY(infer_need_like(s, BN_BWD_IN_DY, &pooled[0]));
    TRY(infer_need_like(s, BN_POOL_BWD_IN_INDEX, &pooled[1]));
    TRY(infer_need_dims(s, BN_BWD_IN_GAMMA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_BETA, 1, &c));
    TRY(infer_need_dims(s, BN_BWD_IN_SAVED, 2, (int64_t[]){ 2, c }));
    TRY(infer_output(s, BN_BWD_OUT_DGAMMA, DTYPE_F32, 1, &c));
    TRY(infer_output(s, BN_BWD_OUT_DBETA, DTYPE_F32, 1, &c));
    return infer_output_like(s, BN_BWD_OUT_DX, s->in[BN_BWD_IN_X]);
}

/* "train relu, max 3x3/2x2 pad 1x1" */
static void print_batchnorm_pool(const void *attr, char *out, size_t bytes)
{
    const BnPoolAttr *a = attr;
    op_def(OP_BATCHNORM)->print(&a->norm, out, bytes);
    size_t used = strlen(out);
    if (used < bytes) used += (size_t)snprintf(out + used, bytes - used, ", ");
    if (used < bytes) op_def(OP_POOL2D)->print(&a->pool, out + used, bytes - used);
}

const OpDef op_row_bn_pool = {
    .attr_bytes = sizeof(BnPoolAttr),
    .in_names = { "x", "gamma", "beta", "running_mean", "running_var" },
    .out_names = { "y", "saved", "index" },
    .infer = infer_forward,
    .work = { 9, BN_IN_X }, /* of the norm 7; each element is in two windows or so */
    .print = print_batchnorm_pool,
};

const OpDef op_row_bn_pool_bwd = {
    .attr_bytes = sizeof(BnPoolAttr),
    .in_names = { "dy", "dy2?", "x", "index", "gamma", "beta", "saved" },
    .out_names = { "dx", "dgamma", "dbeta" },
    .infer = infer_backward,
    .work = { 11, BN_BWD_IN_X },
    .print = print_batchnorm_pool,
};
