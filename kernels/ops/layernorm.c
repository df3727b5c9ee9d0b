/* layernorm.c - each position's channels to mean 0 and variance 1, or each image's by their norms
 * (OP_GRN), and the gradients: shapes and work. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status check_x(const OpSlots *s, int slot)
{
    TRY(infer_need(s, slot, DTYPE_F32, 0));
    const int rank = s->in[slot]->rank;
    const bool rows = s->kind == OP_LAYERNORM || s->kind == OP_LAYERNORM_BWD;
    return (rows && rank == 2) || rank == 4
               ? OK
               : fail(ERR_INTERNAL, "%s: x has rank %d, expected 2 or 4", op_name(s->kind), rank);
}

static Status infer_forward(const OpSlots *s)
{
    TRY(check_x(s, LAYERNORM_IN_X));
    const TensorDesc *x = s->in[LAYERNORM_IN_X];
    TRY(infer_need_dims(s, LAYERNORM_IN_GAMMA, 1, &x->dims[1]));
    TRY(infer_need_dims(s, LAYERNORM_IN_BETA, 1, &x->dims[1]));
    return infer_output_like(s, LAYERNORM_OUT_Y, x);
}

static Status infer_backward(const OpSlots *s)
{
    TRY(check_x(s, LAYERNORM_BWD_IN_X));
    const TensorDesc *x = s->in[LAYERNORM_BWD_IN_X], *gamma = s->in[LAYERNORM_BWD_IN_GAMMA];
    TRY(infer_need_like(s, LAYERNORM_BWD_IN_DY, x));
    TRY(infer_need_dims(s, LAYERNORM_BWD_IN_GAMMA, 1, &x->dims[1]));
    TRY(infer_output_like(s, LAYERNORM_BWD_OUT_DX, x));
    TRY(infer_output_like(s, LAYERNORM_BWD_OUT_DGAMMA, gamma));
    return infer_output_like(s, LAYERNORM_BWD_OUT_DBETA, gamma);
}

static void print_layernorm(const void *attr, char *out, size_t bytes)
{
    snprintf(out, bytes, "eps %g", (double)((const LayerNormAttr *)attr)->eps);
}

/* Global response normalisation has the same tensors. */
#define FORWARD                                                                                    \
    {                                                                                              \
        .attr_bytes = sizeof(LayerNormAttr), .in_names = { "x", "gamma", "beta" },                 \
        .out_names = { "y" }, .in_place_of = { OP_OVER(LAYERNORM_IN_X) }, .infer = infer_forward,  \
        .work = { 8, LAYERNORM_IN_X }, .print = print_layernorm                                    \
    }
#define BACKWARD                                                                                   \
    {                                                                                              \
        .attr_bytes = sizeof(LayerNormAttr), .in_names = { "dy", "x", "gamma" },                   \
        .out_names = { "dx", "dgamma", "dbeta" }, .in_place_of = { OP_OVER(LAYERNORM_BWD_IN_DY) }, \
        .infer = infer_backward, .work = { 18, LAYERNORM_BWD_IN_X }, .print = print_layernorm      \
    }
const OpDef op_row_layernorm = FORWARD, op_row_grn = FORWARD;
const OpDef op_row_layernorm_bwd = BACKWARD, op_row_grn_bwd = BACKWARD;
