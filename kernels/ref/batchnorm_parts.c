/* batchnorm_parts.c - what is left of a batch norm when convolutions beside it do the rest.
 *
 * From the sums over n values: mean = sum / n, var = sum of squares / n - mean^2, which float64 has
 * digits enough for.
 */
#include "kernels/ref/ref.h"
#include <math.h>

static int64_t channel_of(const int64_t *dims, int64_t i)
{
    return i / (dims[2] * dims[3]) % dims[1];
}

static void run_finalize(OpInstance *op)
{
    const BnFinalizeAttr *attr = op->attr;
    const int64_t channels = ref_in_dims(op, BN_FINALIZE_IN_SUMS)[1];
    const double *sums = ref_in(op, BN_FINALIZE_IN_SUMS), n = (double)attr->count,
                 m = (double)attr->momentum;
    double *running_mean = op->in[BN_FINALIZE_IN_RUNNING_MEAN].data,
           *running_var = op->in[BN_FINALIZE_IN_RUNNING_VAR].data;
    double *saved = ref_out(op, BN_FINALIZE_OUT_SAVED);
    for (int64_t c = 0; c < channels; c++) {
        double mean = sums[c] / n, var = sums[channels + c] / n - mean * mean;
        if (var < 0) var = 0;
        saved[c] = mean;
        saved[channels + c] = 1 / sqrt(var + (double)attr->eps);
        running_mean[c] = (1 - m) * running_mean[c] + m * mean;
        running_var[c] = (1 - m) * running_var[c] + m * var * n / (n - 1);
        if (!ref_has_out(op, BN_FINALIZE_OUT_AFFINE)) continue;
        double *out = ref_out(op, BN_FINALIZE_OUT_AFFINE);
        out[c] = ref_in(op, BN_FINALIZE_IN_GAMMA)[c] * saved[channels + c];
        out[channels + c] = ref_in(op, BN_FINALIZE_IN_BETA)[c] - mean * out[c];
    }
}

static void run_apply(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    const int64_t *d = ref_in_dims(op, BN_APPLY_IN_X);
    const double *x = ref_in(op, BN_APPLY_IN_X), *saved = ref_in(op, BN_APPLY_IN_SAVED);
    for (int64_t i = 0; i < tensor_elements(&op->in[BN_APPLY_IN_X].desc); i++) {
        int64_t c = channel_of(d, i);
        double v = (x[i] - saved[c]) * saved[d[1] + c] * ref_in(op, BN_APPLY_IN_GAMMA)[c] +
                   ref_in(op, BN_APPLY_IN_BETA)[c];
        if (ref_has_in(op, BN_APPLY_IN_RESIDUAL)) v += ref_in(op, BN_APPLY_IN_RESIDUAL)[i];
        ref_out(op, BN_APPLY_OUT_Y)[i] = ref_activate(attr->act, v);
    }
}

static void run_bwd_apply(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, BN_BWD_APPLY_IN_X);
    const double *dz = ref_in(op, BN_BWD_APPLY_IN_DZ), *x = ref_in(op, BN_BWD_APPLY_IN_X);
    const double *by = ref_in(op, BN_BWD_APPLY_IN_COEFFICIENTS);
    for (int64_t i = 0; i < tensor_elements(&op->in[BN_BWD_APPLY_IN_X].desc); i++) {
        int64_t c = channel_of(d, i);
        ref_out(op, BN_BWD_APPLY_OUT_DX)[i] =
            by[c] * dz[i] + by[d[1] + c] * x[i] + by[2 * d[1] + c];
    }
}

REF_LOOPS(ref_bn_finalize, run_finalize);
REF_LOOPS(ref_bn_apply, run_apply);
REF_LOOPS(ref_bn_bwd_apply, run_bwd_apply);
