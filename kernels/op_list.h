/* op_list.h - every operation once: its kind, its name, and for which fusions alone it is there.
 *
 * From this list come the kinds and their names (op.h, op.c), the rows of shapes and work
 * (ops/x.c: op_row_NAME), what each backend implements (ref_NAME, cpu_NAME, cuda_NAME) and the
 * families of tests/ops (family_NAME): an op that is added here does not link until it has all
 * of them. What an op means, its slots and its attributes: op_input.h and its neighbours. */
#ifndef CONVOY_KERNELS_OP_LIST_H
#define CONVOY_KERNELS_OP_LIST_H

#define OP_LIST(OP)                                                                                \
    OP(OP_INPUT, input, FUSED_NOT)                                                                 \
    OP(OP_CONV2D, conv2d, FUSED_NOT)                                                               \
    OP(OP_CONV2D_BWD_DATA, conv2d_bwd_data, FUSED_NOT)                                             \
    OP(OP_CONV2D_BWD_WEIGHTS, conv2d_bwd_weights, FUSED_NOT)                                       \
    OP(OP_BATCHNORM, batchnorm, FUSED_NOT)                                                         \
    OP(OP_BATCHNORM_BWD, batchnorm_bwd, FUSED_NOT)                                                 \
    OP(OP_BN_SUMS, bn_sums, FUSED_NOT)                                                             \
    OP(OP_BN_BWD_SUMS, bn_bwd_sums, FUSED_NOT)                                                     \
    OP(OP_CONV2D_STATS, conv2d_stats, FUSED_TRAINING)                                              \
    OP(OP_CONV2D_BWD_DATA_NORM, conv2d_bwd_data_norm, FUSED_TRAINING)                              \
    OP(OP_CONV2D_BWD_WEIGHTS_NORM, conv2d_bwd_weights_norm, FUSED_TRAINING)                        \
    OP(OP_BN_FINALIZE, bn_finalize, FUSED_TRAINING)                                                \
    OP(OP_BN_APPLY, bn_apply, FUSED_NOT)                                                           \
    OP(OP_BN_BWD_APPLY, bn_bwd_apply, FUSED_TRAINING)                                              \
    OP(OP_BN_POOL, bn_pool, FUSED_TRAINING)                                                        \
    OP(OP_BN_POOL_BWD, bn_pool_bwd, FUSED_TRAINING)                                                \
    OP(OP_BN_STATISTICS, bn_statistics, FUSED_TRAINING)                                            \
    OP(OP_BN_SIGNS, bn_signs, FUSED_TRAINING)                                                      \
    OP(OP_BN_SIGNS_BWD, bn_signs_bwd, FUSED_TRAINING)                                              \
    OP(OP_CONV2D_BN, conv2d_bn, FUSED_EVALUATION)                                                  \
    OP(OP_ACTIVATION, activation, FUSED_NOT)                                                       \
    OP(OP_ACTIVATION_BWD, activation_bwd, FUSED_NOT)                                               \
    OP(OP_ADD, add, FUSED_NOT)                                                                     \
    OP(OP_POOL2D, pool2d, FUSED_NOT)                                                               \
    OP(OP_POOL2D_BWD, pool2d_bwd, FUSED_NOT)                                                       \
    OP(OP_GLOBAL_AVGPOOL, global_avgpool, FUSED_NOT)                                               \
    OP(OP_GLOBAL_AVGPOOL_BWD, global_avgpool_bwd, FUSED_NOT)                                       \
    OP(OP_SUBSAMPLE, subsample, FUSED_NOT)                                                         \
    OP(OP_SUBSAMPLE_BWD, subsample_bwd, FUSED_NOT)                                                 \
    OP(OP_LINEAR, linear, FUSED_NOT)                                                               \
    OP(OP_LINEAR_BWD_DATA, linear_bwd_data, FUSED_NOT)                                             \
    OP(OP_LINEAR_BWD_WEIGHTS, linear_bwd_weights, FUSED_NOT)                                       \
    OP(OP_SOFTMAX_XENT, softmax_xent, FUSED_NOT)                                                   \
    OP(OP_UPDATE, update, FUSED_NOT)                                                               \
    OP(OP_SCALE, scale, FUSED_NOT)                                                                 \
    OP(OP_FINITE_CHECK, finite_check, FUSED_NOT)                                                   \
    OP(OP_LOSS_SCALE, loss_scale, FUSED_NOT)                                                       \
    OP(OP_GRAD_SQUARES, grad_squares, FUSED_NOT)                                                   \
    OP(OP_GRAD_NORM, grad_norm, FUSED_NOT)                                                         \
    OP(OP_LERP, lerp, FUSED_NOT)                                                                   \
    OP(OP_TRUST_RATIO, trust_ratio, FUSED_NOT)                                                     \
    OP(OP_MUON, muon, FUSED_NOT)                                                                   \
    OP(OP_GATE, gate, FUSED_NOT)                                                                   \
    OP(OP_GATE_BWD, gate_bwd, FUSED_NOT)                                                           \
    OP(OP_DROP, drop, FUSED_NOT)                                                                   \
    OP(OP_DROP_BWD, drop_bwd, FUSED_NOT)                                                           \
    OP(OP_LAYERNORM, layernorm, FUSED_NOT)                                                         \
    OP(OP_LAYERNORM_BWD, layernorm_bwd, FUSED_NOT)                                                 \
    OP(OP_GRN, grn, FUSED_NOT)                                                                     \
    OP(OP_GRN_BWD, grn_bwd, FUSED_NOT)                                                             \
    OP(OP_ATTENTION, attention, FUSED_NOT)                                                         \
    OP(OP_ATTENTION_BWD, attention_bwd, FUSED_NOT)                                                 \
    OP(OP_TOKENS, tokens, FUSED_NOT)                                                               \
    OP(OP_TOKENS_BWD, tokens_bwd, FUSED_NOT)                                                       \
    OP(OP_EMBED, embed, FUSED_NOT)                                                                 \
    OP(OP_EMBED_BWD, embed_bwd, FUSED_NOT)                                                         \
    OP(OP_PICK, pick, FUSED_NOT)                                                                   \
    OP(OP_PICK_BWD, pick_bwd, FUSED_NOT)

/* FUSED_TRAINING, FUSED_EVALUATION: made in models/graph/fuse*.c alone, of training steps or of
 * evaluations; only backends that take fusions of that kind have them. */
typedef enum FusedFor { FUSED_NOT, FUSED_TRAINING, FUSED_EVALUATION, FUSED_COUNT } FusedFor;

#define OP_LIST_KIND(kind, name, fused) kind,
typedef enum OpKind { OP_LIST(OP_LIST_KIND) OP_COUNT } OpKind;
#undef OP_LIST_KIND
#endif
