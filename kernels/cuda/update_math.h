/* update_math.h - one element's optimizer step, with the rules of torch.optim and timm.optim in
 * float32; host and device compile it alike.
 *
 * Combinations that torch forms in double (1 - beta, lr / correction) are formed in double, once
 * per step. Gradients are multiplied by the inverse of the loss scale, as torch unscales, and by
 * the factor that clips them. */
#ifndef CONVOY_KERNELS_CUDA_UPDATE_MATH_H
#define CONVOY_KERNELS_CUDA_UPDATE_MATH_H
#include "kernels/cuda/update.h"
#include "kernels/float_math.h"
#include <math.h>

typedef struct UpdateRates { /* one step's numbers, rounded once */
    float unscale, momentum, beta2, one_minus_beta1, one_minus_beta2, eps, root_correction2;
    float step, decay, keep;                /* of a chunk; keep: 1 - lr decay, formed in double */
    float lr, correction1, ratio, lr_ratio; /* ratio: of trust, of the chunk's segment */
    bool adapts;                            /* likewise */
} UpdateRates;

CUDA_BOTH static inline UpdateRates update_rates(const UpdatePass *p, const UpdateChunk *chunk)
{
    UpdateRates r;
    bool corrects = p->counts_updates;
    const double lr = (double)p->scalars[SCALAR_LR] * (double)chunk->lr;
    r.unscale = p->loss_scale ? 1.0f / p->loss_scale[LOSS_SCALE_SCALE] : 1.0f;
    if (p->clip) r.unscale *= p->clip[CLIP_FACTOR];
    r.momentum = p->momentum;
    r.beta2 = (float)p->beta2;
    r.one_minus_beta1 = (float)(1.0 - p->beta1);
    r.one_minus_beta2 = (float)(1.0 - p->beta2);
    r.eps = p->eps;
    r.decay = chunk->weight_decay;
    r.adapts = chunk->adapts;
    r.keep = (float)(1.0 - lr * (double)chunk->weight_decay);
    r.step = (float)(corrects ? lr / (double)p->scalars[SCALAR_BIAS_CORRECTION1] : lr);
    r.correction1 = corrects ? p->scalars[SCALAR_BIAS_CORRECTION1] : 1.0f;
    r.ratio = p->ratios ? p->ratios[chunk->segment] : 1.0f;
    r.lr = (float)lr;
    r.lr_ratio = (float)(lr * (double)r.ratio);
    r.root_correction2 = corrects ? (float)sqrt((double)p->scalars[SCALAR_BIAS_CORRECTION2]) : 1.0f;
    return r;
}

/* Whether this step's gradients are not finite: then nothing is updated. */
CUDA_BOTH static inline bool update_is_skipped(const UpdatePass *p)
{
    return p->loss_scale && p->loss_scale[LOSS_SCALE_FOUND_INF] != 0.0f;
}

typedef struct UpdateElement {
    float p, g, state0, state1;
} UpdateElement;

/* momentum: there is a momentum tensor */
CUDA_BOTH static inline void update_sgd(UpdateElement *e, const UpdateRates *r, bool momentum,
                                        bool nesterov)
{
    float d = r->unscale * e->g + r->decay * e->p, step = d;
    if (momentum) {
        e->state0 = r->momentum * e->state0 + d;
        step = nesterov ? d + r->momentum * e->state0 : e->state0;
    }
    e->p -= r->step * step;
}

/* nesterov: NAdam's, one step ahead */
CUDA_BOTH static inline void update_moments(UpdateElement *e, const UpdateRates *r, float d,
                                            bool nesterov)
{
    e->state0 = e->state0 + r->one_minus_beta1 * (d - e->state0);
    e->state1 = r->beta2 * e->state1 + r->one_minus_beta2 * (d * d);
    const float m = nesterov ? e->state0 + r->one_minus_beta1 * (d - e->state0) : e->state0;
    e->p -= r->step * (m / (sqrtf(e->state1) / r->root_correction2 + r->eps));
}

CUDA_BOTH static inline void update_adam(UpdateElement *e, const UpdateRates *r)
{
    update_moments(e, r, r->unscale * e->g + r->decay * e->p, false);
}

CUDA_BOTH static inline void update_adamw(UpdateElement *e, const UpdateRates *r)
{
    e->p *= r->keep;
    update_moments(e, r, r->unscale * e->g, false);
}

/* lr_inside: the momentum, as in MLPerf's reference */
CUDA_BOTH static inline void update_lars(UpdateElement *e, const UpdateRates *r, bool momentum,
                                         bool nesterov, bool lr_inside)
{
    float d = (lr_inside ? r->lr_ratio : r->ratio) * (r->unscale * e->g + r->decay * e->p);
    float step = d;
    if (momentum) {
        e->state0 = r->momentum * e->state0 + d;
        step = nesterov ? d + r->momentum * e->state0 : e->state0;
    }
    e->p -= lr_inside ? step : r->step * step;
}

/* Moves the moments on. */
CUDA_BOTH static inline float update_lamb_direction(UpdateElement *e, const UpdateRates *r)
{
    float d = r->unscale * e->g;
    e->state0 = e->state0 + r->one_minus_beta1 * (d - e->state0);
    e->state1 = r->beta2 * e->state1 + r->one_minus_beta2 * (d * d);
    return (e->state0 / r->correction1) / (sqrtf(e->state1) / r->root_correction2 + r->eps) +
           r->decay * e->p;
}

CUDA_BOTH static inline void update_lamb(UpdateElement *e, const UpdateRates *r)
{
    float u = update_lamb_direction(e, r);
    e->p -= r->lr_ratio * u;
}

CUDA_BOTH static inline void update_rmsprop_tf(UpdateElement *e, const UpdateRates *r)
{
    float d = r->unscale * e->g + r->decay * e->p;
    e->state1 = e->state1 + r->one_minus_beta2 * (d * d - e->state1);
    e->state0 = r->momentum * e->state0 + r->step * d / sqrtf(e->state1 + r->eps);
    e->p -= e->state0;
}

CUDA_BOTH static inline void update_lion(UpdateElement *e, const UpdateRates *r)
{
    float d = r->unscale * e->g, u = e->state0 + r->one_minus_beta1 * (d - e->state0);
    e->p = e->p * r->keep - r->step * (u > 0 ? 1.0f : u < 0 ? -1.0f : u);
    e->state0 = e->state0 + r->one_minus_beta2 * (d - e->state0);
}

/* A direction of OP_MUON is ready to be taken; the rest is AdamW or NAdamW. */
CUDA_BOTH static inline void update_muon(UpdateElement *e, const UpdateRates *r, bool nesterov)
{
    e->p *= r->keep;
    if (r->adapts) e->p -= r->lr * e->g;
    else update_moments(e, r, r->unscale * e->g, nesterov);
}
#endif
