/* trust.c - the trust ratios of LARS and LAMB: sums of squares of fixed chunks, then one ratio a
 * segment. Squares of float32 are exact in double, lanes and chunks are added up in a fixed order:
 * a ratio depends neither on threads nor on which bucket its segment is in. */
#include "kernels/cpu/update.h"
#include "kernels/ops/trust_math.h"

CPU_INLINE void add_squares(double *sums, const float *x, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) sums[l] += (double)x[l] * (double)x[l];
}

CPU_INLINE void add_lanes(double sums[TRUST_SUM_COUNT][CPU_LANES], const UpdateRange *range,
                          int64_t i, const UpdateRates *r, bool by_update, int lanes)
{
    float m[CPU_LANES], v[CPU_LANES], other[CPU_LANES];
    if (by_update) update_lamb_lanes(range, i, r, m, v, other, lanes);
    else
        for (int l = 0; l < lanes; l++) other[l] = r->unscale * range->grad[i + l];
    add_squares(sums[TRUST_SUM_PARAM], range->param + i, lanes);
    add_squares(sums[TRUST_SUM_OTHER], other, lanes);
}

CPU_INLINE void sum_range(const UpdateRange *range, const UpdateRates *rates, bool by_update,
                          double out[TRUST_SUM_COUNT])
{
    double sums[TRUST_SUM_COUNT][CPU_LANES] = { { 0 } };
    UpdateRates r = *rates;
    int64_t i = 0;
    for (; i + CPU_LANES <= range->count; i += CPU_LANES)
        add_lanes(sums, range, i, &r, by_update, CPU_LANES);
    for (; i < range->count; i++) add_lanes(sums, range, i, &r, by_update, 1);
    for (int k = 0; k < TRUST_SUM_COUNT; k++) {
        out[k] = 0;
        for (int l = 0; l < CPU_LANES; l++) out[k] += sums[k][l];
    }
}

CPU_CLONES static void sum_by_gradient(const UpdateRange *range, const UpdateRates *rates,
                                       double *out)
{
    sum_range(range, rates, false, out);
}

CPU_CLONES static void sum_by_update(const UpdateRange *range, const UpdateRates *rates,
                                     double *out)
{
    sum_range(range, rates, true, out);
}

static Status trust_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->out[TRUST_RATIO_OUT_SUMS]);
    cpu_decide_plain(&op->out[TRUST_RATIO_OUT_RATIOS]);
    return update_decide_plain(op);
}

/* sums: the segment's own. */
static float ratio_of(const OpInstance *op, const UpdateRates *rates, const UpdateSegment *s,
                      double *sums)
{
    const UpdateAttr *a = op->attr;
    const bool by_update = update_traits(a->kind)->trust == TRUST_BY_UPDATE;
    const UpdateRates own = update_rates_of_segment(rates, s, 1);
    const int64_t chunks = update_trust_chunks(s);
    double all[TRUST_SUM_COUNT] = { 0 };
#pragma omp parallel for num_threads(cpu_team(op, s->count))
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t at = c * TRUST_CHUNK, left = s->count - at;
        const UpdateRange part =
            update_range(op, s->first + at, left < TRUST_CHUNK ? left : TRUST_CHUNK);
        (by_update ? sum_by_update : sum_by_gradient)(&part, &own, sums + c * TRUST_SUM_COUNT);
    }
    for (int64_t i = 0; i < chunks * TRUST_SUM_COUNT; i++) all[i % TRUST_SUM_COUNT] += sums[i];
    return trust_ratio(a, !by_update, s->weight_decay, rates->base_lr * (double)s->lr, all);
}

static void trust_run(OpInstance *op)
{
    const UpdateAttr *a = op->attr;
    const UpdateRates rates = update_rates(op);
    double *sums = op->out[TRUST_RATIO_OUT_SUMS].data;
    float *ratios = op->out[TRUST_RATIO_OUT_RATIOS].data;
    for (int i = 0; i < a->segment_count; i++) {
        const UpdateSegment *s = &a->segments[i];
        ratios[i] = s->adapts ? ratio_of(op, &rates, s, sums) : 1.0f;
        sums += update_trust_chunks(s) * TRUST_SUM_COUNT;
    }
}

CPU_LOOPS(cpu_trust_ratio, "chunks", trust_prepare, trust_run);
