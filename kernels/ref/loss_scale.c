/* loss_scale.c - the dynamic loss scale: is a tensor finite, and torch.amp.GradScaler's rule (see
 * LossScaleAttr). */
#include "kernels/ref/ref.h"

#include <math.h>

static Status run_finite_check(OpInstance *op, Stream *stream)
{
    (void)stream;
    const double *x = ref_in(op, FINITE_CHECK_IN_X);
    double *state = op->in[FINITE_CHECK_IN_LOSS_SCALE].data;
    for (int64_t i = 0, n = tensor_elements(&op->in[FINITE_CHECK_IN_X].desc); i < n; i++)
        if (!isfinite(x[i])) state[LOSS_SCALE_FOUND_INF] = 1;
    return OK;
}

static Status run_loss_scale(OpInstance *op, Stream *stream)
{
    (void)stream;
    const LossScaleAttr *a = op->attr;
    double *state = op->in[LOSS_SCALE_IN_STATE].data,
           grown = state[LOSS_SCALE_SCALE] * (double)a->growth;
    if (state[LOSS_SCALE_FOUND_INF] != 0) {
        state[LOSS_SCALE_SCALE] *= (double)a->backoff;
        state[LOSS_SCALE_GOOD_STEPS] = 0;
        state[LOSS_SCALE_SKIPPED] += 1;
    } else if (state[LOSS_SCALE_GOOD_STEPS] + 1 >= a->interval) {
        state[LOSS_SCALE_SCALE] = grown < (double)a->max ? grown : (double)a->max;
        state[LOSS_SCALE_GOOD_STEPS] = 0;
    } else {
        state[LOSS_SCALE_GOOD_STEPS] += 1;
    }
    state[LOSS_SCALE_FOUND_INF] = 0;
    return OK;
}

const OpImpl ref_finite_check = { ref_prepare, ref_bind, run_finite_check, NULL };
const OpImpl ref_loss_scale = { ref_prepare, ref_bind, run_loss_scale, NULL };
