/* op_update.h - what follows backward: loss scale, norm of the gradients, the optimizer step. None
 * of them is a graph node: trainer/engine/rules/optimizer.c drives them. */
#ifndef CONVOY_KERNELS_OP_UPDATE_H
#define CONVOY_KERNELS_OP_UPDATE_H
#include "kernels/tensor.h"

/* OP_FINITE_CHECK: sets LOSS_SCALE_FOUND_INF if any element of x is infinite or NaN. */
enum { FINITE_CHECK_IN_X, FINITE_CHECK_IN_LOSS_SCALE /*updated in place*/ };

/* OP_LOSS_SCALE: dynamic loss scale (Micikevicius et al. 2018), after the update, by
 * torch.amp.GradScaler's rule: where LOSS_SCALE_FOUND_INF is set, scale *= backoff, good = 0,
 * skipped += 1; else good += 1, and at interval scale = min(scale * growth, max), good = 0. Then it
 * is cleared. The state lies in the device's memory: f32 [LOSS_SCALE_COUNT]; counts are exact. */
enum { LOSS_SCALE_IN_STATE /*updated in place*/ };
enum {
    LOSS_SCALE_SCALE,
    LOSS_SCALE_GOOD_STEPS, /* since the last change */
    LOSS_SCALE_FOUND_INF,  /* 1: this step's gradients are not finite */
    LOSS_SCALE_SKIPPED,    /* steps skipped so far */
    LOSS_SCALE_COUNT
};
typedef struct LossScaleAttr {
    float growth, backoff, max;
    int interval;
} LossScaleAttr;

/* OP_GRAD_SQUARES: sums of squares, one for each GRAD_SQUARES_CHUNK elements of a flat tensor. sums
 * f64: [ceil(elements / GRAD_SQUARES_CHUNK)] of a tensor, those of several tensors end to end. */
enum { GRAD_SQUARES_CHUNK = 8192 };
enum { GRAD_SQUARES_IN_X };
enum { GRAD_SQUARES_OUT_SUMS };

/* OP_GRAD_NORM: norm of all gradients (torch.nn.utils.clip_grad_norm_), kept on the device: the
 * root of all sums, and the factor by which the update shrinks what is too long. The norm is that
 * of the gradients divided by the loss scale. clip f32 [CLIP_COUNT]; the factor is min(1, max_norm
 * / (norm + eps)), not a number where the norm is none. eps: 1e-6 for clip_grad_norm_, 0 for timm's
 * Lamb, which divides by max(1, norm / max_norm). With a length it is length / (norm + 1e-12)
 * instead: what makes of the gradient a step so long (Foret et al. 2021). */
enum { GRAD_NORM_IN_SUMS, GRAD_NORM_IN_LOSS_SCALE /*optional*/ };
enum { GRAD_NORM_OUT_CLIP };
enum { CLIP_NORM, CLIP_FACTOR, CLIP_COUNT };
typedef struct GradNormAttr {
    float max_norm; /* 0: the factor is 1 */
    double eps;
    float length; /* 0: none, it clips */
} GradNormAttr;

/* OP_UPDATE: optimizer step over flat ranges, one instance per bucket. All flat f32; param and
 * states are updated in place. With a loss scale the gradient is divided by it, and nothing at all
 * is updated where LOSS_SCALE_FOUND_INF is set. SGD as torch.optim.SGD (d = g + wd p; m = momentum
 * m + d, from m = 0; p -= lr (nesterov ? d + momentum m : m)); Adam as torch.optim.Adam (wd into
 * the gradient); AdamW decoupled as torch.optim.AdamW.
 *
 * With r the segment's trust ratio (1 without one): LARS as timm's Lars, SGD on d = r (g + wd p);
 * LARS_MLPERF as MLPerf's reference, with the learning rate inside the momentum: d = lr r (g + wd
 * p), m = momentum m + d, p -= (nesterov ? d + momentum m : m). LAMB as timm's Lamb: moments as
 * Adam's, u = m^ / (sqrt(v^) + eps) + wd p, p -= lr r u. RMSPROP_TF as timm's RMSpropTF: d = g + wd
 * p; s += (1 - beta2) (d^2 - s), from s = 1; m = momentum m + lr d / sqrt(s + eps); p -= m.
 *
 * LION as timm's Lion: p *= 1 - lr wd; p -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 -
 * beta2) g. sign(0) is 0, so padding stays 0; sign(NaN) is NaN, so that the run notices a bad
 * gradient.
 *
 * MUON as timm's Muon: where OP_MUON has put a direction in the gradient's place, p = (1 - lr wd) p
 * - lr g; elsewhere AdamW, or with nesterov timm's NAdamW: in the place of m^ its next value, m^ +
 * (1 - beta1) (g - m) / (1 - beta1^t). */
typedef enum UpdateKind {
    UPDATE_SGD,
    UPDATE_ADAM,
    UPDATE_ADAMW,
    UPDATE_LARS,
    UPDATE_LARS_MLPERF,
    UPDATE_LAMB,
    UPDATE_RMSPROP_TF,
    UPDATE_LION,
    UPDATE_MUON,
    UPDATE_KIND_COUNT
} UpdateKind;
enum {
    UPDATE_IN_PARAM,
    UPDATE_IN_GRAD,
    UPDATE_IN_STATE0 /*momentum | first moment*/,
    UPDATE_IN_STATE1 /*second moment*/,
    UPDATE_IN_SCALARS,
    UPDATE_IN_LOSS_SCALE /*optional*/,
    UPDATE_IN_CLIP /*optional: what OP_GRAD_NORM left; the gradient is multiplied by its factor*/,
    UPDATE_IN_RATIO /*optional: what OP_TRUST_RATIO left, f32 [segment_count]*/
};
/* elements of the flat tensors; sorted, disjoint */
typedef struct UpdateSegment {
    int64_t first, count;
    float weight_decay;
    float lr;    /* factor of the learning rate */
    bool adapts; /* has a trust ratio other than 1, or a direction of OP_MUON, by kind */
} UpdateSegment;
typedef struct UpdateAttr {
    UpdateKind kind;
    float momentum, eps;
    /* 1 - beta is formed in double, as torch does: in float 1 - 0.999 is off by 1.3e-5 */
    double beta1, beta2;
    double trust_coefficient; /* of LARS */
    bool trust_clip, nesterov;
    int segment_count;
    const UpdateSegment *segments; /* borrowed for the life of the instance */
} UpdateAttr;

/* OP_TRUST_RATIO: one ratio for each segment, before the OP_UPDATE whose inputs and attributes it
 * has; nothing is updated. sums f64 [chunks, TRUST_SUM_COUNT]: of each TRUST_CHUNK elements of a
 * segment that adapts, counted from its first, the squares of p and of what it is held against: the
 * gradient (as OP_UPDATE takes it, before decay) for LARS, u for LAMB; the segments' end to end.
 * ratios f32 [segment_count]: with |.| the roots of a segment's sums, LARS trust_coefficient |p| /
 * (|g| + wd |p| + eps), with trust_clip min(that / lr, 1) as LARC; LAMB |p| / |u|, with trust_clip
 * at most 1. Where a norm is 0, before clipping, and where a segment does not adapt: 1. */
enum { TRUST_CHUNK = 8192 };
enum { TRUST_SUM_PARAM, TRUST_SUM_OTHER, TRUST_SUM_COUNT };
enum { TRUST_RATIO_OUT_SUMS, TRUST_RATIO_OUT_RATIOS };

/* OP_MUON: the direction in which Muon moves one tensor, before the OP_UPDATE that does. With g the
 * gradient as OP_UPDATE takes it, m += (1 - momentum) (g - m), u = m, or with nesterov m + (1 -
 * momentum) (g - m). u as a matrix X [K, C R S], divided by its Frobenius norm or by eps if that is
 * more, goes five times through X = a X + (b A + c A A) X with A = X X^T (timm's "quintic"
 * coefficients), which brings its singular values close to 1; of more rows than columns it is the
 * same with X^T for X. What comes out, times 0.2 sqrt(max(K, C R S)), takes the gradient's place.
 * All in f32. Where LOSS_SCALE_FOUND_INF is set the momentum stays and the direction is 0. */
enum {
    MUON_IN_GRAD /*updated in place*/,
    MUON_IN_MOMENTUM /*updated in place*/,
    MUON_IN_LOSS_SCALE /*optional*/,
    MUON_IN_CLIP /*optional, as of OP_UPDATE*/
};
typedef struct MuonAttr {
    double momentum;
    float eps;
    bool nesterov;
} MuonAttr;

/* OP_LERP: an averaged copy of weights moves towards them (trainer/engine/rules/averages.h). All
 * flat f32. average += w (x - average), w = scalars[weight], in torch.lerp's form, which is exact
 * at 0 and 1. Nothing is done where w is below 0 (the copy has no turn in this step), nor where
 * LOSS_SCALE_FOUND_INF is set, unless w is 0. LERP_MEET: x takes the result as well. LERP_SWAP: the
 * two change places, whatever the scalars say. */
enum {
    LERP_IN_AVERAGE /*updated in place*/,
    LERP_IN_X /*likewise, but for LERP_FOLLOW*/,
    LERP_IN_SCALARS,
    LERP_IN_LOSS_SCALE /*optional*/
};
typedef enum LerpMode { LERP_FOLLOW, LERP_MEET, LERP_SWAP, LERP_MODE_COUNT } LerpMode;
typedef struct LerpAttr {
    LerpMode mode;
    int weight; /* SCALAR_EMA or SCALAR_LOOKAHEAD */
} LerpAttr;
#endif
