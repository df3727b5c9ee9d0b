/* op_norm.h - batch norm, whole and in the parts that are left of it where convolutions beside it
 * do the rest; layer norm. */
#ifndef CONVOY_KERNELS_OP_NORM_H
#define CONVOY_KERNELS_OP_NORM_H
#include "kernels/op_act.h"
#include "kernels/op_layer.h"

/* frozen: running statistics, gamma and beta still train */
typedef enum BatchNormMode { BN_TRAIN, BN_EVAL, BN_FROZEN, BN_MODE_COUNT } BatchNormMode;

/* OP_BATCHNORM: y = act(bn(x) + residual). Running statistics are inputs updated in place in
 * BN_TRAIN: r = (1-momentum) r + momentum stat, variance unbiased (n/(n-1)), as torch. saved is
 * [2,C]: the mean and 1/sqrt(var+eps) that were applied, whatever the mode. With sums, those of
 * OP_BN_SUMS over `ranks` ranks, the batch is that of all of these. */
enum {
    BN_IN_X,
    BN_IN_GAMMA,
    BN_IN_BETA,
    BN_IN_RUNNING_MEAN,
    BN_IN_RUNNING_VAR,
    BN_IN_RESIDUAL /*optional*/,
    BN_IN_SUMS /*optional*/
};
enum { BN_OUT_Y, BN_OUT_SAVED };
typedef struct BatchNormAttr {
    float eps, momentum;
    BatchNormMode mode;
    ActKind act;
    int ranks; /* BN_TRAIN: behind sums, which are there then; 0: x is all of the batch */
} BatchNormAttr;

/* OP_BATCHNORM_BWD: dz = (dy + dy2) * act'; dresidual = dz; dx, dgamma, dbeta of bn at dz. y is
 * needed only with an activation and a residual; without a residual the sign, or the activation's
 * argument, is recomputed from x exactly as forward computed it. dx may lie over dy, dresidual over
 * dy2. With sums, those of OP_BN_BWD_SUMS over `ranks` ranks, dx is the only result. */
enum {
    BN_BWD_IN_DY,
    BN_BWD_IN_DY2 /*optional*/,
    BN_BWD_IN_X,
    BN_BWD_IN_Y /*optional*/,
    BN_BWD_IN_GAMMA,
    BN_BWD_IN_BETA,
    BN_BWD_IN_SAVED,
    BN_BWD_IN_SUMS /*optional*/
};
enum { BN_BWD_OUT_DX, BN_BWD_OUT_DGAMMA, BN_BWD_OUT_DBETA, BN_BWD_OUT_DRESIDUAL /*optional*/ };

/* OP_BN_SUMS: of each channel the sum of x and that of its square, f64 [2,C], for statistics over
 * several ranks: what is between this and OP_BATCHNORM sums them (graph_rank_sum). */
enum { BN_SUMS_IN_X };
enum { BN_SUMS_OUT_SUMS };

/* OP_BN_BWD_SUMS: of each channel the sum of dz and that of dz xhat, f64 [2,C], for dx by sums over
 * several ranks; dgamma and dbeta are this rank's alone, dresidual = dz may lie over dy. Inputs and
 * attributes: those of OP_BATCHNORM_BWD, without sums. */
enum {
    BN_BWD_SUMS_OUT_SUMS,
    BN_BWD_SUMS_OUT_DGAMMA,
    BN_BWD_SUMS_OUT_DBETA,
    BN_BWD_SUMS_OUT_DRESIDUAL /*optional*/
};

/* OP_BN_FINALIZE: the sums of OP_CONV2D_STATS to statistics; running ones as in OP_BATCHNORM.
 * affine [2,C]: scale = gamma inv_std and shift = beta - mean scale. */
enum {
    BN_FINALIZE_IN_SUMS,
    BN_FINALIZE_IN_GAMMA,
    BN_FINALIZE_IN_BETA,
    BN_FINALIZE_IN_RUNNING_MEAN,
    BN_FINALIZE_IN_RUNNING_VAR
};
enum { BN_FINALIZE_OUT_SAVED, BN_FINALIZE_OUT_AFFINE /*optional*/ };
typedef struct BnFinalizeAttr {
    float eps, momentum;
    int64_t count; /* values of a channel behind its sums */
} BnFinalizeAttr;

/* OP_BN_APPLY: y = act(bn(x) + residual) with given statistics: those that OP_BATCHNORM has saved
 * give its y again, bit for bit. Attributes: BatchNormAttr. */
enum {
    BN_APPLY_IN_X,
    BN_APPLY_IN_GAMMA,
    BN_APPLY_IN_BETA,
    BN_APPLY_IN_SAVED,
    BN_APPLY_IN_RESIDUAL /*optional*/
};
enum { BN_APPLY_OUT_Y };

/* OP_BN_BWD_APPLY: dx = a dz + b x + c, by the coefficients [3,C] of OP_CONV2D_BWD_DATA_NORM. */
enum { BN_BWD_APPLY_IN_DZ, BN_BWD_APPLY_IN_X, BN_BWD_APPLY_IN_COEFFICIENTS };
enum { BN_BWD_APPLY_OUT_DX };

/* OP_BN_POOL, OP_BN_POOL_BWD: the largest of each window of OP_POOL2D over act(bn(x)), which is
 * nowhere kept, with the bits as if it had been. Inputs: those of OP_BATCHNORM and, with index in
 * the place of y, of OP_BATCHNORM_BWD. In training by this rank's statistics, with ReLU and without
 * a residual: y and dy are of the pooling, x and dx of the norm. */
enum { BN_POOL_OUT_Y, BN_POOL_OUT_SAVED, BN_POOL_OUT_INDEX };
enum { BN_POOL_BWD_IN_INDEX = BN_BWD_IN_Y };
typedef struct BnPoolAttr {
    BatchNormAttr norm; /* first */
    Pool2dAttr pool;    /* POOL_MAX */
} BnPoolAttr;

/* OP_BN_SIGNS, OP_BN_SIGNS_BWD: OP_BATCHNORM with a residual and ReLU, in training by this rank's
 * statistics, which also writes signs, u8 [N H W ceil(C / 8)]: bit c % 8 of byte c / 8 of a
 * position is 0 where y <= 0. Its gradient reads them in the place of y. With gamma,
 * beta and saved of a norm of the residual, that norm is what is added, and nowhere kept: its
 * statistics are those of OP_BN_STATISTICS, which is OP_BATCHNORM without y. */
enum {
    BN_SIGNS_IN_RESIDUAL_GAMMA = BN_IN_RESIDUAL + 1 /*optional, as the next two*/,
    BN_SIGNS_IN_RESIDUAL_BETA,
    BN_SIGNS_IN_RESIDUAL_SAVED
};
enum { BN_SIGNS_OUT_SIGNS = BN_OUT_SAVED + 1 };
enum { BN_SIGNS_BWD_IN_SIGNS = BN_BWD_IN_Y };

/* OP_LAYERNORM: y[n,c,h,w] = gamma[c] (x - mean) / sqrt(var + eps) + beta[c], mean and (biased)
 * variance over the channels of one position, as torch.nn.LayerNorm over the last dimension of
 * N,H,W,C. Of rank 4 or 2; a batch of sequences is N,width,length,1, a matrix of rows N,C.
 * OP_LAYERNORM_BWD finds mean and variance again from x; dx may lie over dy. */
enum { LAYERNORM_IN_X, LAYERNORM_IN_GAMMA, LAYERNORM_IN_BETA };
enum { LAYERNORM_OUT_Y };
enum { LAYERNORM_BWD_IN_DY, LAYERNORM_BWD_IN_X, LAYERNORM_BWD_IN_GAMMA };
enum { LAYERNORM_BWD_OUT_DX, LAYERNORM_BWD_OUT_DGAMMA, LAYERNORM_BWD_OUT_DBETA };
typedef struct LayerNormAttr {
    float eps;
} LayerNormAttr;

/* OP_GRN: y = x (1 + gamma[c] g[n,c] / (mean of g[n,] + eps)) + beta[c], where g is the root of the
 * sum of x^2 over an image's positions: global response normalisation, Woo et al. 2023. Slots and
 * attributes of it and its gradient are layer norm's; of rank 4. */
#endif
