/* conv2d_bn.c - a convolution of an evaluation with the batch norm behind it: shapes, work,
 * printing.
 *
 * It is OP_CONV2D and OP_BATCHNORM in one, and their rows check, count and print what is theirs. */
#include "kernels/ops/infer.h"
#include <stdio.h>
#include <string.h>

static BatchNormAttr norm_of(const Conv2dBnAttr *a)
{
    return (BatchNormAttr){ .eps = a->eps, .mode = BN_EVAL, .act = a->act };
}

static Status infer_conv2d_bn(const OpSlots *s)
{
    const Conv2dBnAttr *a = s->attr;
    TensorDesc *y = &s->out[CONV_BN_OUT_Y];
    /* x, w and y are in the same slots */
    TRY(op_infer(OP_CONV2D, &a->conv, s->in, s->wanted, s->out));
    TRY(infer_folded_act(s->kind, a->act));
    const int64_t channels = s->in[CONV_BN_IN_W]->dims[0];
    for (int slot = CONV_BN_IN_GAMMA; slot <= CONV_BN_IN_RUNNING_VAR; slot++)
        TRY(infer_need_dims(s, slot, 1, &channels));
    return s->in[CONV_BN_IN_RESIDUAL] ? infer_need_like(s, CONV_BN_IN_RESIDUAL, y) : OK;
}

static double flops(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    const Conv2dBnAttr *a = attr;
    const BatchNormAttr norm = norm_of(a);
    const TensorDesc *norm_in[OP_MAX_INPUTS] = {
        [BN_IN_X] = &out[CONV_BN_OUT_Y], [BN_IN_RESIDUAL] = in[CONV_BN_IN_RESIDUAL]
    };
    return op_flops(OP_CONV2D, &a->conv, in, out) + op_flops(OP_BATCHNORM, &norm, norm_in, out);
}

/* "/2 pad 1, eval relu" */
static void print_conv2d_bn(const void *attr, char *out, size_t bytes)
{
    const Conv2dBnAttr *a = attr;
    const BatchNormAttr norm = norm_of(a);
    op_def(OP_CONV2D)->print(&a->conv, out, bytes);
    size_t used = strlen(out);
    if (used < bytes) used += (size_t)snprintf(out + used, bytes - used, ", ");
    if (used < bytes) op_def(OP_BATCHNORM)->print(&norm, out + used, bytes - used);
}

const OpDef op_row_conv2d_bn = {
    .attr_bytes = sizeof(Conv2dBnAttr),
    .in_names = { "x", "w", "gamma", "beta", "running_mean", "running_var", "residual?" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(CONV_BN_IN_RESIDUAL) },
    .infer = infer_conv2d_bn,
    .flops = flops,
    .print = print_conv2d_bn,
};
