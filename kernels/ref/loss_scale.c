/* loss_scale.c - the dynamic loss scale: is a tensor finite, and torch.amp.GradScaler's rule (see
 * LossScaleAttr). */
#include "kernels/ref/ref.h"

#include <math.h>

static void run_finite_check(OpInstance *op)
{
    const double *x = ref_in(op, FINITE_CHECK_IN_X);
    double *state = op->in[FINITE_CHECK_IN_LOSS_SCALE].data;
    for (int64_t i = 0, n = tensor_elements(&op->in[FINITE_CHECK_IN_X].desc); i < n; i++)
        if (!isfinite(x[i])) state[LOSS_SCALE_FOUND_INF] = 1;
}

static void run_loss_scale(OpInstance *op)
{
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
}

REF_LOOPS(ref_finite_check, run_finite_check);
REF_LOOPS(ref_loss_scale, run_loss_scale);
