/* scale.c - y = x * factor. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_scale(const OpSlots *s)
{
    TRY(infer_need(s, SCALE_IN_X, DTYPE_F32, 0));
    return infer_output_like(s, SCALE_OUT_Y, s->in[SCALE_IN_X]);
}

static void print_scale(const void *attr, char *out, size_t bytes)
{
    const ScaleAttr *a = attr;
    snprintf(out, bytes, "x %g", (double)a->factor);
}

const OpDef op_row_scale = {
    .attr_bytes = sizeof(ScaleAttr),
    .in_names = { "x" },
    .out_names = { "y" },
    .in_place_of = { OP_OVER(SCALE_IN_X) },
    .infer = infer_scale,
    .work = { 1, SCALE_IN_X },
    .print = print_scale,
};
