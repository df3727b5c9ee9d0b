/* op_conv.h - convolutions, alone and with parts of the batch norms beside them. */
#ifndef CONVOY_KERNELS_OP_CONV_H
#define CONVOY_KERNELS_OP_CONV_H
#include "kernels/op_act.h"

/* OP_CONV2D: cross-correlation, plus b[k]. OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS: its gradients
 * by x, and by w and b. w [K,C/G,R,S] may be of rank 2, [K,C]: a linear layer over the channels of
 * each position; or with K groups of rank 3 or 1, [K,1,1] or [K]: a factor for each channel. */
enum { CONV_IN_X, CONV_IN_W, CONV_IN_B /*optional*/ };
enum { CONV_OUT_Y };
enum { CONV_BWD_DATA_IN_DY, CONV_BWD_DATA_IN_W };
enum { CONV_BWD_DATA_OUT_DX };
enum { CONV_BWD_WEIGHTS_IN_X, CONV_BWD_WEIGHTS_IN_DY };
enum { CONV_BWD_WEIGHTS_OUT_DW, CONV_BWD_WEIGHTS_OUT_DB /*optional*/ };
typedef struct Conv2dAttr {
    int stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right, groups;
} Conv2dAttr;

/* OP_CONV2D_STATS: a convolution, with the sums that the batch norm behind it needs. What is
 * convolved is z: x, or with an affine (BN_FINALIZE_OUT_AFFINE of the batch norm whose input x is)
 * relu(scale x + shift), or with a residual relu(scale x + shift + residual), where the residual
 * itself may be yet to be scaled and shifted. Padding of the image is zeros of z. z is an output
 * where there is a residual. sums [2,K]: of y and of its square, over all but the channels.
 * Attributes: Conv2dAttr, as of the next two. */
enum {
    CONV_STATS_IN_X,
    CONV_STATS_IN_W,
    CONV_STATS_IN_AFFINE /*optional*/,
    CONV_STATS_IN_RESIDUAL /*optional*/,
    CONV_STATS_IN_RESIDUAL_AFFINE /*optional*/
};
enum { CONV_STATS_OUT_Y, CONV_STATS_OUT_SUMS, CONV_STATS_OUT_Z /*optional*/ };

/* OP_CONV2D_BWD_DATA_NORM: the gradient of x, where x = relu(bn(...)), carried on through the
 * relu. g = the gradient of the convolution's input; dz = g where bn(x) > 0, else 0; dgamma, dbeta
 * of bn at dz. coefficients [3,C]: a, b, c of OP_BN_BWD_APPLY.
 * At the end of a residual block g is also that of another reader of the block, dy2, and dz = g
 * where bn(x) + residual > 0; the two come together. With vectors of its own the residual is yet to
 * be normalised by them, and there are the results of that norm too, at the same dz. Those of the
 * two norms lie alike: behind x and dz, behind residual and coefficients. */
enum {
    CONV_BWD_DATA_NORM_IN_DY,
    CONV_BWD_DATA_NORM_IN_W,
    CONV_BWD_DATA_NORM_IN_X,
    CONV_BWD_DATA_NORM_IN_GAMMA,
    CONV_BWD_DATA_NORM_IN_BETA,
    CONV_BWD_DATA_NORM_IN_SAVED,
    CONV_BWD_DATA_NORM_IN_DY2 /*optional*/,
    CONV_BWD_DATA_NORM_IN_RESIDUAL /*optional*/,
    CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA /*optional, as the next two*/,
    CONV_BWD_DATA_NORM_IN_RESIDUAL_BETA,
    CONV_BWD_DATA_NORM_IN_RESIDUAL_SAVED
};
enum {
    CONV_BWD_DATA_NORM_OUT_DZ,
    CONV_BWD_DATA_NORM_OUT_DGAMMA,
    CONV_BWD_DATA_NORM_OUT_DBETA,
    CONV_BWD_DATA_NORM_OUT_COEFFICIENTS,
    CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA /*optional, as the next two*/,
    CONV_BWD_DATA_NORM_OUT_RESIDUAL_DBETA,
    CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS
};

/* OP_CONV2D_BWD_WEIGHTS_NORM: the gradient of w, where x is yet to be normalised: of relu(scale x +
 * shift), as forward convolved it. */
enum { CONV_BWD_WEIGHTS_NORM_IN_X, CONV_BWD_WEIGHTS_NORM_IN_DY, CONV_BWD_WEIGHTS_NORM_IN_AFFINE };
enum { CONV_BWD_WEIGHTS_NORM_OUT_DW };

/* OP_CONV2D_BN: of an evaluation: y = act(bn(convolution) + residual) with running statistics. */
enum {
    CONV_BN_IN_X,
    CONV_BN_IN_W,
    CONV_BN_IN_GAMMA,
    CONV_BN_IN_BETA,
    CONV_BN_IN_RUNNING_MEAN,
    CONV_BN_IN_RUNNING_VAR,
    CONV_BN_IN_RESIDUAL /*optional*/
};
enum { CONV_BN_OUT_Y };
typedef struct Conv2dBnAttr {
    Conv2dAttr conv;
    float eps;
    ActKind act; /* any that a batch norm takes, with a residual too: nothing here has a gradient */
} Conv2dBnAttr;
#endif
