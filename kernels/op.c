/* op.c - the table of operations, put together from the rows of ops/x.c. */
#include "kernels/op.h"
#include "kernels/ops/infer.h"

const OpDef *op_def(OpKind kind)
{
    /* By kind: the family's rows and the place in them. */
    static const struct {
        const OpDef *rows;
        int index;
    } table[OP_COUNT] = {
        [OP_INPUT] = { op_rows_input, 0 },
        [OP_CONV2D] = { op_rows_conv2d, 0 },
        [OP_CONV2D_BWD_DATA] = { op_rows_conv2d, 1 },
        [OP_CONV2D_BWD_WEIGHTS] = { op_rows_conv2d, 2 },
        [OP_BATCHNORM] = { op_rows_batchnorm, 0 },
        [OP_BATCHNORM_BWD] = { op_rows_batchnorm, 1 },
        [OP_CONV2D_STATS] = { op_rows_conv2d_norm, 0 },
        [OP_CONV2D_BWD_DATA_NORM] = { op_rows_conv2d_norm, 1 },
        [OP_CONV2D_BWD_WEIGHTS_NORM] = { op_rows_conv2d_norm, 2 },
        [OP_BN_FINALIZE] = { op_rows_batchnorm_parts, 0 },
        [OP_BN_APPLY] = { op_rows_batchnorm_parts, 1 },
        [OP_BN_BWD_APPLY] = { op_rows_batchnorm_parts, 2 },
        [OP_CONV2D_BN] = { op_rows_conv2d_bn, 0 },
        [OP_ACTIVATION] = { op_rows_activation, 0 },
        [OP_ACTIVATION_BWD] = { op_rows_activation, 1 },
        [OP_ADD] = { op_rows_add, 0 },
        [OP_POOL2D] = { op_rows_pool2d, 0 },
        [OP_POOL2D_BWD] = { op_rows_pool2d, 1 },
        [OP_GLOBAL_AVGPOOL] = { op_rows_global_avgpool, 0 },
        [OP_GLOBAL_AVGPOOL_BWD] = { op_rows_global_avgpool, 1 },
        [OP_SUBSAMPLE] = { op_rows_subsample, 0 },
        [OP_SUBSAMPLE_BWD] = { op_rows_subsample, 1 },
        [OP_LINEAR] = { op_rows_linear, 0 },
        [OP_LINEAR_BWD_DATA] = { op_rows_linear, 1 },
        [OP_LINEAR_BWD_WEIGHTS] = { op_rows_linear, 2 },
        [OP_SOFTMAX_XENT] = { op_rows_softmax_xent, 0 },
        [OP_UPDATE] = { op_rows_update, 0 },
        [OP_SCALE] = { op_rows_scale, 0 },
        [OP_FINITE_CHECK] = { op_rows_loss_scale, 0 },
        [OP_LOSS_SCALE] = { op_rows_loss_scale, 1 },
        [OP_GRAD_SQUARES] = { op_rows_grad_norm, 0 },
        [OP_GRAD_NORM] = { op_rows_grad_norm, 1 },
        [OP_GATE] = { op_rows_gate, 0 },
        [OP_GATE_BWD] = { op_rows_gate, 1 },
        [OP_DROP] = { op_rows_drop, 0 },
        [OP_DROP_BWD] = { op_rows_drop, 1 },
    };
    ASSERT(kind >= 0 && kind < OP_COUNT);
    return &table[kind].rows[table[kind].index];
}

const char *op_name(OpKind kind)
{
    return op_def(kind)->name;
}
