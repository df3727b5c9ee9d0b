/* update.c - one optimizer step over flat tensors, segment by segment; elements outside every
 * segment stay as they are.
 *
 * The rules are torch.optim's (see UpdateAttr in op.h). SGD without a momentum tensor is plain
 * gradient descent, which is what momentum 0 means; Adam and AdamW need both states. With a loss
 * scale, g is the gradient divided by it, and a step whose gradients are not all finite is none;
 * with clipping it is multiplied by the factor. */
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Element {
    double *p, *state0, *state1;
    double g;
} Element;

static double lr_of(const double *scalars, const UpdateSegment *s)
{
    return scalars[SCALAR_LR] * (double)s->lr;
}

static void step_sgd(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    double d = e.g + (double)s->weight_decay * *e.p, momentum = (double)a->momentum, step = d;
    if (e.state0) {
        *e.state0 = momentum * *e.state0 + d;
        step = a->nesterov ? d + momentum * *e.state0 : *e.state0;
    }
    *e.p -= lr_of(scalars, s) * step;
}

static void step_moments(const UpdateAttr *a, const double *scalars, double lr, double g, Element e)
{
    double b1 = a->beta1, b2 = a->beta2;
    *e.state0 = b1 * *e.state0 + (1 - b1) * g;
    *e.state1 = b2 * *e.state1 + (1 - b2) * g * g;
    double denominator = sqrt(*e.state1 / scalars[SCALAR_BIAS_CORRECTION2]) + (double)a->eps;
    *e.p -= lr * (*e.state0 / scalars[SCALAR_BIAS_CORRECTION1]) / denominator;
}

static void step_adam(const UpdateAttr *a, const double *scalars, const UpdateSegment *s, Element e)
{
    step_moments(a, scalars, lr_of(scalars, s), e.g + (double)s->weight_decay * *e.p, e);
}

static void step_adamw(const UpdateAttr *a, const double *scalars, const UpdateSegment *s,
                       Element e)
{
    *e.p -= lr_of(scalars, s) * (double)s->weight_decay * *e.p;
    step_moments(a, scalars, lr_of(scalars, s), e.g, e);
}

static void (*const steps[UPDATE_KIND_COUNT])(const UpdateAttr *, const double *,
                                              const UpdateSegment *, Element) = {
    [UPDATE_SGD] = step_sgd,
    [UPDATE_ADAM] = step_adam,
    [UPDATE_ADAMW] = step_adamw,
};

static double *state_of(const OpInstance *op, int slot)
{
    return op->in[slot].desc.rank ? (double *)op->in[slot].data : NULL;
}

static Status run(OpInstance *op, Stream *stream)
{
    (void)stream;
    const UpdateAttr *attr = op->attr;
    double *param = op->in[UPDATE_IN_PARAM].data, *state0 = state_of(op, UPDATE_IN_STATE0),
           *state1 = state_of(op, UPDATE_IN_STATE1);
    const double *grad = ref_in(op, UPDATE_IN_GRAD), *scalars = ref_in(op, UPDATE_IN_SCALARS);
    const double *loss_scale = state_of(op, UPDATE_IN_LOSS_SCALE),
                 *clip = state_of(op, UPDATE_IN_CLIP);
    if (loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0) return OK;
    for (int k = 0; k < attr->segment_count; k++) {
        const UpdateSegment *s = &attr->segments[k];
        for (int64_t i = s->first; i < s->first + s->count; i++) {
            double g = loss_scale ? grad[i] / loss_scale[LOSS_SCALE_SCALE] : grad[i];
            if (clip) g *= clip[CLIP_FACTOR];
            Element e = { &param[i], state0 ? &state0[i] : NULL, state1 ? &state1[i] : NULL, g };
            steps[attr->kind](attr, scalars, s, e);
        }
    }
    return OK;
}

const OpImpl ref_update = { ref_prepare, ref_bind, run, NULL };
