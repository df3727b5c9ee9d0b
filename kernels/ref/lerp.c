/* lerp.c - an averaged copy of weights moves towards them, meets them, or changes places. */
#include "kernels/ref/ref.h"

static void run_lerp(OpInstance *op)
{
    const LerpAttr *a = op->attr;
    double *average = op->in[LERP_IN_AVERAGE].data, *x = op->in[LERP_IN_X].data;
    const double w = ref_in(op, LERP_IN_SCALARS)[a->weight];
    const bool found = ref_has_in(op, LERP_IN_LOSS_SCALE) &&
                       ref_in(op, LERP_IN_LOSS_SCALE)[LOSS_SCALE_FOUND_INF] != 0;
    if (a->mode != LERP_SWAP && (w < 0 || (w > 0 && found))) return;
    for (int64_t i = 0, n = tensor_elements(&op->in[LERP_IN_X].desc); i < n; i++) {
        const double before = average[i];
        average[i] = a->mode == LERP_SWAP ? x[i] : (1 - w) * before + w * x[i];
        if (a->mode == LERP_SWAP) x[i] = before;
        if (a->mode == LERP_MEET) x[i] = average[i];
    }
}

REF_LOOPS(ref_lerp, run_lerp);
