/* families_norm.c - batch norm and its gradient, whole and by sums over ranks.
 *
 * Inputs keep every pre-activation away from 0, so that the reference and a float32 backend agree
 * on which side of the ReLU an element is: x lies in two clusters around its mean, beta is small
 * against gamma, and a residual is larger than the rest. */
#include "tests/ops/families.h"

#include <math.h>

enum { BN_N, BN_C, BN_H, BN_W, BN_MODE, BN_ACT, BN_RESIDUAL, BN_DY2, BN_OFFSET, BN_RANKS };

/* mode 0 train, 1 eval, 2 frozen; h 0: x of rank 2; offset: mean of x; dy2 concerns the gradient
 * alone; ranks: behind given sums, 0 for none. */
static const ParamDef bn_params[] = { { "n", 2 },        { "c", 1 },    { "h", 1 },
                                      { "w", 1 },        { "mode", 0 }, { "act", 0 },
                                      { "residual", 0 }, { "dy2", 0 },  { "offset", 0 },
                                      { "ranks", 0 },    { NULL, 0 } };

static const char *const bn_fixed[] = {
    "n=2 c=1 h=1 w=1",
    "n=1 c=8 h=1 w=2 act=1",
    "n=2 c=8 h=4 w=4 act=1",
    "n=2 c=16 h=5 w=7 act=1 residual=1 dy2=1",
    "n=3 c=5 h=3 w=3 act=1 residual=1",
    "n=2 c=13 h=4 w=4 residual=1 dy2=1",
    "n=2 c=12 h=4 w=5 act=1 dy2=1",
    "n=4 c=8 h=6 w=6 offset=100", /* mean much larger than the deviation */
    "n=4 c=3 h=6 w=6 act=1 offset=100",
    "n=4 c=8 h=5 w=5 mode=2 act=1 residual=1 dy2=1",
    "n=2 c=17 h=3 w=3 mode=2 act=1",
    "n=1 c=8 h=1 w=1 mode=2",
    "n=5 c=10 h=0 w=0 act=1",
    "n=2 c=8 h=4 w=4 act=*",
    "n=3 c=13 h=5 w=7 act=* dy2=1",
    "n=2 c=17 h=3 w=3 mode=2 act=* dy2=1",
    "n=4 c=8 h=6 w=6 act=* offset=100",
    "n=3 c=9 h=4 w=3 act=* residual=1",
    "n=2 c=8 h=4 w=4 act=* dy2=1 ranks=2",
    "n=3 c=13 h=5 w=7 act=1 residual=1 ranks=3",
    "n=4 c=17 h=6 w=6 residual=1 dy2=1 offset=100 ranks=4",
    "n=5 c=10 h=0 w=0 act=* ranks=8",
    "n=1 c=9 h=1 w=1 act=1 ranks=2",
    /* rows of more tables than a tile of the CPU's takes: two wide steps and a rest, 16 and one */
    "n=3 c=131 h=4 w=7 act=1 dy2=1",
    "n=1 c=131 h=23 w=23 act=1 dy2=1",
    NULL,
};

static void draw_bn(Rng *rng, int64_t *p)
{
    p[BN_N] = draw_between(rng, 1, 5);
    p[BN_C] = draw_channels(rng);
    p[BN_H] = draw_between(rng, 1, 9);
    p[BN_W] = draw_between(rng, 1, 9);
    p[BN_MODE] = draw_chance(rng, 3) ? BN_FROZEN : BN_TRAIN;
    p[BN_ACT] = draw_normed_act(rng);
    p[BN_RESIDUAL] = op_act((ActKind)p[BN_ACT])->by_sign && draw_between(rng, 0, 1);
    p[BN_DY2] = draw_between(rng, 0, 1);
    p[BN_OFFSET] = draw_chance(rng, 4) ? draw_between(rng, -20, 20) : 0;
    p[BN_RANKS] = p[BN_MODE] == BN_TRAIN && draw_chance(rng, 3) ? draw_between(rng, 1, 5) : 0;
    if (p[BN_N] * p[BN_H] * p[BN_W] < 2) p[BN_N] = 2; /* one element has no variance */
}

/* Evaluation has no backward. */
static void draw_bn_forward(Rng *rng, int64_t *p)
{
    draw_bn(rng, p);
    if (p[BN_RANKS] == 0 && draw_chance(rng, 3)) p[BN_MODE] = BN_EVAL;
}

static void build_bn(const int64_t *p, Problem *out)
{
    out->attr.bn = (BatchNormAttr){ 1e-5f, 0.1f, (BatchNormMode)p[BN_MODE], (ActKind)p[BN_ACT],
                                    (int)p[BN_RANKS] };
    out->terms = p[BN_N] * (p[BN_H] ? p[BN_H] * p[BN_W] : 1);
    TensorDesc x = desc_f32(p[BN_N], p[BN_C], p[BN_H], p[BN_W]),
               vector = desc_f32(p[BN_C], 0, 0, 0), none = { 0 },
               sums = tensor_desc(DTYPE_F64, 2, (int64_t[]){ 2, p[BN_C] });
    if (out->kind == OP_BATCHNORM) {
        out->in[BN_IN_X] = x;
        for (int slot = BN_IN_GAMMA; slot <= BN_IN_RUNNING_VAR; slot++) out->in[slot] = vector;
        out->in[BN_IN_RESIDUAL] = p[BN_RESIDUAL] ? x : none;
        out->in[BN_IN_SUMS] = p[BN_RANKS] ? sums : none;
        out->wanted[BN_OUT_Y] = out->wanted[BN_OUT_SAVED] = true;
        return;
    }
    out->in[BN_BWD_IN_DY] = out->in[BN_BWD_IN_X] = x;
    out->in[BN_BWD_IN_DY2] = p[BN_DY2] ? x : none;
    out->in[BN_BWD_IN_Y] = p[BN_RESIDUAL] && p[BN_ACT] == ACT_RELU ? x : none;
    out->in[BN_BWD_IN_GAMMA] = out->in[BN_BWD_IN_BETA] = vector;
    out->in[BN_BWD_IN_SAVED] = desc_f32(2, p[BN_C], 0, 0);
    const bool whole = out->kind == OP_BN_BWD_SUMS || p[BN_RANKS] == 0;
    out->in[BN_BWD_IN_SUMS] = whole ? none : sums;
    out->wanted[BN_BWD_OUT_DX] = true; /* or sums */
    out->wanted[BN_BWD_OUT_DGAMMA] = out->wanted[BN_BWD_OUT_DBETA] = whole;
    out->wanted[BN_BWD_OUT_DRESIDUAL] = whole && p[BN_RESIDUAL] != 0;
}

static void build_sums(const int64_t *p, Problem *out)
{
    out->terms = p[BN_N] * (p[BN_H] ? p[BN_H] * p[BN_W] : 1);
    out->in[BN_SUMS_IN_X] = desc_f32(p[BN_N], p[BN_C], p[BN_H], p[BN_W]);
    out->wanted[BN_SUMS_OUT_SUMS] = true;
}

/* act: one that bends elsewhere than at 0 gets channels that lie beyond it. */
static void fill_affine(Host *gamma, Host *beta, ActKind act, Rng *rng)
{
    const bool bends = act == ACT_RELU6 || act == ACT_HARD_SWISH;
    for (int64_t c = 0; c < gamma->desc.dims[0]; c++) {
        double g = 0.5 + rng_uniform(rng);
        if (bends && c % 4 == 3) g *= 32;
        gamma->v[c] = fill_float(draw_chance(rng, 4) ? -g : g);
        beta->v[c] = fill_float(0.1 * g * (2 * rng_uniform(rng) - 1));
    }
}

static void fill_residual(Host *t, Rng *rng)
{
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++) {
        double v = 4 + 2 * rng_uniform(rng);
        t->v[i] = fill_float(rng_below(rng, 2) ? v : -v);
    }
}

static void moments(const Host *x, int64_t c, double *mean, double *var)
{
    const int64_t *d = x->desc.dims;
    int64_t hw = x->desc.rank == 4 ? d[2] * d[3] : 1, n = d[0] * hw;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x->v[(i / hw * d[1] + c) * hw + i % hw];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double v = x->v[(i / hw * d[1] + c) * hw + i % hw] - *mean;
        squares += v * v;
    }
    *var = squares / (double)n;
}

/* Where the running statistics are what normalises, they are x's own, so that the clusters stay on
 * either side; one element alone has no side but that of its mean, which is moved. In training they
 * only have to be told apart from the batch's. */
static void fill_running(const int64_t *p, const Host *x, Host *running_mean, Host *running_var,
                         Rng *rng)
{
    for (int64_t c = 0; c < p[BN_C]; c++) {
        double mean = rng_normal(rng), var = 0.5 + rng_uniform(rng);
        if (p[BN_MODE] != BN_TRAIN) {
            moments(x, c, &mean, &var);
            if (p[BN_N] * p[BN_H] * p[BN_W] == 1) mean += rng_below(rng, 2) ? 1 : -1;
            var += 0.2;
        }
        running_mean->v[c] = fill_float(mean);
        running_var->v[c] = fill_float(var);
    }
}

static int64_t values_of(const int64_t *p)
{
    return p[BN_N] * (p[BN_H] ? p[BN_H] * p[BN_W] : 1);
}

/* As fill_running: by the batch of all ranks, whose mean is x's own. */
static void fill_totals(const int64_t *p, const Host *x, Host *sums)
{
    const double count = (double)(values_of(p) * p[BN_RANKS]);
    for (int64_t c = 0; c < p[BN_C]; c++) {
        double mean, var;
        moments(x, c, &mean, &var);
        if (values_of(p) == 1) mean += 1;
        sums->v[c] = count * mean;
        sums->v[p[BN_C] + c] = count * (var + 0.2 + mean * mean);
    }
}

static void fill_x(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    fill_clusters(&in[BN_SUMS_IN_X], rng, (double)p[BN_OFFSET]);
}

static void fill_forward(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)mode;
    fill_clusters(&in[BN_IN_X], rng, (double)p[BN_OFFSET]);
    fill_affine(&in[BN_IN_GAMMA], &in[BN_IN_BETA], problem->attr.bn.act, rng);
    fill_running(p, &in[BN_IN_X], &in[BN_IN_RUNNING_MEAN], &in[BN_IN_RUNNING_VAR], rng);
    if (p[BN_RESIDUAL]) fill_residual(&in[BN_IN_RESIDUAL], rng);
    if (p[BN_RANKS]) fill_totals(p, &in[BN_IN_X], &in[BN_IN_SUMS]);
}

static void fill_saved(const int64_t *p, const Host *x, Host *saved, double eps)
{
    for (int64_t c = 0; c < p[BN_C]; c++) {
        double mean, var;
        moments(x, c, &mean, &var);
        if (values_of(p) == 1) mean += 1, var = 0.5;
        saved->v[c] = fill_float(mean);
        saved->v[p[BN_C] + c] = fill_float(1 / sqrt(var + eps));
    }
}

static void fill_backward(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)mode;
    fill_normal(&in[BN_BWD_IN_DY], rng, 0.2, 1);
    if (p[BN_DY2]) fill_normal(&in[BN_BWD_IN_DY2], rng, -0.1, 1);
    fill_clusters(&in[BN_BWD_IN_X], rng, (double)p[BN_OFFSET]);
    fill_affine(&in[BN_BWD_IN_GAMMA], &in[BN_BWD_IN_BETA], problem->attr.bn.act, rng);
    fill_saved(p, &in[BN_BWD_IN_X], &in[BN_BWD_IN_SAVED], (double)problem->attr.bn.eps);
    Host *y = &in[BN_BWD_IN_Y], *sums = &in[BN_BWD_IN_SUMS];
    for (int64_t i = 0; sums->desc.rank && i < 2 * p[BN_C]; i++)
        sums->v[i] = 0.2 * (double)(values_of(p) * p[BN_RANKS]) * rng_normal(rng);
    if (y->desc.rank == 0) return;
    fill_residual(y, rng); /* only its sign matters, and that is the residual's */
    for (int64_t i = 0, n = tensor_elements(&y->desc); i < n; i++)
        y->v[i] = y->v[i] > 0 ? y->v[i] : 0;
}

const Family family_batchnorm = { OP_BATCHNORM, FAMILY_NAN,      0.8,      24,          bn_params,
                                  bn_fixed,     draw_bn_forward, build_bn, fill_forward };
const Family family_batchnorm_bwd = { OP_BATCHNORM_BWD, FAMILY_ACCUMULATES, 0.8,     24,
                                      bn_params,        bn_fixed,           draw_bn, build_bn,
                                      fill_backward };
const Family family_bn_sums = { OP_BN_SUMS, FAMILY_NAN, 0.8,        24,    bn_params,
                                bn_fixed,   draw_bn,    build_sums, fill_x };
const Family family_bn_bwd_sums = { OP_BN_BWD_SUMS, FAMILY_ACCUMULATES, 0.8,     24,
                                    bn_params,      bn_fixed,           draw_bn, build_bn,
                                    fill_backward };
