/* families_fused.c - batch norm in parts, and the convolutions that take over some of them.
 *
 * Exact inputs are +-1, so that squares summed over an image stay below 2^24. Otherwise x lies in
 * two clusters per channel, away from where the ReLU bends (families_norm.c). Channels and windows
 * are those of networks: cuDNN has engines for no others. */
#include "tests/ops/families.h"

#include <math.h>

enum { N, C, H, W, K, R, STRIDE, PROLOGUE };

/* prologue of the forward convolution: 0 none, 1 affine, 2 residual, 3 residual with an affine of
 * its own; of the gradient of x the same, with norms, of the ReLU's input: 0 is 1 there */
static const ParamDef params[] = { { "n", 2 },      { "c", 8 },        { "h", 4 },
                                   { "w", 4 },      { "k", 8 },        { "r", 1 },
                                   { "stride", 1 }, { "prologue", 0 }, { NULL, 0 } };

static const char *const fixed[] = {
    "n=1",
    "c=16 k=32 h=7 w=7",
    "c=16 k=32 h=7 w=7 prologue=1",
    "c=16 k=8 h=6 w=5 r=3 prologue=1",
    "n=1 c=8 k=16 h=7 w=7 r=3 stride=2 prologue=1",
    "n=3 c=24 k=8 h=5 w=5 stride=2",
    "c=32 k=16 h=5 w=5 prologue=2",
    "n=3 c=16 k=40 h=4 w=6 prologue=3",
    "c=13 k=20 h=5 w=5 r=3 prologue=1", /* channels between multiples of 8 */
    "c=12 k=9 h=5 w=5 prologue=3",
    NULL,
};

static void draw(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 4);
    p[C] = draw_channels(rng);
    p[K] = draw_channels(rng);
    p[H] = draw_between(rng, 2, 9);
    p[W] = draw_between(rng, 2, 9);
    p[R] = draw_chance(rng, 2) ? 3 : 1;
    p[STRIDE] = draw_chance(rng, 3) ? 2 : 1;
    p[PROLOGUE] = draw_between(rng, 0, p[R] == 1 && p[STRIDE] == 1 ? 3 : 1);
}

static TensorDesc result_of(const int64_t *p)
{
    const int64_t pad = p[R] / 2;
    return desc_f32(p[N], p[K], (p[H] + 2 * pad - p[R]) / p[STRIDE] + 1,
                    (p[W] + 2 * pad - p[R]) / p[STRIDE] + 1);
}

static void build_conv(const int64_t *p, Problem *out)
{
    const int pad = (int)p[R] / 2, stride = (int)p[STRIDE];
    const TensorDesc x = desc_f32(p[N], p[C], p[H], p[W]), w = desc_f32(p[K], p[C], p[R], p[R]),
                     y = result_of(p), vectors = desc_f32(2, p[C], 0, 0),
                     vector = desc_f32(p[C], 0, 0, 0);
    out->attr.conv = (Conv2dAttr){ stride, stride, pad, pad, pad, pad, 1 };
    if (out->kind == OP_CONV2D_STATS) {
        out->exact = true;
        out->terms = p[C] * p[R] * p[R];
        out->in[CONV_STATS_IN_X] = x;
        out->in[CONV_STATS_IN_W] = w;
        if (p[PROLOGUE] > 0) out->in[CONV_STATS_IN_AFFINE] = vectors;
        if (p[PROLOGUE] > 1) out->in[CONV_STATS_IN_RESIDUAL] = x;
        if (p[PROLOGUE] > 2) out->in[CONV_STATS_IN_RESIDUAL_AFFINE] = vectors;
        out->wanted[CONV_STATS_OUT_Y] = out->wanted[CONV_STATS_OUT_SUMS] = true;
        out->wanted[CONV_STATS_OUT_Z] = p[PROLOGUE] > 1;
    } else if (out->kind == OP_CONV2D_BWD_DATA_NORM) {
        out->terms = p[K] * p[R] * p[R];
        out->in[CONV_BWD_DATA_NORM_IN_DY] = y;
        out->in[CONV_BWD_DATA_NORM_IN_W] = w;
        out->in[CONV_BWD_DATA_NORM_IN_X] = x;
        out->in[CONV_BWD_DATA_NORM_IN_GAMMA] = out->in[CONV_BWD_DATA_NORM_IN_BETA] = vector;
        out->in[CONV_BWD_DATA_NORM_IN_SAVED] = vectors;
        if (p[PROLOGUE] > 1)
            out->in[CONV_BWD_DATA_NORM_IN_DY2] = out->in[CONV_BWD_DATA_NORM_IN_RESIDUAL] = x;
        if (p[PROLOGUE] > 2) {
            out->in[CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA] =
                out->in[CONV_BWD_DATA_NORM_IN_RESIDUAL_BETA] = vector;
            out->in[CONV_BWD_DATA_NORM_IN_RESIDUAL_SAVED] = vectors;
        }
        for (int i = 0; i <= CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS; i++)
            out->wanted[i] = i <= CONV_BWD_DATA_NORM_OUT_COEFFICIENTS || p[PROLOGUE] > 2;
    } else {
        out->exact = true;
        out->terms = y.dims[0] * y.dims[2] * y.dims[3];
        out->in[CONV_BWD_WEIGHTS_NORM_IN_X] = x;
        out->in[CONV_BWD_WEIGHTS_NORM_IN_DY] = y;
        out->in[CONV_BWD_WEIGHTS_NORM_IN_AFFINE] = vectors;
        out->out[CONV_BWD_WEIGHTS_NORM_OUT_DW] = w;
        out->wanted[CONV_BWD_WEIGHTS_NORM_OUT_DW] = true;
    }
}

static void fill_stats(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    (void)problem;
    for (int i = 0; i <= CONV_STATS_IN_RESIDUAL_AFFINE; i++) {
        if (in[i].desc.rank == 0) continue;
        if (mode == MODE_EXACT) fill_integers(&in[i], rng, 1);
        else fill_normal(&in[i], rng, 0.1, 1);
    }
}

static void fill_weights(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    (void)problem;
    for (int i = 0; i <= CONV_BWD_WEIGHTS_NORM_IN_AFFINE; i++) {
        if (mode == MODE_EXACT) fill_integers(&in[i], rng, 1);
        else fill_normal(&in[i], rng, 0.1, 1);
    }
}

static void fill_affine(Host *gamma, Host *beta, Rng *rng)
{
    for (int64_t c = 0; c < gamma->desc.dims[0]; c++) {
        double g = 0.5 + rng_uniform(rng);
        gamma->v[c] = fill_float(draw_chance(rng, 4) ? -g : g);
        beta->v[c] = fill_float(0.1 * g * (2 * rng_uniform(rng) - 1));
    }
}

/* Mean and 1 / deviation of x's channels: that of the clusters, not exactly the batch's. */
static void fill_saved(const Host *x, Host *saved)
{
    const int64_t *d = x->desc.dims, hw = d[2] * d[3], n = d[0] * hw;
    for (int64_t c = 0; c < d[1]; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) sum += x->v[(i / hw * d[1] + c) * hw + i % hw];
        for (int64_t i = 0; i < n; i++) {
            double v = x->v[(i / hw * d[1] + c) * hw + i % hw] - sum / (double)n;
            squares += v * v;
        }
        saved->v[c] = fill_float(sum / (double)n);
        saved->v[d[1] + c] = fill_float(1 / sqrt(squares / (double)n + 1e-5));
    }
}

/* What bn(x), of 0.3 to 2.2, is added to: each of the two decides here or there, and their sum is
 * nowhere near 0. */
static void fill_end(Host *in, Rng *rng)
{
    Host *residual = &in[CONV_BWD_DATA_NORM_IN_RESIDUAL],
         *gamma = &in[CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA],
         *beta = &in[CONV_BWD_DATA_NORM_IN_RESIDUAL_BETA];
    fill_normal(&in[CONV_BWD_DATA_NORM_IN_DY2], rng, 0.1, 1);
    fill_clusters(residual, rng, 0);
    if (gamma->desc.rank == 0) {
        for (int64_t i = 0; i < tensor_elements(&residual->desc); i++) {
            const double sign = draw_chance(rng, 2) ? -1 : 1, u = rng_uniform(rng);
            residual->v[i] = fill_float(sign * (draw_chance(rng, 2) ? 0.2 * u : 3 + u));
        }
        return;
    }
    fill_affine(gamma, beta, rng);
    fill_saved(residual, &in[CONV_BWD_DATA_NORM_IN_RESIDUAL_SAVED]);
    for (int64_t c = 0; c < gamma->desc.dims[0]; c++) {
        const double by = draw_chance(rng, 2) ? 0.1 : 10;
        gamma->v[c] = fill_float(by * gamma->v[c]);
        beta->v[c] = fill_float(by * beta->v[c]);
    }
}

static void fill_data(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    fill_normal(&in[CONV_BWD_DATA_NORM_IN_DY], rng, 0.1, 1);
    fill_normal(&in[CONV_BWD_DATA_NORM_IN_W], rng, 0.1, 1);
    fill_clusters(&in[CONV_BWD_DATA_NORM_IN_X], rng, 0);
    fill_affine(&in[CONV_BWD_DATA_NORM_IN_GAMMA], &in[CONV_BWD_DATA_NORM_IN_BETA], rng);
    fill_saved(&in[CONV_BWD_DATA_NORM_IN_X], &in[CONV_BWD_DATA_NORM_IN_SAVED]);
    if (p[PROLOGUE] > 1) fill_end(in, rng);
}

const Family family_conv2d_stats = { OP_CONV2D_STATS,
                                     FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS,
                                     0.85,
                                     14,
                                     params,
                                     fixed,
                                     draw,
                                     build_conv,
                                     fill_stats };
/* Pixels that a stride skips have no gradient, and half of the rest is behind the ReLU. */
const Family family_conv2d_bwd_data_norm = { OP_CONV2D_BWD_DATA_NORM,
                                             FAMILY_WEIGHTS | FAMILY_ACCUMULATES,
                                             0.95,
                                             14,
                                             params,
                                             fixed,
                                             draw,
                                             build_conv,
                                             fill_data };
const Family family_conv2d_bwd_weights_norm = { OP_CONV2D_BWD_WEIGHTS_NORM,
                                                FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS |
                                                    FAMILY_ACCUMULATES,
                                                0.97,
                                                14,
                                                params,
                                                fixed,
                                                draw,
                                                build_conv,
                                                fill_weights };

/* ---- parts of the norm ---- */
enum { PN, PC, PH, PW, PACT, PRESIDUAL };

static const ParamDef part_params[] = { { "n", 2 },   { "c", 1 },        { "h", 1 }, { "w", 1 },
                                        { "act", 0 }, { "residual", 0 }, { NULL, 0 } };
static const char *const part_fixed[] = {
    "n=2",
    "n=2 c=8 h=4 w=4 act=*",
    "n=2 c=16 h=5 w=7 act=* residual=1",
    "n=3 c=13 h=3 w=3 residual=1",
    "n=1 c=40 h=7 w=7",
    "n=2 c=300 h=2 w=3 act=1", /* more channels than a block has threads */
    NULL,
};

static void draw_part(Rng *rng, int64_t *p)
{
    p[PN] = draw_between(rng, 2, 5);
    p[PC] = draw_channels(rng);
    p[PH] = draw_between(rng, 1, 9);
    p[PW] = draw_between(rng, 1, 9);
    p[PRESIDUAL] = draw_between(rng, 0, 1);
    p[PACT] = draw_normed_act(rng);
    while (p[PRESIDUAL] && !op_act((ActKind)p[PACT])->by_sign) p[PACT] = draw_normed_act(rng);
}

static void build_part(const int64_t *p, Problem *out)
{
    const TensorDesc x = desc_f32(p[PN], p[PC], p[PH], p[PW]), vector = desc_f32(p[PC], 0, 0, 0),
                     vectors = desc_f32(2, p[PC], 0, 0);
    out->terms = 3;
    out->wanted[0] = true;
    if (out->kind == OP_BN_FINALIZE) {
        out->attr.bn_finalize = (BnFinalizeAttr){ 1e-5f, 0.1f, p[PN] * p[PH] * p[PW] };
        out->in[BN_FINALIZE_IN_SUMS] = vectors;
        for (int i = BN_FINALIZE_IN_GAMMA; i <= BN_FINALIZE_IN_RUNNING_VAR; i++)
            out->in[i] = vector;
        out->wanted[BN_FINALIZE_OUT_AFFINE] = p[PACT] != 0;
    } else if (out->kind == OP_BN_APPLY) {
        out->attr.bn = (BatchNormAttr){ 1e-5f, 0.1f, BN_TRAIN, (ActKind)p[PACT], 0 };
        out->in[BN_APPLY_IN_X] = x;
        out->in[BN_APPLY_IN_GAMMA] = out->in[BN_APPLY_IN_BETA] = vector;
        out->in[BN_APPLY_IN_SAVED] = vectors;
        if (p[PRESIDUAL]) out->in[BN_APPLY_IN_RESIDUAL] = x;
    } else {
        out->in[BN_BWD_APPLY_IN_DZ] = out->in[BN_BWD_APPLY_IN_X] = x;
        out->in[BN_BWD_APPLY_IN_COEFFICIENTS] = desc_f32(3, p[PC], 0, 0);
    }
}

/* Sums of values with a mean of about 1 and a variance of 0.5 and more. */
static void fill_finalize(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    const double n = (double)problem->attr.bn_finalize.count;
    (void)mode;
    for (int64_t c = 0; c < p[PC]; c++) {
        const double mean = rng_normal(rng), var = 0.5 + rng_uniform(rng);
        in[BN_FINALIZE_IN_SUMS].v[c] = fill_float(n * mean);
        in[BN_FINALIZE_IN_SUMS].v[p[PC] + c] = fill_float(n * (mean * mean + var));
        in[BN_FINALIZE_IN_RUNNING_MEAN].v[c] = fill_float(rng_normal(rng));
        in[BN_FINALIZE_IN_RUNNING_VAR].v[c] = fill_float(0.5 + rng_uniform(rng));
    }
    fill_affine(&in[BN_FINALIZE_IN_GAMMA], &in[BN_FINALIZE_IN_BETA], rng);
}

static void fill_apply(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    fill_normal(&in[BN_APPLY_IN_X], rng, 0.5, 1);
    if (p[PRESIDUAL]) fill_normal(&in[BN_APPLY_IN_RESIDUAL], rng, 0.1, 1);
    fill_affine(&in[BN_APPLY_IN_GAMMA], &in[BN_APPLY_IN_BETA], rng);
    for (int64_t c = 0; c < p[PC]; c++) {
        in[BN_APPLY_IN_SAVED].v[c] = fill_float(0.5 + 0.1 * rng_normal(rng));
        in[BN_APPLY_IN_SAVED].v[p[PC] + c] = fill_float(0.5 + rng_uniform(rng));
    }
}

const Family family_bn_finalize = { OP_BN_FINALIZE, 0,          0.1,       16,
                                    part_params,    part_fixed, draw_part, build_part,
                                    fill_finalize };
const Family family_bn_apply = { OP_BN_APPLY, FAMILY_NAN, 0.8,        16,        part_params,
                                 part_fixed,  draw_part,  build_part, fill_apply };
const Family family_bn_bwd_apply = { OP_BN_BWD_APPLY, FAMILY_NAN, 0.1,        16,  part_params,
                                     part_fixed,      draw_part,  build_part, NULL };
