/* tolerance.c - how far a float32 backend may be from the float64 reference, one row per result.
 * eps = 2^-24.
 *
 * BOUND_EQUAL  results that are one correctly rounded operation, or none: there is nothing to
 *              tolerate. (Double rounding is harmless: 53 bits are more than twice 24.) In exact
 *              mode every result is compared like this.
 * BOUND_SUM    sums of K products: strictly sequential float32 reaches about half of c = 1 for
 *              large K. Up to four terms may round the worst way all at once, so K itself stands in
 *              for sqrt(K) there. With a batch norm behind it the mean, which is subtracted, counts
 *              as -|mean|, and weights are rounded once more. Activations that are computed, not
 *              chosen by sign (those are equal): of |x| they are no smaller than of x, and what
 *              cancels on the way is a sum there.
 * BOUND_NORM   batch norm: S adds up what rounding of x, mean and variance can do to this element
 *              (tolerance_norm.c), so that a large mean loosens only what it must: computing the
 *              variance as E[x^2] - E[x]^2 in float32 fails the fixed cases with offset=100.
 *              Forward has twice the c: its two sums feed every result.
 * BOUND_MAX    softmax, attention: an exponent's rounding scales with the logits' range, which the
 *              inputs keep below about 20; and parameters and first moments after an update, which
 *              are a few operations on values of one size. Layer norm has its c for the fixed case
 *              whose mean is a hundred deviations, where E[x^2] - E[x]^2 would be off by hundreds
 *              of times as much.
 * BOUND_TYPE   and BOUND_TYPE_MAX: fused convolutions, which round what they convolve, or the
 *              gradient that they pass on, to the type of their tensors. S is the op on absolute
 *              values; where a ReLU's mask depends on signs there is no such thing, and the largest
 *              result stands in for it.
 * BOUND_ELEMENT second moments and norms: all terms are positive; one factor times another, where
 * one is a logistic
 *              function. */
#include "tests/ops/check.h"

#define OUT     false
#define UPDATED true

static const ToleranceRow rows[] = {
    { OP_INPUT, OUT, INPUT_OUT_X, BOUND_EQUAL, 0 },
    { OP_CONV2D, OUT, CONV_OUT_Y, BOUND_SUM, 1 },
    { OP_CONV2D_BWD_DATA, OUT, CONV_BWD_DATA_OUT_DX, BOUND_SUM, 1 },
    { OP_CONV2D_BWD_WEIGHTS, OUT, CONV_BWD_WEIGHTS_OUT_DW, BOUND_SUM, 1 },
    { OP_CONV2D_BWD_WEIGHTS, OUT, CONV_BWD_WEIGHTS_OUT_DB, BOUND_SUM, 1 },
    { OP_BATCHNORM, OUT, BN_OUT_Y, BOUND_NORM, 8 },
    { OP_BATCHNORM, OUT, BN_OUT_SAVED, BOUND_NORM, 8 },
    { OP_BATCHNORM, UPDATED, BN_IN_RUNNING_MEAN, BOUND_NORM, 8 },
    { OP_BATCHNORM, UPDATED, BN_IN_RUNNING_VAR, BOUND_NORM, 8 },
    { OP_BATCHNORM_BWD, OUT, BN_BWD_OUT_DX, BOUND_NORM, 4 },
    { OP_BATCHNORM_BWD, OUT, BN_BWD_OUT_DGAMMA, BOUND_NORM, 4 },
    { OP_BATCHNORM_BWD, OUT, BN_BWD_OUT_DBETA, BOUND_NORM, 4 },
    { OP_BATCHNORM_BWD, OUT, BN_BWD_OUT_DRESIDUAL, BOUND_EQUAL, 0 },
    { OP_BN_SUMS, OUT, BN_SUMS_OUT_SUMS, BOUND_NORM, 8 },
    { OP_BN_BWD_SUMS, OUT, BN_BWD_SUMS_OUT_SUMS, BOUND_NORM, 4 },
    { OP_BN_BWD_SUMS, OUT, BN_BWD_SUMS_OUT_DGAMMA, BOUND_NORM, 4 },
    { OP_BN_BWD_SUMS, OUT, BN_BWD_SUMS_OUT_DBETA, BOUND_NORM, 4 },
    { OP_BN_BWD_SUMS, OUT, BN_BWD_SUMS_OUT_DRESIDUAL, BOUND_EQUAL, 0 },
    { OP_CONV2D_STATS, OUT, CONV_STATS_OUT_Y, BOUND_TYPE, 1 },
    { OP_CONV2D_STATS, OUT, CONV_STATS_OUT_SUMS, BOUND_TYPE, 4 },
    { OP_CONV2D_STATS, OUT, CONV_STATS_OUT_Z, BOUND_TYPE, 1 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_DZ, BOUND_TYPE_MAX, 2 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_DGAMMA, BOUND_TYPE_MAX, 4 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_DBETA, BOUND_TYPE_MAX, 4 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_COEFFICIENTS, BOUND_TYPE_MAX, 4 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA, BOUND_TYPE_MAX, 4 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_RESIDUAL_DBETA, BOUND_TYPE_MAX, 4 },
    { OP_CONV2D_BWD_DATA_NORM, OUT, CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS, BOUND_TYPE_MAX,
      4 },
    { OP_CONV2D_BWD_WEIGHTS_NORM, OUT, CONV_BWD_WEIGHTS_NORM_OUT_DW, BOUND_TYPE, 1 },
    { OP_BN_FINALIZE, OUT, BN_FINALIZE_OUT_SAVED, BOUND_ELEMENT, 4 },
    { OP_BN_FINALIZE, OUT, BN_FINALIZE_OUT_AFFINE, BOUND_MAX, 8 },
    { OP_BN_FINALIZE, UPDATED, BN_FINALIZE_IN_RUNNING_MEAN, BOUND_MAX, 4 },
    { OP_BN_FINALIZE, UPDATED, BN_FINALIZE_IN_RUNNING_VAR, BOUND_MAX, 4 },
    { OP_BN_APPLY, OUT, BN_APPLY_OUT_Y, BOUND_MAX, 8 },
    { OP_BN_BWD_APPLY, OUT, BN_BWD_APPLY_OUT_DX, BOUND_MAX, 8 },
    { OP_BN_POOL, OUT, BN_POOL_OUT_Y, BOUND_MAX, 8 },
    { OP_BN_POOL, OUT, BN_POOL_OUT_SAVED, BOUND_MAX, 8 },
    { OP_BN_POOL, OUT, BN_POOL_OUT_INDEX, BOUND_EQUAL, 0 },
    { OP_BN_POOL, UPDATED, BN_IN_RUNNING_MEAN, BOUND_MAX, 4 },
    { OP_BN_POOL, UPDATED, BN_IN_RUNNING_VAR, BOUND_MAX, 4 },
    { OP_BN_POOL_BWD, OUT, BN_BWD_OUT_DX, BOUND_TYPE_MAX, 2 },
    { OP_BN_POOL_BWD, OUT, BN_BWD_OUT_DGAMMA, BOUND_TYPE_MAX, 2 },
    { OP_BN_POOL_BWD, OUT, BN_BWD_OUT_DBETA, BOUND_TYPE_MAX, 2 },
    { OP_BN_STATISTICS, OUT, BN_OUT_SAVED, BOUND_MAX, 8 },
    { OP_BN_STATISTICS, UPDATED, BN_IN_RUNNING_MEAN, BOUND_MAX, 4 },
    { OP_BN_STATISTICS, UPDATED, BN_IN_RUNNING_VAR, BOUND_MAX, 4 },
    { OP_BN_SIGNS, OUT, BN_OUT_Y, BOUND_TYPE_MAX, 2 },
    { OP_BN_SIGNS, OUT, BN_OUT_SAVED, BOUND_MAX, 8 },
    { OP_BN_SIGNS, OUT, BN_SIGNS_OUT_SIGNS, BOUND_EQUAL, 0 },
    { OP_BN_SIGNS, UPDATED, BN_IN_RUNNING_MEAN, BOUND_MAX, 4 },
    { OP_BN_SIGNS, UPDATED, BN_IN_RUNNING_VAR, BOUND_MAX, 4 },
    { OP_BN_SIGNS_BWD, OUT, BN_BWD_OUT_DX, BOUND_TYPE_MAX, 2 },
    { OP_BN_SIGNS_BWD, OUT, BN_BWD_OUT_DGAMMA, BOUND_TYPE_MAX, 2 },
    { OP_BN_SIGNS_BWD, OUT, BN_BWD_OUT_DBETA, BOUND_TYPE_MAX, 2 },
    { OP_BN_SIGNS_BWD, OUT, BN_BWD_OUT_DRESIDUAL, BOUND_TYPE_MAX, 2 },
    { OP_CONV2D_BN, OUT, CONV_BN_OUT_Y, BOUND_TYPE, 2 },
    { OP_ACTIVATION, OUT, ACTIVATION_OUT_Y, BOUND_SUM, 8 },
    { OP_ACTIVATION_BWD, OUT, ACTIVATION_BWD_OUT_DX, BOUND_SUM, 8 },
    { OP_ADD, OUT, ADD_OUT_Y, BOUND_EQUAL, 0 },
    { OP_POOL2D, OUT, POOL_OUT_Y, BOUND_SUM, 1 },
    { OP_POOL2D, OUT, POOL_OUT_INDEX, BOUND_EQUAL, 0 },
    { OP_POOL2D_BWD, OUT, POOL_BWD_OUT_DX, BOUND_SUM, 1 },
    { OP_GLOBAL_AVGPOOL, OUT, GLOBAL_AVGPOOL_OUT_Y, BOUND_SUM, 1 },
    { OP_GLOBAL_AVGPOOL_BWD, OUT, GLOBAL_AVGPOOL_BWD_OUT_DX, BOUND_SUM, 1 },
    { OP_SUBSAMPLE, OUT, SUBSAMPLE_OUT_Y, BOUND_EQUAL, 0 },
    { OP_SUBSAMPLE_BWD, OUT, SUBSAMPLE_BWD_OUT_DX, BOUND_EQUAL, 0 },
    { OP_LINEAR, OUT, LINEAR_OUT_Y, BOUND_SUM, 1 },
    { OP_LINEAR_BWD_DATA, OUT, LINEAR_BWD_DATA_OUT_DX, BOUND_SUM, 1 },
    { OP_LINEAR_BWD_WEIGHTS, OUT, LINEAR_BWD_WEIGHTS_OUT_DW, BOUND_SUM, 1 },
    { OP_LINEAR_BWD_WEIGHTS, OUT, LINEAR_BWD_WEIGHTS_OUT_DB, BOUND_SUM, 1 },
    { OP_SOFTMAX_XENT, OUT, XENT_OUT_STATS, BOUND_STATS, 64 },
    { OP_SOFTMAX_XENT, OUT, XENT_OUT_DLOGITS, BOUND_MAX, 64 },
    { OP_UPDATE, UPDATED, UPDATE_IN_PARAM, BOUND_MAX, 8 },
    { OP_UPDATE, UPDATED, UPDATE_IN_STATE0, BOUND_MAX, 8 },
    { OP_UPDATE, UPDATED, UPDATE_IN_STATE1, BOUND_ELEMENT, 8 },
    { OP_LERP, UPDATED, LERP_IN_AVERAGE, BOUND_MAX, 4 },
    { OP_LERP, UPDATED, LERP_IN_X, BOUND_MAX, 4 },
    { OP_TRUST_RATIO, OUT, TRUST_RATIO_OUT_SUMS, BOUND_ELEMENT, 16 }, /* of f32 values */
    { OP_TRUST_RATIO, OUT, TRUST_RATIO_OUT_RATIOS, BOUND_ELEMENT, 16 },
    /* the iteration multiplies roundings in the direction of small singular values by up to 493 */
    { OP_MUON, UPDATED, MUON_IN_GRAD, BOUND_MAX, 4096 },
    { OP_MUON, UPDATED, MUON_IN_MOMENTUM, BOUND_MAX, 8 },
    { OP_SCALE, OUT, SCALE_OUT_Y, BOUND_EQUAL, 0 },
    { OP_FINITE_CHECK, UPDATED, FINITE_CHECK_IN_LOSS_SCALE, BOUND_EQUAL, 0 },
    { OP_LOSS_SCALE, UPDATED, LOSS_SCALE_IN_STATE, BOUND_EQUAL, 0 },
    { OP_GRAD_SQUARES, OUT, GRAD_SQUARES_OUT_SUMS, BOUND_ELEMENT, 0.0005 }, /* added up in double */
    { OP_GRAD_NORM, OUT, GRAD_NORM_OUT_CLIP, BOUND_ELEMENT, 2 },
    { OP_GATE, OUT, GATE_OUT_Y, BOUND_ELEMENT, 8 },
    { OP_GATE_BWD, OUT, GATE_BWD_OUT_DX, BOUND_ELEMENT, 8 },
    { OP_GATE_BWD, OUT, GATE_BWD_OUT_DG, BOUND_SUM, 2 },
    { OP_DROP, OUT, DROP_OUT_Y, BOUND_MAX, 2 },
    { OP_DROP_BWD, OUT, DROP_BWD_OUT_DX, BOUND_EQUAL, 0 },
    { OP_LAYERNORM, OUT, LAYERNORM_OUT_Y, BOUND_MAX, 192 },
    { OP_LAYERNORM_BWD, OUT, LAYERNORM_BWD_OUT_DX, BOUND_NORM, 8 },
    { OP_LAYERNORM_BWD, OUT, LAYERNORM_BWD_OUT_DGAMMA, BOUND_NORM, 8 },
    { OP_LAYERNORM_BWD, OUT, LAYERNORM_BWD_OUT_DBETA, BOUND_MAX, 96 },
    { OP_GRN, OUT, LAYERNORM_OUT_Y, BOUND_SUM, 1 },
    { OP_GRN_BWD, OUT, LAYERNORM_BWD_OUT_DX, BOUND_MAX, 16 },
    { OP_GRN_BWD, OUT, LAYERNORM_BWD_OUT_DGAMMA, BOUND_SUM, 1 },
    { OP_GRN_BWD, OUT, LAYERNORM_BWD_OUT_DBETA, BOUND_SUM, 1 },
    { OP_ATTENTION, OUT, ATTENTION_OUT_Y, BOUND_MAX, 32 },
    { OP_ATTENTION, OUT, ATTENTION_OUT_LSE, BOUND_MAX, 32 },
    { OP_ATTENTION_BWD, OUT, ATTENTION_BWD_OUT_DQKV, BOUND_MAX, 32 },
    { OP_TOKENS, OUT, TOKENS_OUT_Y, BOUND_ELEMENT, 2 },
    { OP_TOKENS_BWD, OUT, TOKENS_BWD_OUT_DX, BOUND_EQUAL, 0 },
    { OP_TOKENS_BWD, OUT, TOKENS_BWD_OUT_DPOSITIONS, BOUND_SUM, 1 },
    { OP_TOKENS_BWD, OUT, TOKENS_BWD_OUT_DCLASS, BOUND_SUM, 1 },
    { OP_EMBED, OUT, EMBED_OUT_Y, BOUND_SUM, 1 },
    { OP_EMBED_BWD, OUT, EMBED_BWD_OUT_DWORDS, BOUND_SUM, 1 },
    { OP_EMBED_BWD, OUT, EMBED_BWD_OUT_DPOSITIONS, BOUND_SUM, 1 },
    { OP_EMBED_BWD, OUT, EMBED_BWD_OUT_DSEGMENTS, BOUND_SUM, 1 },
    { OP_EMBED_BWD, UPDATED, EMBED_BWD_IN_SO_FAR, BOUND_SUM, 1 },
    { OP_PICK, OUT, PICK_OUT_Y, BOUND_EQUAL, 0 },
    { OP_PICK_BWD, OUT, PICK_BWD_OUT_DX, BOUND_EQUAL, 0 },
};

const ToleranceRow *tolerance_row(OpKind kind, bool input, int slot)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].kind == kind && rows[i].input == input && rows[i].slot == slot) return &rows[i];
    return NULL;
}
