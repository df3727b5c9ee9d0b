/* update.c - the optimizer step over flat ranges: SGD, Adam and AdamW with torch.optim's rules, in
 * float32 as torch computes them.
 *
 * Work is shared out by element over all segments, so one large tensor and many small ones both
 * fill the team. Every element is independent: results do not depend on the number of threads.
 * Elements outside every segment are not touched. Padding of weight layouts lies inside: with
 * gradient 0 (and eps > 0) what is 0 there stays 0. Scalars that change from step to step are read
 * in run(); combinations that torch forms in double (1 - beta, lr / correction) are formed in
 * double here too. Gradients are multiplied by the inverse of the loss scale, as torch unscales,
 * and by the factor that clips them. */
#include "kernels/ops/update.h"
#include "kernels/cpu/lanes.h"
#include <math.h>

typedef struct Rates { /* one step's numbers, rounded once */
    float unscale, momentum, beta2, one_minus_beta1, one_minus_beta2, eps, root_correction2;
    float lr, step, decay, keep; /* of a segment; step: lr / correction1, keep: 1 - lr decay */
    double base_lr, correction1; /* correction1: 1 where updates are not counted */
} Rates;
typedef struct Range {
    float *param, *state0, *state1;
    const float *grad;
    int64_t count;
} Range;
typedef void StepFn(const Range *range, const Rates *rates);

CPU_CLONES static void step_sgd(const Range *range, const Rates *rates)
{
    float *p = range->param, lr = rates->lr, decay = rates->decay, unscale = rates->unscale;
    const float *g = range->grad;
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) p[i] -= lr * (unscale * g[i] + decay * p[i]);
}

CPU_INLINE void momentum_range(const Range *range, const Rates *rates, bool nesterov)
{
    float *p = range->param, *m = range->state0, lr = rates->lr, momentum = rates->momentum,
          decay = rates->decay, unscale = rates->unscale;
    const float *g = range->grad;
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) {
        float d = unscale * g[i] + decay * p[i], next = momentum * m[i] + d;
        m[i] = next;
        p[i] -= lr * (nesterov ? d + momentum * next : next);
    }
}

CPU_CLONES static void step_momentum(const Range *range, const Rates *rates)
{
    momentum_range(range, rates, false);
}

CPU_CLONES static void step_nesterov(const Range *range, const Rates *rates)
{
    momentum_range(range, rates, true);
}

/* Elements [i, i + lanes). The root has a loop of its own: it may set errno, which keeps a compiler
 * that is not told otherwise from making vectors of the loop it is in. */
CPU_INLINE void adam_lanes(const Range *range, int64_t i, const Rates *r, bool decoupled, int lanes)
{
    float *p = range->param + i, *m = range->state0 + i, *v = range->state1 + i, root[CPU_LANES];
    const float *g = range->grad + i;
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float scaled = r->unscale * g[l], d = decoupled ? scaled : scaled + r->decay * p[l];
        m[l] = m[l] + r->one_minus_beta1 * (d - m[l]);
        v[l] = r->beta2 * v[l] + r->one_minus_beta2 * (d * d);
    }
    for (int l = 0; l < lanes; l++) root[l] = sqrtf(v[l]);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float before = decoupled ? p[l] * r->keep : p[l];
        p[l] = before - r->step * (m[l] / (root[l] / r->root_correction2 + r->eps));
    }
}

CPU_INLINE void adam_range(const Range *range, const Rates *rates, bool decoupled)
{
    Rates r = *rates;
    int64_t i = 0;
    for (; i + CPU_LANES <= range->count; i += CPU_LANES)
        adam_lanes(range, i, &r, decoupled, CPU_LANES);
    for (; i < range->count; i++) adam_lanes(range, i, &r, decoupled, 1);
}

CPU_CLONES static void step_adam(const Range *range, const Rates *rates)
{
    adam_range(range, rates, false);
}

CPU_CLONES static void step_adamw(const Range *range, const Rates *rates)
{
    adam_range(range, rates, true);
}

static StepFn *step_of(const UpdateAttr *a)
{
    static const struct {
        StepFn *plain, *momentum, *nesterov;
    } rules[UPDATE_KIND_COUNT] = { [UPDATE_SGD] = { step_sgd, step_momentum, step_nesterov },
                                   [UPDATE_ADAM] = { .plain = step_adam },
                                   [UPDATE_ADAMW] = { .plain = step_adamw } };
    if (!update_traits(a->kind)->by_momentum || a->momentum == 0.0f) return rules[a->kind].plain;
    return a->nesterov ? rules[a->kind].nesterov : rules[a->kind].momentum;
}

static Rates rates_of(const UpdateAttr *a, const float *scalars, const float *loss_scale,
                      const float *clip)
{
    Rates r = { .base_lr = (double)scalars[SCALAR_LR],
                .correction1 = 1,
                .momentum = a->momentum,
                .beta2 = (float)a->beta2,
                .eps = a->eps };
    r.unscale = loss_scale ? 1.0f / loss_scale[LOSS_SCALE_SCALE] : 1.0f;
    if (clip) r.unscale *= clip[CLIP_FACTOR];
    r.one_minus_beta1 = (float)(1.0 - a->beta1);
    r.one_minus_beta2 = (float)(1.0 - a->beta2);
    if (!update_traits(a->kind)->counts_updates) return r;
    r.correction1 = (double)scalars[SCALAR_BIAS_CORRECTION1];
    r.root_correction2 = (float)sqrt((double)scalars[SCALAR_BIAS_CORRECTION2]);
    return r;
}

static Rates rates_of_segment(const Rates *rates, const UpdateSegment *s)
{
    Rates r = *rates;
    double lr = r.base_lr * (double)s->lr;
    r.lr = (float)lr;
    r.step = (float)(lr / r.correction1);
    r.decay = s->weight_decay;
    r.keep = (float)(1.0 - lr * (double)s->weight_decay);
    return r;
}

static Status update_prepare(OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    for (int i = 0; i < update_states(attr->kind, (double)attr->momentum); i++)
        if (op->in[UPDATE_IN_STATE0 + i].desc.rank == 0)
            return fail(ERR_INTERNAL, "update: optimizer state is missing");
    for (int i = UPDATE_IN_PARAM; i <= UPDATE_IN_CLIP; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    op->implementation = "elementwise";
    return OK;
}

static float *advance(float *base, int64_t elements)
{
    return base ? base + elements : NULL;
}

/* Elements [first, last) in the count over all segments, which may begin and end inside one. */
static void update_share(const UpdateAttr *attr, const Range *all, StepFn *step, const Rates *rates,
                         int64_t first, int64_t last)
{
    int64_t passed = 0;
    for (int i = 0; i < attr->segment_count && passed < last; i++) {
        const UpdateSegment *s = &attr->segments[i];
        int64_t from = first > passed ? first - passed : 0,
                to = last - passed < s->count ? last - passed : s->count;
        passed += s->count;
        if (from >= to) continue;
        int64_t at = s->first + from;
        Range part = { .param = all->param + at,
                       .grad = all->grad + at,
                       .state0 = advance(all->state0, at),
                       .state1 = advance(all->state1, at),
                       .count = to - from };
        Rates own = rates_of_segment(rates, s);
        step(&part, &own);
    }
}

static Status update_run(OpInstance *op, Stream *stream)
{
    const UpdateAttr *attr = op->attr;
    Range all = { .param = op->in[UPDATE_IN_PARAM].data,
                  .grad = op->in[UPDATE_IN_GRAD].data,
                  .state0 = op->in[UPDATE_IN_STATE0].data,
                  .state1 = op->in[UPDATE_IN_STATE1].data };
    const float *loss_scale = op->in[UPDATE_IN_LOSS_SCALE].data;
    if (loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0) return OK;
    Rates rates =
        rates_of(attr, op->in[UPDATE_IN_SCALARS].data, loss_scale, op->in[UPDATE_IN_CLIP].data);
    StepFn *step = step_of(attr);
    int64_t total = 0;
    for (int i = 0; i < attr->segment_count; i++) total += attr->segments[i].count;
    int parts = cpu_team(op, total);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(total, part, parts, &first, &last);
        update_share(attr, &all, step, &rates, first, last);
    }
    return OK;
}

const OpImpl cpu_update = { .prepare = update_prepare,
                            .bind = cpu_bind_nothing,
                            .run = update_run };
