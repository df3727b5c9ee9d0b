/* update.c - the optimizer step over flat ranges: SGD, Adam and AdamW with torch.optim's rules, the
 * others with timm.optim's, in float32 as torch computes them.
 *
 * Work is shared out by element over all segments, so one large tensor and many small ones both
 * fill the team. Every element is independent: results do not depend on the number of threads.
 * Elements outside every segment are not touched. Padding of weight layouts lies inside: with
 * gradient 0 (and eps > 0) what is 0 there stays 0. Scalars that change from step to step are read
 * in run(); combinations that torch forms in double (1 - beta, lr / correction) are formed in
 * double here too. Gradients are multiplied by the inverse of the loss scale, as torch unscales,
 * and by the factor that clips them. */
#include "kernels/cpu/update.h"

typedef void StepFn(const UpdateRange *range, const UpdateRates *rates);

CPU_CLONES static void step_sgd(const UpdateRange *range, const UpdateRates *rates)
{
    float *p = range->param, lr = rates->lr, decay = rates->decay, unscale = rates->unscale;
    const float *g = range->grad;
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) p[i] -= lr * (unscale * g[i] + decay * p[i]);
}

CPU_INLINE void momentum_range(const UpdateRange *range, const UpdateRates *rates, bool nesterov)
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

CPU_CLONES static void step_momentum(const UpdateRange *range, const UpdateRates *rates)
{
    momentum_range(range, rates, false);
}

CPU_CLONES static void step_nesterov(const UpdateRange *range, const UpdateRates *rates)
{
    momentum_range(range, rates, true);
}

/* Elements [i, i + lanes). The root has a loop of its own: it may set errno, which keeps a compiler
 * that is not told otherwise from making vectors of the loop it is in. */
CPU_INLINE void adam_lanes(const UpdateRange *range, int64_t i, const UpdateRates *r,
                           bool decoupled, bool nesterov, int lanes)
{
    float *p = range->param + i, *m = range->state0 + i, *v = range->state1 + i, root[CPU_LANES],
          next[CPU_LANES];
    const float *g = range->grad + i;
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float scaled = r->unscale * g[l], d = decoupled ? scaled : scaled + r->decay * p[l];
        m[l] = m[l] + r->one_minus_beta1 * (d - m[l]);
        next[l] = nesterov ? m[l] + r->one_minus_beta1 * (d - m[l]) : m[l];
        v[l] = r->beta2 * v[l] + r->one_minus_beta2 * (d * d);
    }
    for (int l = 0; l < lanes; l++) root[l] = sqrtf(v[l]);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float before = decoupled ? p[l] * r->keep : p[l];
        p[l] = before - r->step * (next[l] / (root[l] / r->root_correction2 + r->eps));
    }
}

CPU_INLINE void adam_range(const UpdateRange *range, const UpdateRates *rates, bool decoupled,
                           bool nesterov)
{
    UpdateRates r = *rates;
    int64_t i = 0;
    for (; i + CPU_LANES <= range->count; i += CPU_LANES)
        adam_lanes(range, i, &r, decoupled, nesterov, CPU_LANES);
    for (; i < range->count; i++) adam_lanes(range, i, &r, decoupled, nesterov, 1);
}

CPU_CLONES static void step_adam(const UpdateRange *range, const UpdateRates *rates)
{
    adam_range(range, rates, false, false);
}

CPU_CLONES static void step_adamw(const UpdateRange *range, const UpdateRates *rates)
{
    adam_range(range, rates, true, false);
}

/* Both forms: inner is what the momentum takes up, outer what it is multiplied by. */
CPU_INLINE void lars_range(const UpdateRange *range, const UpdateRates *rates, float inner,
                           float outer)
{
    float *p = range->param, *m = range->state0, decay = rates->decay, unscale = rates->unscale,
          keep = rates->momentum;
    const float *g = range->grad;
    const bool nesterov = rates->nesterov;
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) {
        float d = inner * (unscale * g[i] + decay * p[i]), next = m ? keep * m[i] + d : d;
        if (m) m[i] = next;
        p[i] -= outer * (nesterov ? d + keep * next : next);
    }
}

CPU_CLONES static void step_lars(const UpdateRange *range, const UpdateRates *rates)
{
    lars_range(range, rates, rates->ratio, rates->lr);
}

CPU_CLONES static void step_lars_mlperf(const UpdateRange *range, const UpdateRates *rates)
{
    lars_range(range, rates, rates->lr_ratio, 1.0f);
}

CPU_INLINE void lamb_lanes(const UpdateRange *range, int64_t i, const UpdateRates *r, int lanes)
{
    float m[CPU_LANES], v[CPU_LANES], u[CPU_LANES];
    update_lamb_lanes(range, i, r, m, v, u, lanes);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        range->state0[i + l] = m[l];
        range->state1[i + l] = v[l];
        range->param[i + l] -= r->lr_ratio * u[l];
    }
}

CPU_INLINE void rmsprop_tf_lanes(const UpdateRange *range, int64_t i, const UpdateRates *r,
                                 int lanes)
{
    float *p = range->param + i, *m = range->state0 + i, *s = range->state1 + i, d[CPU_LANES],
          root[CPU_LANES];
    const float *g = range->grad + i;
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        d[l] = r->unscale * g[l] + r->decay * p[l];
        s[l] = s[l] + r->one_minus_beta2 * (d[l] * d[l] - s[l]);
    }
    for (int l = 0; l < lanes; l++) root[l] = sqrtf(s[l] + r->eps);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        m[l] = r->momentum * m[l] + r->lr * d[l] / root[l];
        p[l] -= m[l];
    }
}

CPU_CLONES static void step_lion(const UpdateRange *range, const UpdateRates *rates)
{
    UpdateRates r = *rates;
    float *p = range->param, *m = range->state0;
    const float *g = range->grad;
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) {
        float d = r.unscale * g[i], u = m[i] + r.one_minus_beta1 * (d - m[i]);
        p[i] = p[i] * r.keep - r.lr * (u > 0 ? 1.0f : u < 0 ? -1.0f : u);
        m[i] = m[i] + r.one_minus_beta2 * (d - m[i]);
    }
}

/* A direction of OP_MUON is ready to be taken; the rest is AdamW or NAdamW. */
CPU_INLINE void muon_range(const UpdateRange *range, const UpdateRates *rates, bool nesterov)
{
    float *p = range->param, lr = rates->lr, keep = rates->keep;
    const float *g = range->grad;
    if (!rates->adapts) {
        adam_range(range, rates, true, nesterov);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < range->count; i++) p[i] = p[i] * keep - lr * g[i];
}

CPU_CLONES static void step_muon(const UpdateRange *range, const UpdateRates *rates)
{
    muon_range(range, rates, false);
}

CPU_CLONES static void step_muon_nesterov(const UpdateRange *range, const UpdateRates *rates)
{
    muon_range(range, rates, true);
}

#define LANES_STEP(name, lanes_of)                                                                 \
    CPU_CLONES static void name(const UpdateRange *range, const UpdateRates *rates)                \
    {                                                                                              \
        UpdateRates r = *rates;                                                                    \
        int64_t i = 0;                                                                             \
        for (; i + CPU_LANES <= range->count; i += CPU_LANES) lanes_of(range, i, &r, CPU_LANES);   \
        for (; i < range->count; i++) lanes_of(range, i, &r, 1);                                   \
    }
LANES_STEP(step_lamb, lamb_lanes)
LANES_STEP(step_rmsprop_tf, rmsprop_tf_lanes)

static StepFn *step_of(const UpdateAttr *a)
{
    static const struct {
        StepFn *plain, *momentum, *nesterov;
    } rules[UPDATE_KIND_COUNT] = {
        [UPDATE_SGD] = { step_sgd, step_momentum, step_nesterov },
        [UPDATE_ADAM] = { .plain = step_adam },
        [UPDATE_ADAMW] = { .plain = step_adamw },
        [UPDATE_LARS] = { step_lars, step_lars, step_lars },
        [UPDATE_LARS_MLPERF] = { step_lars_mlperf, step_lars_mlperf, step_lars_mlperf },
        [UPDATE_LAMB] = { .plain = step_lamb },
        [UPDATE_RMSPROP_TF] = { .plain = step_rmsprop_tf },
        [UPDATE_LION] = { .plain = step_lion },
        [UPDATE_MUON] = { .plain = step_muon, .nesterov = step_muon_nesterov }
    };
    const UpdateTraits *t = update_traits(a->kind);
    if (t->by_momentum && a->momentum == 0.0f) return rules[a->kind].plain;
    if (t->nesterov && a->nesterov) return rules[a->kind].nesterov;
    return t->by_momentum ? rules[a->kind].momentum : rules[a->kind].plain;
}

UpdateRates update_rates(const OpInstance *op)
{
    const UpdateAttr *a = op->attr;
    const float *scalars = op->in[UPDATE_IN_SCALARS].data, *clip = op->in[UPDATE_IN_CLIP].data,
                *loss_scale = op->in[UPDATE_IN_LOSS_SCALE].data;
    UpdateRates r = { .base_lr = (double)scalars[SCALAR_LR],
                      .correction1 = 1,
                      .momentum = a->momentum,
                      .nesterov = a->nesterov,
                      .beta2 = (float)a->beta2,
                      .eps = a->eps };
    r.unscale = loss_scale ? 1.0f / loss_scale[LOSS_SCALE_SCALE] : 1.0f;
    if (clip) r.unscale *= clip[CLIP_FACTOR];
    r.one_minus_beta1 = (float)(1.0 - a->beta1);
    r.one_minus_beta2 = (float)(1.0 - a->beta2);
    if (!update_traits(a->kind)->counts_updates) return r;
    r.correction1 = (double)scalars[SCALAR_BIAS_CORRECTION1];
    r.correction1_f32 = scalars[SCALAR_BIAS_CORRECTION1];
    r.root_correction2 = (float)sqrt((double)scalars[SCALAR_BIAS_CORRECTION2]);
    return r;
}

UpdateRates update_rates_of_segment(const UpdateRates *rates, const UpdateSegment *s, float ratio)
{
    UpdateRates r = *rates;
    double lr = r.base_lr * (double)s->lr;
    r.lr = (float)lr;
    r.step = (float)(lr / r.correction1);
    r.decay = s->weight_decay;
    r.keep = (float)(1.0 - lr * (double)s->weight_decay);
    r.adapts = s->adapts;
    r.ratio = ratio;
    r.lr_ratio = (float)(lr * (double)ratio);
    return r;
}

Status update_decide_plain(OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    for (int i = 0; i < update_states(attr->kind, (double)attr->momentum); i++)
        if (op->in[UPDATE_IN_STATE0 + i].desc.rank == 0)
            return fail(ERR_INTERNAL, "update: optimizer state is missing");
    for (int i = UPDATE_IN_PARAM; i <= UPDATE_IN_RATIO; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    return OK;
}

static float *at(const OpInstance *op, int slot, int64_t first)
{
    float *base = op->in[slot].data;
    return base ? base + first : NULL;
}

UpdateRange update_range(const OpInstance *op, int64_t first, int64_t count)
{
    return (UpdateRange){ .param = at(op, UPDATE_IN_PARAM, first),
                          .grad = at(op, UPDATE_IN_GRAD, first),
                          .state0 = at(op, UPDATE_IN_STATE0, first),
                          .state1 = at(op, UPDATE_IN_STATE1, first),
                          .count = count };
}

/* Elements [first, last) in the count over all segments, which may begin and end inside one. */
static void update_share(const OpInstance *op, StepFn *step, const UpdateRates *rates,
                         int64_t first, int64_t last)
{
    const UpdateAttr *attr = op->attr;
    const float *ratios = op->in[UPDATE_IN_RATIO].data;
    int64_t passed = 0;
    for (int i = 0; i < attr->segment_count && passed < last; i++) {
        const UpdateSegment *s = &attr->segments[i];
        int64_t from = first > passed ? first - passed : 0,
                to = last - passed < s->count ? last - passed : s->count;
        passed += s->count;
        if (from >= to) continue;
        UpdateRange part = update_range(op, s->first + from, to - from);
        UpdateRates own = update_rates_of_segment(rates, s, ratios ? ratios[i] : 1.0f);
        step(&part, &own);
    }
}

static void update_run(OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    const float *loss_scale = op->in[UPDATE_IN_LOSS_SCALE].data;
    if (loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0) return;
    UpdateRates rates = update_rates(op);
    StepFn *step = step_of(attr);
    int64_t total = 0;
    for (int i = 0; i < attr->segment_count; i++) total += attr->segments[i].count;
    int parts = cpu_team(op, total);
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(total, part, parts, &first, &last);
        update_share(op, step, &rates, first, last);
    }
}

CPU_LOOPS(cpu_update, "elementwise", update_decide_plain, update_run);
