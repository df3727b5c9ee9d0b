/* update.c - one optimizer step over flat tensors, segment by segment; elements outside every
 * segment stay as they are. Before it, where the kind has them, the segments' trust ratios.
 *
 * The rules are those of torch.optim and timm.optim (see OP_UPDATE in op_update.h). SGD without a
 * momentum tensor is plain gradient descent, which is what momentum 0 means, and so is LARS; Adam,
 * AdamW, LAMB and RMSProp-TF need both states. With a loss scale, g is the gradient divided by it,
 * and a step whose gradients are not all finite is none; with clipping it is multiplied by the
 * factor. */
#include "kernels/ops/update.h"
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Element {
    double *p, *state0, *state1;
    double g, r; /* gradient, trust ratio */
    double raw;  /* the gradient as it lies */
} Element;

static double lr_of(const double *scalars, const UpdateSegment *s)
{
    return scalars[SCALAR_LR] * (double)s->lr;
}

static double decayed(const UpdateSegment *s, Element e)
{
    return e.g + (double)s->weight_decay * *e.p;
}

/* The momentum takes d up. */
static double momentum_step(const UpdateAttr *a, Element e, double d)
{
    double momentum = (double)a->momentum;
    if (!e.state0) return d;
    *e.state0 = momentum * *e.state0 + d;
    return a->nesterov ? d + momentum * *e.state0 : *e.state0;
}

static void step_sgd(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    *e.p -= lr_of(scalars, s) * momentum_step(a, e, decayed(s, e));
}

static void step_lars(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    *e.p -= lr_of(scalars, s) * momentum_step(a, e, e.r * decayed(s, e));
}

static void step_lars_mlperf(const UpdateAttr *a, const double *scalars, const UpdateSegment *s,
                             Element e)
{
    *e.p -= momentum_step(a, e, lr_of(scalars, s) * e.r * decayed(s, e));
}

/* m^ / (sqrt(v^) + eps), with g taken up into both moments; NAdamW looks one step ahead. */
static double moments_step(const UpdateAttr *a, const double *scalars, double g, Element e)
{
    double b1 = a->beta1, b2 = a->beta2;
    *e.state0 = b1 * *e.state0 + (1 - b1) * g;
    *e.state1 = b2 * *e.state1 + (1 - b2) * g * g;
    double denominator = sqrt(*e.state1 / scalars[SCALAR_BIAS_CORRECTION2]) + (double)a->eps;
    const bool ahead = a->nesterov && update_traits(a->kind)->nesterov;
    const double m = ahead ? b1 * *e.state0 + (1 - b1) * g : *e.state0;
    return m / scalars[SCALAR_BIAS_CORRECTION1] / denominator;
}

static void step_adam(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    *e.p -= lr_of(scalars, s) * moments_step(a, scalars, decayed(s, e), e);
}

static void step_adamw(const UpdateAttr *a, const double *scalars, const UpdateSegment *s,
                       Element e)
{
    *e.p -= lr_of(scalars, s) * (double)s->weight_decay * *e.p;
    *e.p -= lr_of(scalars, s) * moments_step(a, scalars, e.g, e);
}

static double lamb_direction(const UpdateAttr *a, const double *scalars, const UpdateSegment *s,
                             Element e)
{
    return moments_step(a, scalars, e.g, e) + (double)s->weight_decay * *e.p;
}

static void step_lamb(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    *e.p -= lr_of(scalars, s) * e.r * lamb_direction(a, scalars, s, e);
}

static void step_rmsprop_tf(const UpdateAttr *a, const double *scalars, const UpdateSegment *s,
                            Element e)
{
    double d = decayed(s, e);
    *e.state1 += (1 - a->beta2) * (d * d - *e.state1);
    *e.state0 =
        (double)a->momentum * *e.state0 + lr_of(scalars, s) * d / sqrt(*e.state1 + (double)a->eps);
    *e.p -= *e.state0;
}

static void step_lion(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    double lr = lr_of(scalars, s), u = a->beta1 * *e.state0 + (1 - a->beta1) * e.g;
    *e.p -= lr * (double)s->weight_decay * *e.p;
    *e.p -= lr * (u > 0 ? 1 : u < 0 ? -1 : u);
    *e.state0 = a->beta2 * *e.state0 + (1 - a->beta2) * e.g;
}

static void step_muon(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    const double lr = lr_of(scalars, s);
    *e.p -= lr * (double)s->weight_decay * *e.p;
    *e.p -= lr * (s->adapts ? e.raw : moments_step(a, scalars, e.g, e));
}

static void (*const steps[UPDATE_KIND_COUNT])(const UpdateAttr *, const double *,
                                              const UpdateSegment *, Element) = {
    [UPDATE_SGD] = step_sgd,
    [UPDATE_ADAM] = step_adam,
    [UPDATE_ADAMW] = step_adamw,
    [UPDATE_LARS] = step_lars,
    [UPDATE_LARS_MLPERF] = step_lars_mlperf,
    [UPDATE_LAMB] = step_lamb,
    [UPDATE_RMSPROP_TF] = step_rmsprop_tf,
    [UPDATE_LION] = step_lion,
    [UPDATE_MUON] = step_muon,
};

static double *state_of(const OpInstance *op, int slot)
{
    return op->in[slot].desc.rank ? (double *)op->in[slot].data : NULL;
}

static Element element_of(const OpInstance *op, int64_t i)
{
    const double *loss_scale = state_of(op, UPDATE_IN_LOSS_SCALE),
                 *clip = state_of(op, UPDATE_IN_CLIP);
    double *state0 = state_of(op, UPDATE_IN_STATE0), *state1 = state_of(op, UPDATE_IN_STATE1);
    double g = ref_in(op, UPDATE_IN_GRAD)[i];
    if (loss_scale) g /= loss_scale[LOSS_SCALE_SCALE];
    if (clip) g *= clip[CLIP_FACTOR];
    return (Element){ (double *)op->in[UPDATE_IN_PARAM].data + i,
                      state0 ? &state0[i] : NULL,
                      state1 ? &state1[i] : NULL,
                      g,
                      1,
                      ref_in(op, UPDATE_IN_GRAD)[i] };
}

static void run_update(OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    const double *loss_scale = state_of(op, UPDATE_IN_LOSS_SCALE),
                 *ratios = state_of(op, UPDATE_IN_RATIO);
    if (loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0) return;
    for (int k = 0; k < attr->segment_count; k++) {
        const UpdateSegment *s = &attr->segments[k];
        for (int64_t i = s->first; i < s->first + s->count; i++) {
            Element e = element_of(op, i);
            if (ratios) e.r = ratios[k];
            steps[attr->kind](attr, ref_in(op, UPDATE_IN_SCALARS), s, e);
        }
    }
}

/* What the parameter is held against; the states stay as they are. */
static double other_of(const OpInstance *op, const UpdateSegment *s, Element e)
{
    const UpdateAttr *a = op->attr;
    if (update_traits(a->kind)->trust == TRUST_BY_GRADIENT) return e.g;
    double m = *e.state0, v = *e.state1;
    e.state0 = &m;
    e.state1 = &v;
    return lamb_direction(a, ref_in(op, UPDATE_IN_SCALARS), s, e);
}

static double ratio_of(const UpdateAttr *a, const UpdateSegment *s, double lr, double param,
                       double other)
{
    const bool by_gradient = update_traits(a->kind)->trust == TRUST_BY_GRADIENT;
    double ratio = by_gradient ? a->trust_coefficient * param /
                                     (other + (double)s->weight_decay * param + (double)a->eps)
                               : param / other;
    if (!(param > 0 && other > 0)) ratio = 1;
    if (a->trust_clip) ratio = fmin(by_gradient ? ratio / lr : ratio, 1);
    return ratio;
}

static void run_ratio(OpInstance *op)
{
    const UpdateAttr *a = op->attr;
    double *sums = ref_out(op, TRUST_RATIO_OUT_SUMS);
    for (int k = 0; k < a->segment_count; k++) {
        const UpdateSegment *s = &a->segments[k];
        double all[TRUST_SUM_COUNT] = { 0 };
        for (int64_t i = 0; s->adapts && i < s->count; i++) {
            Element e = element_of(op, s->first + i);
            const double of[TRUST_SUM_COUNT] = { *e.p, other_of(op, s, e) };
            double *sum = sums + i / TRUST_CHUNK * TRUST_SUM_COUNT;
            for (int j = 0; j < TRUST_SUM_COUNT; j++) {
                sum[j] = of[j] * of[j] + (i % TRUST_CHUNK == 0 ? 0 : sum[j]);
                all[j] += of[j] * of[j];
            }
        }
        ref_out(op, TRUST_RATIO_OUT_RATIOS)[k] =
            s->adapts ? ratio_of(a, s, lr_of(ref_in(op, UPDATE_IN_SCALARS), s),
                                 sqrt(all[TRUST_SUM_PARAM]), sqrt(all[TRUST_SUM_OTHER]))
                      : 1;
        sums += update_trust_chunks(s) * TRUST_SUM_COUNT;
    }
}

REF_LOOPS(ref_update, run_update);
REF_LOOPS(ref_trust_ratio, run_ratio);
