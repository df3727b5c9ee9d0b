/* families.c - the table of all families, and small helpers of their generators. */
#include "tests/check/families.h"

static const Family *const table[OP_COUNT] = {
    [OP_INPUT] = &family_input,
    [OP_CONV2D] = &family_conv2d,
    [OP_CONV2D_BWD_DATA] = &family_conv2d_bwd_data,
    [OP_CONV2D_BWD_WEIGHTS] = &family_conv2d_bwd_weights,
    [OP_BATCHNORM] = &family_batchnorm,
    [OP_BATCHNORM_BWD] = &family_batchnorm_bwd,
    [OP_CONV2D_STATS] = &family_conv2d_stats,
    [OP_CONV2D_BWD_DATA_NORM] = &family_conv2d_bwd_data_norm,
    [OP_CONV2D_BWD_WEIGHTS_NORM] = &family_conv2d_bwd_weights_norm,
    [OP_BN_FINALIZE] = &family_bn_finalize,
    [OP_BN_APPLY] = &family_bn_apply,
    [OP_BN_BWD_APPLY] = &family_bn_bwd_apply,
    [OP_CONV2D_BN] = &family_conv2d_bn,
    [OP_ACTIVATION] = &family_activation,
    [OP_ACTIVATION_BWD] = &family_activation_bwd,
    [OP_ADD] = &family_add,
    [OP_POOL2D] = &family_pool2d,
    [OP_POOL2D_BWD] = &family_pool2d_bwd,
    [OP_GLOBAL_AVGPOOL] = &family_global_avgpool,
    [OP_GLOBAL_AVGPOOL_BWD] = &family_global_avgpool_bwd,
    [OP_SUBSAMPLE] = &family_subsample,
    [OP_SUBSAMPLE_BWD] = &family_subsample_bwd,
    [OP_LINEAR] = &family_linear,
    [OP_LINEAR_BWD_DATA] = &family_linear_bwd_data,
    [OP_LINEAR_BWD_WEIGHTS] = &family_linear_bwd_weights,
    [OP_SOFTMAX_XENT] = &family_softmax_xent,
    [OP_UPDATE] = &family_update,
    [OP_SCALE] = &family_scale,
    [OP_FINITE_CHECK] = &family_finite_check,
    [OP_LOSS_SCALE] = &family_loss_scale,
    [OP_GRAD_SQUARES] = &family_grad_squares,
    [OP_GRAD_NORM] = &family_grad_norm,
    [OP_GATE] = &family_gate,
    [OP_GATE_BWD] = &family_gate_bwd,
    [OP_DROP] = &family_drop,
    [OP_DROP_BWD] = &family_drop_bwd,
};

const Family *family_of(OpKind kind)
{
    return table[kind];
}

int64_t draw_between(Rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low + 1));
}

int64_t draw_channels(Rng *rng)
{
    static const int64_t counts[] = { 1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33 };
    return counts[rng_below(rng, sizeof counts / sizeof counts[0])];
}

bool draw_chance(Rng *rng, int one_in)
{
    return rng_below(rng, (uint64_t)one_in) == 0;
}

TensorDesc desc_f32(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dims[TENSOR_MAX_RANK] = { a, b, c, d };
    int rank = 0;
    while (rank < TENSOR_MAX_RANK && dims[rank] != 0) rank++;
    return tensor_desc(DTYPE_F32, rank, dims);
}

bool power_of_two(int64_t v)
{
    return v > 0 && (v & (v - 1)) == 0;
}
