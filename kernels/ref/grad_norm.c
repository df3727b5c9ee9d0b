/* grad_norm.c - the norm of all gradients and the factor that clips by it, as
 * torch.nn.utils.clip_grad_norm_ has it. */
#include "kernels/ref/ref.h"

#include <math.h>

static void run_squares(OpInstance *op)
{
    const double *x = ref_in(op, GRAD_SQUARES_IN_X);
    double *sums = ref_out(op, GRAD_SQUARES_OUT_SUMS);
    for (int64_t k = 0; k < ref_out_dims(op, GRAD_SQUARES_OUT_SUMS)[0]; k++) sums[k] = 0;
    for (int64_t i = 0; i < ref_in_dims(op, GRAD_SQUARES_IN_X)[0]; i++)
        sums[i / GRAD_SQUARES_CHUNK] += x[i] * x[i];
}

static void run_norm(OpInstance *op)
{
    const GradNormAttr *a = op->attr;
    const double *sums = ref_in(op, GRAD_NORM_IN_SUMS);
    double *clip = ref_out(op, GRAD_NORM_OUT_CLIP), sum = 0;
    for (int64_t k = 0; k < ref_in_dims(op, GRAD_NORM_IN_SUMS)[0]; k++) sum += sums[k];
    double norm = sqrt(sum);
    if (ref_has_in(op, GRAD_NORM_IN_LOSS_SCALE))
        norm /= ref_in(op, GRAD_NORM_IN_LOSS_SCALE)[LOSS_SCALE_SCALE];
    double factor = (double)a->max_norm / (norm + a->eps);
    clip[CLIP_NORM] = norm;
    clip[CLIP_FACTOR] = a->max_norm == 0 || factor > 1 ? 1 : factor;
    if (a->length > 0) clip[CLIP_FACTOR] = (double)a->length / (norm + 1e-12);
}

REF_LOOPS(ref_grad_squares, run_squares);
REF_LOOPS(ref_grad_norm, run_norm);
