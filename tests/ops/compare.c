/* compare.c - the verdict on what a backend computed, given the reference's results and the bound
 * of the result's tolerance row. */
#include "tests/ops/check.h"

#include <math.h>

#define EPS                0x1p-24
#define TRUST_MIN_ELEMENTS 16 /* fewer may well be all zero */

typedef struct Checked { /* one result */
    const Comparison *c;
    const ToleranceRow *row;
    Bound bound;
    const char *name;
    const Host *ref, *got, *absolute;
    double *scale;       /* BOUND_NORM */
    double *transformed; /* S of tolerance_winograd.c; NULL: a direct sum */
    double max;          /* BOUND_MAX */
    DType type, through; /* as it is kept, and as it was before something was added */
    const double *start; /* what was added; NULL: nothing */
} Checked;

static Status check_trust(const Checked *k)
{
    int64_t n = tensor_elements(&k->ref->desc), zeros = 0, nans = 0;
    for (int64_t i = 0; i < n; i++) {
        zeros += k->ref->v[i] == 0;
        nans += isnan(k->ref->v[i]) != 0;
    }
    if (k->c->variant.mode != MODE_NAN && nans)
        return fail(ERR_HEALTH, "mistrusted: the reference has NaN in %s", k->name);
    /* Zeros by chance: three standard deviations of a share of n. */
    double share = k->c->family->max_zero_share;
    double limit = share + 3 * sqrt(share * (1 - share) / (double)(n > 0 ? n : 1));
    if (n >= TRUST_MIN_ELEMENTS && k->ref->desc.dtype == DTYPE_F32 &&
        (double)zeros > limit * (double)n)
        return fail(ERR_HEALTH, "mistrusted: %.0f %% of %s are zero in the reference",
                    100.0 * (double)zeros / (double)n, k->name);
    return OK;
}

static double max_abs(const Host *t)
{
    double max = 0;
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++)
        if (fabs(t->v[i]) > max) max = fabs(t->v[i]);
    return max;
}

/* How roundings of a sum add up: like sqrt(K), but for few terms like K. */
static double growth(int64_t terms)
{
    return terms <= 4 ? (double)terms : fmax(4, sqrt((double)terms));
}

/* Half the distance of neighbours, relative to the smaller one. */
static double unit_of(DType type)
{
    return type == DTYPE_BF16 ? 0x1p-8 : type == DTYPE_F16 ? 0x1p-11 : 0;
}

/* What rounding v to type may do: the types' units, and half of f16's smallest step. */
static double rounding(DType type, double v)
{
    return unit_of(type) * fabs(v) + (type == DTYPE_F16 ? 0x1p-25 : 0);
}

/* Products of other types than plain f32 run where sums are not rounded to nearest: four times the
 * error. */
static double slack(const Checked *k)
{
    const Subject *s = k->c->subject;
    return layouts_is_product(k->c->problem->kind) && (s->tf32 || s->compute != DTYPE_F32) ? 4 : 1;
}

/* Allowed |got - ref| of element i in float32; 0 means equal after rounding to float. */
static double allowed_f32(const Checked *k, int64_t i)
{
    double ref = fabs(k->ref->v[i]), c = k->row->c * EPS * slack(k);
    switch (k->bound) {
    case BOUND_EQUAL:
        return 0;
    case BOUND_SUM:
        return c * growth(k->c->problem->terms) * k->absolute->v[i] + EPS * ref;
    case BOUND_MAX:
        return c * k->max;
    case BOUND_TYPE:
    case BOUND_TYPE_MAX:
        return k->row->c *
               (unit_of(k->c->subject->compute) + EPS * slack(k) * growth(k->c->problem->terms)) *
               (k->bound == BOUND_TYPE ? k->absolute->v[i] : k->max);
    case BOUND_ELEMENT:
        return c * ref;
    case BOUND_NORM:
        return c * k->scale[i] + EPS * ref;
    case BOUND_STATS:
        return i == STATS_LOSS_SUM ? c * ref : 0;
    }
    return 0;
}

/* What was rounded that the rest was computed from: dz where it is kept; factors of attention's
 * second product, of which the largest result tells. */
static double inner_rounding(const Checked *k, int64_t i)
{
    const OpKind kind = k->c->problem->kind;
    const bool attention = kind == OP_ATTENTION && k->row->slot == ATTENTION_OUT_Y;
    if ((attention || kind == OP_ATTENTION_BWD) && k->c->subject->rounds_weights)
        return 2 * rounding(k->c->subject->compute, k->max);
    if (kind == OP_BATCHNORM_BWD && k->c->subject->rounds_dz && k->bound == BOUND_NORM)
        return rounding(k->c->subject->compute, k->scale[i]);
    if (kind != OP_BATCHNORM_BWD || k->row->slot != BN_BWD_OUT_DX ||
        !k->c->problem->out[BN_BWD_OUT_DRESIDUAL].rank)
        return 0;
    return rounding(k->c->out_type[BN_BWD_OUT_DRESIDUAL], k->scale[i]);
}

/* Of Winograd's: sums over channels, or tiles, and the roundings of the transforms on the way to
 * one result, two passes each; behind a folded norm its factor, shift, residual and activation. */
static double allowed_transformed(const Checked *k, int64_t i)
{
    enum { TILE = 16, TAPS = 9, TRANSFORMS = 2 * (4 + 3 + 4), FOLDED = 8 };
    const bool gradient = k->c->problem->kind == OP_CONV2D_BWD_WEIGHTS,
               folded = k->c->problem->kind == OP_CONV2D_BN;
    const int64_t terms = k->c->problem->terms / (gradient ? TILE : TAPS) + TRANSFORMS;
    return EPS * (growth(terms) * k->transformed[i] * (folded ? 1.1 : 1) + fabs(k->ref->v[i]) +
                  (folded ? FOLDED * k->absolute->v[i] : 0));
}

static double allowed(const Checked *k, int64_t i)
{
    double f32 = k->transformed ? allowed_transformed(k, i) : allowed_f32(k, i);
    if (k->bound == BOUND_EQUAL) return f32;
    double before = k->start ? k->ref->v[i] - k->start[i] : k->ref->v[i];
    double on_the_way = k->through == k->type && !k->start ? 0 : rounding(k->through, before);
    return f32 + rounding(k->type, k->ref->v[i]) + on_the_way + inner_rounding(k, i);
}

static bool is_nan_count(const Checked *k, int64_t i)
{
    return k->bound == BOUND_STATS && i != STATS_LOSS_SUM &&
           k->c->variant.mode == MODE_NAN; /* how NaN ranks is not defined */
}

/* Our kernels for one filter a channel multiply padding as zeros, whose product with a NaN is one:
 * then it is at taps too that meet it nowhere. Others of their window meet it. */
static bool is_nan_by_padding(const Checked *k, int64_t i)
{
    const Conv2dAttr *a = &k->c->problem->attr.conv;
    if (k->c->problem->kind != OP_CONV2D_BWD_WEIGHTS ||
        k->ref != &k->c->ref->out[CONV_BWD_WEIGHTS_OUT_DW] || !isnan(k->got->v[i]) ||
        !(a->pad_top || a->pad_bottom || a->pad_left || a->pad_right))
        return false;
    const int64_t *w = k->c->problem->out[CONV_BWD_WEIGHTS_OUT_DW].dims, taps = w[2] * w[3];
    if (w[1] > 1 || a->groups == 1) return false;
    for (int64_t t = i - i % taps; t < (i / taps + 1) * taps; t++)
        if (isnan(k->ref->v[t])) return true;
    return false;
}

/* The exact result as the backend has to store it. */
static double nearest(const Checked *k, int64_t i)
{
    double ref = k->ref->v[i], start = k->start ? k->start[i] : 0;
    if (k->ref->desc.dtype != DTYPE_F32) return ref;
    return subject_nearest(k->type, start + subject_nearest(k->through, ref - start));
}

/* Whether v is what an exact result becomes. A bias is added at once or behind a rounding. */
static bool is_nearest(const Checked *k, int64_t i, double v)
{
    return v == nearest(k, i) ||
           (k->c->problem->kind == OP_CONV2D && v == subject_nearest(k->type, k->ref->v[i]));
}

static Status check_elements(const Checked *k, Verdict *verdict)
{
    for (int64_t i = 0, n = tensor_elements(&k->ref->desc); i < n; i++) {
        double ref = k->ref->v[i], got = k->got->v[i], limit = allowed(k, i);
        /* a NaN may be that of all results of a tile that reads it */
        if (k->transformed && isnan(k->transformed[i])) continue;
        if (is_nan_count(k, i) || is_nan_by_padding(k, i) || (isnan(ref) && isnan(got))) continue;
        double exact =
            /* a float64 backend too */
            k->ref->desc.dtype == DTYPE_F32 ? subject_nearest(k->type, got) : got;
        /* infinities too */
        if (is_nearest(k, i, exact)) continue;
        double error = limit > 0 ? fabs(got - ref) : fabs(exact - nearest(k, i));
        if (limit > 0 && error / limit > verdict->worst) verdict->worst = error / limit;
        if (!(error <= limit))
            return fail(ERR_HEALTH, "%s[%lld] is %.9g, should be %.9g (off by %.3g, allowed %.3g)",
                        k->name, (long long)i, got, ref, error, limit);
    }
    return OK;
}

static Bound bound_of(const Comparison *c, const ToleranceRow *row)
{
    /* chosen, not computed */
    bool maximum = c->problem->kind == OP_POOL2D && c->problem->attr.pool.kind == POOL_MAX;
    bool act = c->problem->kind == OP_ACTIVATION || c->problem->kind == OP_ACTIVATION_BWD;
    bool choice = maximum || (act && op_act(c->problem->attr.activation.act)->by_sign);
    return c->variant.mode == MODE_EXACT || choice ? BOUND_EQUAL : row->bound;
}

/* A bias may be added to what a library's product has rounded. */
static Status spread_bias(Arena *arena, const Comparison *c, const double **out)
{
    const TensorDesc *y = &c->ref->out[CONV_OUT_Y].desc;
    const int64_t count = tensor_elements(y), plane = y->dims[2] * y->dims[3];
    double *start = arena_alloc(arena, (size_t)count * sizeof *start);
    if (!start) return ERR_MEMORY;
    for (int64_t i = 0; i < count; i++) start[i] = c->in[CONV_IN_B].v[i / plane % y->dims[1]];
    *out = start;
    return OK;
}

static Status compare_one(Arena *arena, const Comparison *c, bool input, int slot, Verdict *verdict)
{
    const OpDef *def = op_def(c->problem->kind);
    Checked k = { .c = c, .row = tolerance_row(c->problem->kind, input, slot) };
    k.name = input ? def->in_names[slot] : def->out_names[slot];
    if (!k.row) return fail(ERR_HEALTH, "no tolerance row for %s", k.name);
    k.bound = bound_of(c, k.row);
    k.ref = input ? &c->ref->in[slot] : &c->ref->out[slot];
    k.got = input ? &c->got->in[slot] : &c->got->out[slot];
    k.type = input ? k.ref->desc.dtype : c->out_type[slot];
    k.through = k.type;
    const bool weights =
        c->problem->kind == OP_CONV2D_BWD_WEIGHTS || c->problem->kind == OP_CONV2D_BWD_WEIGHTS_NORM;
    if (!input && weights && slot == CONV_BWD_WEIGHTS_OUT_DW) {
        k.through = c->product_type;
        k.start = c->start[slot].v;
    }
    if (c->problem->kind == OP_CONV2D && c->problem->in[CONV_IN_B].rank)
        TRY(spread_bias(arena, c, &k.start));
    if (k.bound == BOUND_SUM || k.bound == BOUND_TYPE)
        k.absolute = input ? &c->absolute->in[slot] : &c->absolute->out[slot];
    if (k.bound == BOUND_MAX || k.bound == BOUND_TYPE_MAX) k.max = max_abs(k.ref);
    if (k.bound == BOUND_NORM) {
        k.scale = arena_alloc(arena, (size_t)tensor_elements(&k.ref->desc) * sizeof(double));
        if (!k.scale) return ERR_MEMORY;
        tolerance_norm_scale(c->problem, c->in, c->ref, input, slot, k.scale);
    }
    const bool bias = weights && slot == CONV_BWD_WEIGHTS_OUT_DB;
    if (c->subject->winograd && !input && !bias) {
        k.transformed = arena_alloc(arena, (size_t)tensor_elements(&k.ref->desc) * sizeof(double));
        if (!k.transformed) return ERR_MEMORY;
        TRY(tolerance_winograd_scale(arena, c->problem, c->in, k.transformed));
    }
    TRY(check_trust(&k));
    return check_elements(&k, verdict);
}

static bool any_nan(const Result *r)
{
    for (int slot = 0; slot < OP_MAX_OUTPUTS; slot++)
        for (int64_t i = 0, n = r->out[slot].desc.rank ? tensor_elements(&r->out[slot].desc) : 0;
             i < n; i++)
            if (isnan(r->out[slot].v[i])) return true;
    return false;
}

Status compare_results(Arena *arena, const Comparison *c, Verdict *verdict)
{
    verdict->worst = 0;
    if (c->variant.mode == MODE_NAN && !any_nan(c->ref))
        return fail(ERR_HEALTH, "mistrusted: the NaN does not reach the reference's results");
    for (int slot = 0; slot < OP_MAX_OUTPUTS; slot++)
        if (c->ref->out[slot].desc.rank) TRY(compare_one(arena, c, false, slot, verdict));
    for (int slot = 0; slot < OP_MAX_INPUTS; slot++)
        if (c->ref->in[slot].desc.rank) TRY(compare_one(arena, c, true, slot, verdict));
    return OK;
}
