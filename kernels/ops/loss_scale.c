/* loss_scale.c - the dynamic loss scale: the search for what is not finite, and the rule by which
 * the scale moves. Neither has outputs: the state is updated in place. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status infer_finite_check(const OpSlots *s)
{
    TRY(infer_need(s, FINITE_CHECK_IN_X, DTYPE_F32, 0));
    return infer_need_dims(s, FINITE_CHECK_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT });
}

static Status infer_loss_scale(const OpSlots *s)
{
    const LossScaleAttr *a = s->attr;
    if (!(a->growth >= 1) || !(a->backoff > 0 && a->backoff <= 1) || !(a->max > 0) ||
        a->interval < 1)
        return fail(ERR_INTERNAL, "%s: growth %g, backoff %g, max %g, interval %d: invalid",
                    op_name(s->kind), (double)a->growth, (double)a->backoff, (double)a->max,
                    a->interval);
    return infer_need_dims(s, LOSS_SCALE_IN_STATE, 1, (int64_t[]){ LOSS_SCALE_COUNT });
}

static void print_loss_scale(const void *attr, char *out, size_t bytes)
{
    const LossScaleAttr *a = attr;
    snprintf(out, bytes, "x %g after %d, x %g", (double)a->growth, a->interval, (double)a->backoff);
}

const OpDef op_row_finite_check = {
    .in_names = { "x", "loss_scale" },
    .infer = infer_finite_check,
};

const OpDef op_row_loss_scale = {
    .attr_bytes = sizeof(LossScaleAttr),
    .in_names = { "state" },
    .infer = infer_loss_scale,
    .print = print_loss_scale,
};
