/* op.h - the operations Convoy knows: their names, slots, attributes and shapes. Host-only; no
 * backend is named here.
 *
 * The set is small because each op is a unit of memory traffic. A forward op and its gradients are
 * separate kinds, so a training step is one list of nodes and a backend is one table of functions.
 * Slots (which input is which) are the enums below: slot numbers are fixed, an absent optional slot
 * is TENSOR_NONE in a graph and data == NULL in an OpInstance.
 *
 * To add an op: a kind here, an attribute struct, a row in ops/x.c, cpu/x.c, ref/x.c (cuda/x.c), a
 * gradient rule in models/graph/grad.c, a case generator in tests/check.
 * tests/unit/test_op_tables.c names every empty slot. */
#ifndef CONVOY_KERNELS_OP_H
#define CONVOY_KERNELS_OP_H
#include "base/both.h"
#include "base/status.h"
#include "kernels/tensor.h"

#define OP_MAX_INPUTS         8
#define OP_MAX_OUTPUTS        4
#define OP_MAX_IMAGE_CHANNELS 16

typedef enum OpKind {
    /* uint8 N,H,W,C -> f32 N,C,H,W: (v/255 - mean[c]) / std[c], each step in float32 as torchvision
     * does; then erased, then mixed. With two views the mirrored images follow behind the others:
     * 2N,C,H,W. */
    OP_INPUT,
    OP_CONV2D, /* cross-correlation, no bias */
    OP_CONV2D_BWD_DATA,
    OP_CONV2D_BWD_WEIGHTS,
    OP_BATCHNORM, /* y = act(bn(x) + residual) */
    OP_BATCHNORM_BWD,
    /* Made by models/graph/fuse.c alone, for backends that take fusions: batch norm of a training
     * step in parts, some of them inside the convolutions beside it (OpDef.fused). */
    OP_CONV2D_STATS, /* convolution, with the sums that the batch norm behind it needs */
    /* the gradient of x, where x = relu(bn(...)), carried on through the relu */
    OP_CONV2D_BWD_DATA_NORM,
    OP_CONV2D_BWD_WEIGHTS_NORM, /* the gradient of w, where x is yet to be normalised */
    OP_BN_FINALIZE,             /* sums to statistics */
    OP_BN_APPLY,                /* y = act(bn(x) + residual) with given statistics */
    OP_BN_BWD_APPLY,            /* dx = a dz + b x + c */
    /* Likewise, of an evaluation: y = act(bn(convolution) + residual) with running statistics */
    OP_CONV2D_BN,
    OP_ACTIVATION,
    OP_ACTIVATION_BWD,
    OP_ADD,
    OP_POOL2D,
    OP_POOL2D_BWD,
    OP_GLOBAL_AVGPOOL, /* N,C,H,W -> N,C */
    OP_GLOBAL_AVGPOOL_BWD,
    /* He et al. 2015 4.1 option A: y[n,c,p,q] = x[n,c,p*stride,q*stride], zero for the added
     * channels at the end */
    OP_SUBSAMPLE,
    OP_SUBSAMPLE_BWD,
    OP_LINEAR, /* y = x w^T + b; x of rank 4 (plain layout) is flattened to N, C*H*W */
    OP_LINEAR_BWD_DATA,
    OP_LINEAR_BWD_WEIGHTS,
    OP_SOFTMAX_XENT, /* loss, accuracy counts and the gradient of the logits in one pass */
    /* optimizer step over flat ranges; not a graph node: trainer/train/optimizer.c drives one
     * instance per bucket */
    OP_UPDATE,
    OP_SCALE, /* y = x * factor, flat, in place allowed */
    /* dynamic loss scale (Micikevicius et al. 2018), state in the device's memory; not graph nodes:
     * trainer/train/optimizer.c */
    OP_FINITE_CHECK, /* sets LOSS_SCALE_FOUND_INF if any element of x is infinite or NaN */
    /* after the update: halves the scale if FOUND_INF, doubles it after a number of good steps */
    OP_LOSS_SCALE,
    /* norm of all gradients (torch.nn.utils.clip_grad_norm_), kept on the device; not graph nodes:
     * trainer/train/optimizer.c */
    /* sums of squares, one for each GRAD_SQUARES_CHUNK elements of a flat tensor */
    OP_GRAD_SQUARES,
    /* the root of all of them, and the factor by which the update shrinks what is too long */
    OP_GRAD_NORM,
    /* y[n,c,h,w] = x[n,c,h,w] sigmoid(g[n,c]): the excitation of squeeze-and-excitation (Hu et al.
     * 2018) */
    OP_GATE,
    OP_GATE_BWD,
    /* y = x keep / (1 - rate) + residual, keep drawn anew in each step: dropout, or stochastic
     * depth by rows */
    OP_DROP,
    OP_DROP_BWD,
    OP_COUNT
} OpKind;

/* silu: z sigmoid(z). With a batch norm it takes no residual: backward recomputes z from x
 * alone. */
typedef enum ActKind { ACT_NONE, ACT_RELU, ACT_SILU, ACT_COUNT } ActKind;
/* frozen: running statistics, gamma and beta still train */
typedef enum BatchNormMode { BN_TRAIN, BN_EVAL, BN_FROZEN, BN_MODE_COUNT } BatchNormMode;
/* avg: padding counts in the divisor, as torch's default */
typedef enum PoolKind { POOL_MAX, POOL_AVG, POOL_KIND_COUNT } PoolKind;
typedef enum UpdateKind { UPDATE_SGD, UPDATE_ADAM, UPDATE_ADAMW, UPDATE_KIND_COUNT } UpdateKind;

/* ---- slots ---- */
/* erase i32 [N,ERASE_COUNT]: a box of each image that becomes zero. mix f32 [MIX_COUNT]: see the
 * MIX_ enum. Neither with two views. */
enum { INPUT_IN_IMAGES, INPUT_IN_ERASE /*optional*/, INPUT_IN_MIX /*optional*/ };
enum { INPUT_OUT_X };
enum { CONV_IN_X, CONV_IN_W };
enum { CONV_OUT_Y };
enum { CONV_BWD_DATA_IN_DY, CONV_BWD_DATA_IN_W };
enum { CONV_BWD_DATA_OUT_DX };
enum { CONV_BWD_WEIGHTS_IN_X, CONV_BWD_WEIGHTS_IN_DY };
enum { CONV_BWD_WEIGHTS_OUT_DW };
/* running statistics are inputs updated in place in BN_TRAIN: r = (1-momentum) r + momentum stat,
 * variance unbiased (n/(n-1)), as torch. saved is [2,C]: the mean and 1/sqrt(var+eps) that were
 * applied, whatever the mode. */
enum {
    BN_IN_X,
    BN_IN_GAMMA,
    BN_IN_BETA,
    BN_IN_RUNNING_MEAN,
    BN_IN_RUNNING_VAR,
    BN_IN_RESIDUAL /*optional*/
};
enum { BN_OUT_Y, BN_OUT_SAVED };
/* dz = (dy + dy2) * act'(y); dresidual = dz; dx, dgamma, dbeta of bn at dz. y is needed only with
 * an activation and a residual; without a residual the sign is recomputed from x exactly as forward
 * computed it. dx may lie over dy, dresidual over dy2. */
enum {
    BN_BWD_IN_DY,
    BN_BWD_IN_DY2 /*optional*/,
    BN_BWD_IN_X,
    BN_BWD_IN_Y /*optional*/,
    BN_BWD_IN_GAMMA,
    BN_BWD_IN_BETA,
    BN_BWD_IN_SAVED
};
enum { BN_BWD_OUT_DX, BN_BWD_OUT_DGAMMA, BN_BWD_OUT_DBETA, BN_BWD_OUT_DRESIDUAL /*optional*/ };
/* What is convolved is z: x, or with an affine (BN_FINALIZE_OUT_AFFINE of the batch norm whose
 * input x is) relu(scale x + shift), or with a residual relu(scale x + shift + residual), where the
 * residual itself may be yet to be scaled and shifted. Padding of the image is zeros of z. z is an
 * output where there is a residual. sums [2,K]: of y and of its square, over all but the
 * channels. */
enum {
    CONV_STATS_IN_X,
    CONV_STATS_IN_W,
    CONV_STATS_IN_AFFINE /*optional*/,
    CONV_STATS_IN_RESIDUAL /*optional*/,
    CONV_STATS_IN_RESIDUAL_AFFINE /*optional*/
};
enum { CONV_STATS_OUT_Y, CONV_STATS_OUT_SUMS, CONV_STATS_OUT_Z /*optional*/ };
/* g = the gradient of the convolution's input; dz = g where bn(x) > 0, else 0; dgamma, dbeta of bn
 * at dz. coefficients [3,C]: a, b, c of OP_BN_BWD_APPLY. */
enum {
    CONV_BWD_DATA_NORM_IN_DY,
    CONV_BWD_DATA_NORM_IN_W,
    CONV_BWD_DATA_NORM_IN_X,
    CONV_BWD_DATA_NORM_IN_GAMMA,
    CONV_BWD_DATA_NORM_IN_BETA,
    CONV_BWD_DATA_NORM_IN_SAVED
};
enum {
    CONV_BWD_DATA_NORM_OUT_DZ,
    CONV_BWD_DATA_NORM_OUT_DGAMMA,
    CONV_BWD_DATA_NORM_OUT_DBETA,
    CONV_BWD_DATA_NORM_OUT_COEFFICIENTS
};
/* of relu(scale x + shift), as forward convolved it */
enum { CONV_BWD_WEIGHTS_NORM_IN_X, CONV_BWD_WEIGHTS_NORM_IN_DY, CONV_BWD_WEIGHTS_NORM_IN_AFFINE };
enum { CONV_BWD_WEIGHTS_NORM_OUT_DW };
/* Running statistics as in OP_BATCHNORM. affine [2,C]: scale = gamma inv_std and shift = beta -
 * mean scale. */
enum {
    BN_FINALIZE_IN_SUMS,
    BN_FINALIZE_IN_GAMMA,
    BN_FINALIZE_IN_BETA,
    BN_FINALIZE_IN_RUNNING_MEAN,
    BN_FINALIZE_IN_RUNNING_VAR
};
enum { BN_FINALIZE_OUT_SAVED, BN_FINALIZE_OUT_AFFINE /*optional*/ };
enum {
    BN_APPLY_IN_X,
    BN_APPLY_IN_GAMMA,
    BN_APPLY_IN_BETA,
    BN_APPLY_IN_SAVED,
    BN_APPLY_IN_RESIDUAL /*optional*/
};
enum { BN_APPLY_OUT_Y };
enum { BN_BWD_APPLY_IN_DZ, BN_BWD_APPLY_IN_X, BN_BWD_APPLY_IN_COEFFICIENTS };
enum { BN_BWD_APPLY_OUT_DX };
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
enum { ACTIVATION_IN_X };
enum { ACTIVATION_OUT_Y };
enum {
    ACTIVATION_BWD_IN_DY,
    ACTIVATION_BWD_IN_Y /*silu: x, since y does not tell the derivative*/
};
enum { ACTIVATION_BWD_OUT_DX };
enum { ADD_IN_A, ADD_IN_B };
enum { ADD_OUT_Y };
/* Max pooling: of equal maxima the first in window order (row by row) is the one INDEX names; a NaN
 * is above all numbers and the first NaN wins. */
enum { POOL_IN_X };
enum { POOL_OUT_Y, POOL_OUT_INDEX /*optional; u8, window position of the max*/ };
enum { POOL_BWD_IN_DY, POOL_BWD_IN_INDEX /*max only*/ };
enum { POOL_BWD_OUT_DX };
enum { GLOBAL_AVGPOOL_IN_X };
enum { GLOBAL_AVGPOOL_OUT_Y };
enum { GLOBAL_AVGPOOL_BWD_IN_DY };
enum { GLOBAL_AVGPOOL_BWD_OUT_DX };
enum { SUBSAMPLE_IN_X };
enum { SUBSAMPLE_OUT_Y };
enum { SUBSAMPLE_BWD_IN_DY };
enum { SUBSAMPLE_BWD_OUT_DX };
enum { LINEAR_IN_X, LINEAR_IN_W, LINEAR_IN_B /*optional*/ };
enum { LINEAR_OUT_Y };
enum { LINEAR_BWD_DATA_IN_DY, LINEAR_BWD_DATA_IN_W };
enum { LINEAR_BWD_DATA_OUT_DX };
enum { LINEAR_BWD_WEIGHTS_IN_X, LINEAR_BWD_WEIGHTS_IN_DY };
enum { LINEAR_BWD_WEIGHTS_OUT_DW, LINEAR_BWD_WEIGHTS_OUT_DB /*optional*/ };
/* With mix the target is lambda of the image's own label and the rest of its neighbour's, and the
 * larger share's label is the one that counts (a neighbour without label: the image's own is all of
 * it). With two views rows n and n + N are of one image, whose logits are their mean; labels i32
 * [N], no dlogits.
 * labels i32 [N]; -1 = padding, counts nowhere. dlogits = scalars[SCALAR_GRAD_SCALE] * d(sum of
 * losses); may lie over logits. stats f64 [4] is overwritten: see the STATS_ enum. Ties count
 * against the image: it is in the top k if fewer than k other logits are >= the label's. */
enum {
    XENT_IN_LOGITS,
    XENT_IN_LABELS,
    XENT_IN_SCALARS,
    XENT_IN_LOSS_SCALE /*optional: dlogits times its scale*/,
    XENT_IN_MIX /*optional*/
};
enum { XENT_OUT_STATS, XENT_OUT_DLOGITS /*optional*/ };
/* all flat f32; param and states are updated in place. With a loss scale the gradient is divided by
 * it, and nothing at all is updated where FOUND_INF is set. */
enum {
    UPDATE_IN_PARAM,
    UPDATE_IN_GRAD,
    UPDATE_IN_STATE0 /*momentum | first moment*/,
    UPDATE_IN_STATE1 /*second moment*/,
    UPDATE_IN_SCALARS,
    UPDATE_IN_LOSS_SCALE /*optional*/,
    UPDATE_IN_CLIP /*optional: what OP_GRAD_NORM left; the gradient is multiplied by its factor*/
};
enum { SCALE_IN_X };
enum { SCALE_OUT_Y };
enum { FINITE_CHECK_IN_X, FINITE_CHECK_IN_LOSS_SCALE /*updated in place*/ };
enum { LOSS_SCALE_IN_STATE /*updated in place*/ };
/* sums f64: [ceil(elements / GRAD_SQUARES_CHUNK)] of a tensor, those of several tensors end to end.
 * clip f32 [CLIP_COUNT]. The norm is that of the gradients divided by the loss scale. */
enum { GRAD_SQUARES_IN_X };
enum { GRAD_SQUARES_OUT_SUMS };
enum { GRAD_NORM_IN_SUMS, GRAD_NORM_IN_LOSS_SCALE /*optional*/ };
enum { GRAD_NORM_OUT_CLIP };

enum { GATE_IN_X, GATE_IN_G };
enum { GATE_OUT_Y };
enum { GATE_BWD_IN_DY, GATE_BWD_IN_X, GATE_BWD_IN_G };
enum { GATE_BWD_OUT_DX, GATE_BWD_OUT_DG };
enum { DROP_IN_X, DROP_IN_SCALARS, DROP_IN_RESIDUAL /*optional*/ };
enum { DROP_OUT_Y };
enum { DROP_BWD_IN_DY, DROP_BWD_IN_SCALARS };
enum { DROP_BWD_OUT_DX };

enum { STATS_LOSS_SUM, STATS_TOP1, STATS_TOP5, STATS_IMAGES, STATS_COUNT };
/* Step scalars: one f32 tensor [SCALAR_COUNT], written before a step runs, read by ops while it
 * runs; so a captured step can be replayed. */
enum {
    SCALAR_LR,
    SCALAR_GRAD_SCALE /*1 / images in the global batch*/,
    SCALAR_BIAS_CORRECTION1 /*1 - beta1^t*/,
    SCALAR_BIAS_CORRECTION2,
    /* where OP_DROP's draws are addressed, in halves of 16 bits, which a float holds exactly: the
     * step, and the place of the micro-batch's first image in the global batch */
    SCALAR_STEP_LOW,
    SCALAR_STEP_HIGH,
    SCALAR_PLACE_LOW,
    SCALAR_PLACE_HIGH,
    SCALAR_COUNT
};

/* An image's box that becomes zero once normalised; height 0: none. Inside the image. */
enum { ERASE_TOP, ERASE_LEFT, ERASE_HEIGHT, ERASE_WIDTH, ERASE_COUNT };
/* How the images of a batch are mixed, image n with its neighbour op_mix_neighbour(n): x = lambda x
 * + rest x', each product rounded to f32 and so their sum (MIX_BOX 0), or x' from top and left up
 * to before bottom and right (MIX_BOX 1). Counts are exact. */
enum {
    MIX_LAMBDA,
    MIX_REST, /* 1 - lambda */
    MIX_BOX,
    MIX_TOP,
    MIX_LEFT,
    MIX_BOTTOM,
    MIX_RIGHT,
    MIX_COUNT
};

/* State of the dynamic loss scale: f32 [LOSS_SCALE_COUNT]; counts are exact. */
enum {
    LOSS_SCALE_SCALE,
    LOSS_SCALE_GOOD_STEPS, /* since the last change */
    LOSS_SCALE_FOUND_INF,  /* 1: this step's gradients are not finite */
    LOSS_SCALE_SKIPPED,    /* steps skipped so far */
    LOSS_SCALE_COUNT
};

/* min(1, max_norm / (norm + 1e-6)), not a number where the norm is none */
enum { CLIP_NORM, CLIP_FACTOR, CLIP_COUNT };
enum { GRAD_SQUARES_CHUNK = 8192 };

/* ---- attributes: one named struct per family; forward and backward kinds share it ---- */
typedef struct InputAttr {
    float mean[OP_MAX_IMAGE_CHANNELS], std[OP_MAX_IMAGE_CHANNELS];
    int views; /* 2: mirrored too; 0 and 1: one */
} InputAttr;
typedef struct Conv2dAttr {
    int stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right, groups;
} Conv2dAttr;
typedef struct BatchNormAttr {
    float eps, momentum;
    BatchNormMode mode;
    ActKind act;
} BatchNormAttr;
typedef struct BnFinalizeAttr {
    float eps, momentum;
    int64_t count; /* values of a channel behind its sums */
} BnFinalizeAttr;
typedef struct Conv2dBnAttr {
    Conv2dAttr conv;
    float eps;
    ActKind act; /* silu with a residual too: nothing here has a gradient */
} Conv2dBnAttr;
typedef struct ActivationAttr {
    ActKind act;
} ActivationAttr;
typedef struct Pool2dAttr {
    PoolKind kind;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
} Pool2dAttr;
typedef struct SubsampleAttr {
    int stride;
    int64_t out_channels;
} SubsampleAttr;
typedef struct XentAttr {
    float label_smoothing; /* target = (1-s) one_hot + s/classes, as torch */
    int views;             /* 2: rows n and n + N are of one image; 0 and 1: one */
} XentAttr;
typedef struct ScaleAttr {
    float factor;
} ScaleAttr;
/* See kernels/drop.h for the draw. per_image: one draw for all of an image (stochastic depth), else
 * one per element (dropout). */
typedef struct DropAttr {
    uint64_t seed;
    uint32_t layer; /* tells the draws of one network's layers apart; below 2^24 */
    float rate;     /* of what is dropped; 0 <= rate < 1 */
    bool per_image;
} DropAttr;
/* torch.amp.GradScaler's rule: FOUND_INF: scale *= backoff, good = 0, skipped += 1; else good += 1,
 * and at interval scale = min(scale * growth, max), good = 0. FOUND_INF is cleared. */
typedef struct LossScaleAttr {
    float growth, backoff, max;
    int interval;
} LossScaleAttr;
typedef struct GradNormAttr {
    float max_norm; /* 0: the factor is 1 */
} GradNormAttr;
/* elements of the flat tensors; sorted, disjoint */
typedef struct UpdateSegment {
    int64_t first, count;
    float weight_decay;
} UpdateSegment;
/* SGD as torch.optim.SGD (d = g + wd p; m = momentum m + d, from m = 0; p -= lr (nesterov ? d +
 * momentum m : m)); Adam as torch.optim.Adam (wd into the gradient); AdamW decoupled as
 * torch.optim.AdamW. segments is borrowed for the life of the instance. */
typedef struct UpdateAttr {
    UpdateKind kind;
    float momentum, eps;
    /* 1 - beta is formed in double, as torch does: in float 1 - 0.999 is off by 1.3e-5 */
    double beta1, beta2;
    bool nesterov;
    int segment_count;
    const UpdateSegment *segments;
} UpdateAttr;

/* Ops made by models/graph/fuse.c alone: only backends that take fusions of that kind have them. */
typedef enum FusedFor { FUSED_NOT, FUSED_TRAINING, FUSED_EVALUATION, FUSED_COUNT } FusedFor;

/* One row per op. in_names/out_names end the row's documentation: "?" at the end marks an optional
 * slot. */
typedef struct OpDef {
    OpKind kind;
    const char *name;
    FusedFor fused;
    size_t attr_bytes; /* 0: no attribute struct */
    int inputs, outputs;
    const char *in_names[OP_MAX_INPUTS], *out_names[OP_MAX_OUTPUTS];
    /* For each output the input over which it may lie if that input dies here; -1: none. */
    int in_place_of[OP_MAX_OUTPUTS];
    /* Checks inputs (dtype, rank, dims) and fills out[i] for every output whose rank is 0; where
     * the caller preset out[i] (gradients know their shape from the forward tensor) it is checked
     * instead. absent optional slots have in[i] == NULL; out[i].rank == 0 stays 0 for outputs that
     * the graph did not ask for (wanted[i] false). Errors: ERR_INTERNAL naming op and dims. */
    Status (*infer)(const void *attr, const TensorDesc *const *in, const bool *wanted,
                    TensorDesc *out);
    /* multiply and add count 2; NULL = 0 */
    double (*flops)(const void *attr, const TensorDesc *const *in, const TensorDesc *out);
    /* "3x3/2 pad 1"; NULL = nothing to say */
    void (*print)(const void *attr, char *out, size_t bytes);
} OpDef;

CUDA_BOTH static inline int64_t op_mix_neighbour(int64_t n, int64_t images)
{
    return n > 0 ? n - 1 : images - 1;
}

const OpDef *op_def(OpKind kind);
const char *op_name(OpKind kind);

/* ---- fusions: ops that a backend may run in place of others ---- */

/* One op by its attributes and shapes alone. rank 0: absent. */
typedef struct OpShape {
    OpKind kind;
    const void *attr;
    TensorDesc in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
} OpShape;

#define FUSION_MAX_OPS 3
typedef struct Fusion {
    const char *name; /* "statistics" */
    int before_count, after_count;
    OpShape before[FUSION_MAX_OPS], after[FUSION_MAX_OPS];
} Fusion;
#endif
