/* op_layer.h - the other layers: sums, pooling, shortcuts, linear layers, gates, dropout. */
#ifndef CONVOY_KERNELS_OP_LAYER_H
#define CONVOY_KERNELS_OP_LAYER_H
#include "kernels/tensor.h"

/* OP_ADD: y = a + b. */
enum { ADD_IN_A, ADD_IN_B };
enum { ADD_OUT_Y };

/* OP_SCALE: y = x * factor, flat, in place allowed. */
enum { SCALE_IN_X };
enum { SCALE_OUT_Y };
typedef struct ScaleAttr {
    float factor;
} ScaleAttr;

/* OP_POOL2D, OP_POOL2D_BWD. Max: of equal maxima the first in window order (row by row) is the one
 * INDEX names; a NaN is above all numbers and the first NaN wins. Avg: padding counts in the
 * divisor, as torch's default. Avg of tiles: the strides are the window's size and there is no
 * padding; the last tiles end with the image, and are divided by what is left of them (torch's
 * ceil_mode without count_include_pad). Blur: the sum over a window of 3x3, padded by 1, with the
 * weights [1 2 1]^T [1 2 1] / 16 (Zhang 2019); padding is zeros, or mirrors the image without its
 * edge (reflect), for which that is at least 2 pixels high and wide. */
typedef enum PoolKind {
    POOL_MAX,
    POOL_AVG,
    POOL_BLUR,
    POOL_BLUR_REFLECT,
    POOL_AVG_TILES,
    POOL_KIND_COUNT
} PoolKind;
enum { POOL_IN_X };
enum { POOL_OUT_Y, POOL_OUT_INDEX /*optional; u8, window position of the max*/ };
enum { POOL_BWD_IN_DY, POOL_BWD_IN_INDEX /*max only*/ };
enum { POOL_BWD_OUT_DX };
typedef struct Pool2dAttr {
    PoolKind kind;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
} Pool2dAttr;

/* OP_GLOBAL_AVGPOOL: N,C,H,W -> N,C. */
enum { GLOBAL_AVGPOOL_IN_X };
enum { GLOBAL_AVGPOOL_OUT_Y };
enum { GLOBAL_AVGPOOL_BWD_IN_DY };
enum { GLOBAL_AVGPOOL_BWD_OUT_DX };

/* OP_SUBSAMPLE, He et al. 2015 4.1 option A: y[n,c,p,q] = x[n,c,p*stride,q*stride], zero for the
 * added channels at the end. */
enum { SUBSAMPLE_IN_X };
enum { SUBSAMPLE_OUT_Y };
enum { SUBSAMPLE_BWD_IN_DY };
enum { SUBSAMPLE_BWD_OUT_DX };
typedef struct SubsampleAttr {
    int stride;
    int64_t out_channels;
} SubsampleAttr;

/* OP_LINEAR: y = x w^T + b; x of rank 4 (plain layout) is flattened to N, C*H*W. */
enum { LINEAR_IN_X, LINEAR_IN_W, LINEAR_IN_B /*optional*/ };
enum { LINEAR_OUT_Y };
enum { LINEAR_BWD_DATA_IN_DY, LINEAR_BWD_DATA_IN_W };
enum { LINEAR_BWD_DATA_OUT_DX };
enum { LINEAR_BWD_WEIGHTS_IN_X, LINEAR_BWD_WEIGHTS_IN_DY };
enum { LINEAR_BWD_WEIGHTS_OUT_DW, LINEAR_BWD_WEIGHTS_OUT_DB /*optional*/ };

/* OP_GATE: y[n,c,h,w] = x[n,c,h,w] sigmoid(g[n,c]): the excitation of squeeze-and-excitation (Hu et
 * al. 2018). hard: hard_sigmoid (kernels/op_act.h) in sigmoid's place, of slope 0 where that is
 * constant. */
typedef struct GateAttr {
    bool hard;
} GateAttr;
enum { GATE_IN_X, GATE_IN_G };
enum { GATE_OUT_Y };
enum { GATE_BWD_IN_DY, GATE_BWD_IN_X, GATE_BWD_IN_G };
enum { GATE_BWD_OUT_DX, GATE_BWD_OUT_DG };

/* OP_DROP: y = x keep / (1 - rate) + residual, keep drawn anew in each step (kernels/drop.h):
 * dropout, or stochastic depth by rows. x [N,C] or [N,C,H,W]. where i32 [H W,2]: x is one image
 * whose positions are those of several sequences, and says of each its sequence and its position in
 * it, by which single elements are drawn; positions of sequence -1 are nobody's, of which nothing
 * is kept. */
enum { DROP_IN_X, DROP_IN_SCALARS, DROP_IN_RESIDUAL /*optional*/, DROP_IN_WHERE /*optional*/ };
enum { DROP_OUT_Y };
enum { DROP_BWD_IN_DY, DROP_BWD_IN_SCALARS, DROP_BWD_IN_WHERE /*optional*/ };
enum { DROP_BWD_OUT_DX };
typedef struct DropAttr {
    uint64_t seed;
    uint32_t layer; /* tells the draws of one network's layers apart; below 2^24 */
    float rate;     /* of what is dropped; 0 <= rate < 1 */
    bool per_image; /* one draw for all of an image (stochastic depth), else one per element */
} DropAttr;
#endif
