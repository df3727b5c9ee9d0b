/* lerp.c - averaged copies of weights. No outputs: what is written is updated in place. */
#include "kernels/ops/lerp.h"
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_lerp(const OpSlots *s)
{
    const LerpAttr *a = s->attr;
    if ((unsigned)a->mode >= LERP_MODE_COUNT || (unsigned)a->weight >= SCALAR_COUNT)
        return fail(ERR_INTERNAL, "%s: mode %d by scalar %d", op_name(s->kind), (int)a->mode,
                    a->weight);
    TRY(infer_need(s, LERP_IN_AVERAGE, DTYPE_F32, 1));
    TRY(infer_need_like(s, LERP_IN_X, s->in[LERP_IN_AVERAGE]));
    TRY(infer_need_dims(s, LERP_IN_SCALARS, 1, (int64_t[]){ SCALAR_COUNT }));
    return s->in[LERP_IN_LOSS_SCALE]
               ? infer_need_dims(s, LERP_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT })
               : OK;
}

static void print_lerp(const void *attr, char *out, size_t bytes)
{
    static const char *const names[LERP_MODE_COUNT] = { "follow", "meet", "swap" };
    snprintf(out, bytes, "%s", names[((const LerpAttr *)attr)->mode]);
}

const OpDef op_row_lerp = {
    .attr_bytes = sizeof(LerpAttr),
    .in_names = { "average", "x", "scalars", "loss_scale?" },
    .infer = infer_lerp,
    .print = print_lerp,
};
