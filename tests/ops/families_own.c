/* families_own.c - batch norms with what our own kernels do beside them: max pooling, and signs of
 * what is made as bits.
 *
 * Within any window x has values that are all different, by more than what rounding of the norm can
 * change, in two clusters away from where the ReLU bends: which of them is the largest is no matter
 * of rounding. All that the ReLU cuts off is equal: the first of it wins. */
#include "tests/ops/families.h"

#include <math.h>

enum { N, C, H, W, WH, WW, SH, SW, PH, PW };

static const ParamDef pool_params[] = { { "n", 2 },  { "c", 1 },  { "h", 4 },  { "w", 4 },
                                        { "wh", 3 }, { "ww", 3 }, { "sh", 2 }, { "sw", 2 },
                                        { "ph", 1 }, { "pw", 1 }, { NULL, 0 } };

static const char *const pool_fixed[] = {
    "n=2 c=64 h=12 w=12", /* the ImageNet stem */
    "n=1 c=8",
    "n=2 c=13 h=9 w=8", /* channels of padding */
    "n=2 c=24 h=5 w=7 wh=2 ww=2 ph=0 pw=0",
    "n=3 c=16 h=6 w=5 sh=1 sw=1",
    "n=2 c=5 h=2 w=3 wh=4 ww=4 sh=1 sw=3 ph=2 pw=1",
    "n=7 c=8 h=3 w=3",   /* more images than a thread goes through */
    "n=2 c=272 h=4 w=4", /* more vectors than a block is wide */
    NULL,
};

static void draw_axis(Rng *rng, int64_t *size, int64_t *kernel_size, int64_t *stride, int64_t *pad)
{
    *kernel_size = draw_between(rng, 1, 4);
    *stride = draw_between(rng, 1, 3);
    *pad = draw_between(rng, 0, *kernel_size / 2);
    *size = draw_between(rng, 2, 12);
    if (*size + 2 * *pad < *kernel_size) *size = *kernel_size;
}

static void draw_pool(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 6);
    p[C] = draw_channels(rng);
    draw_axis(rng, &p[H], &p[WH], &p[SH], &p[PH]);
    draw_axis(rng, &p[W], &p[WW], &p[SW], &p[PW]);
}

static void build_pool(const int64_t *p, Problem *out)
{
    const TensorDesc x = desc_f32(p[N], p[C], p[H], p[W]), vector = desc_f32(p[C], 0, 0, 0);
    TensorDesc y = x;
    y.dims[2] = (p[H] + 2 * p[PH] - p[WH]) / p[SH] + 1;
    y.dims[3] = (p[W] + 2 * p[PW] - p[WW]) / p[SW] + 1;
    out->attr.bn_pool = (BnPoolAttr){ { 1e-5f, 0.1f, BN_TRAIN, ACT_RELU, 0 },
                                      { POOL_MAX, (int)p[WH], (int)p[WW], (int)p[SH], (int)p[SW],
                                        (int)p[PH], (int)p[PW] } };
    out->terms = p[N] * p[H] * p[W];
    for (int i = 0; i < 3; i++) out->wanted[i] = true;
    if (out->kind == OP_BN_POOL) {
        out->in[BN_IN_X] = x;
        for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++) out->in[i] = vector;
        return;
    }
    out->in[BN_BWD_IN_DY] = out->in[BN_POOL_BWD_IN_INDEX] = y;
    out->in[BN_POOL_BWD_IN_INDEX].dtype = DTYPE_U8;
    out->in[BN_BWD_IN_X] = x;
    out->in[BN_BWD_IN_GAMMA] = out->in[BN_BWD_IN_BETA] = vector;
    out->in[BN_BWD_IN_SAVED] = desc_f32(2, p[C], 0, 0);
}

/* Sixteen values, of which no two stand in one window: half of them below the middle. */
static void fill_apart(Host *x, Rng *rng)
{
    const int64_t *d = x->desc.dims;
    for (int64_t i = 0, n = tensor_elements(&x->desc), first = 0; i < n; i++) {
        if (i % (d[2] * d[3]) == 0) first = (int64_t)rng_below(rng, 16);
        const int64_t w = i % d[3], h = i / d[3] % d[2];
        const double level = (double)((first + 4 * (h % 4) + w % 4) * 7 % 16);
        x->v[i] = level < 8 ? -1 - level / 8 : level / 8;
    }
}

static void fill_affine(Host *gamma, Host *beta, Rng *rng)
{
    for (int64_t c = 0; c < gamma->desc.dims[0]; c++) {
        const double g = 0.5 + rng_uniform(rng);
        gamma->v[c] = fill_float(draw_chance(rng, 4) ? -g : g);
        beta->v[c] = fill_float(0.02 * g * (2 * rng_uniform(rng) - 1));
    }
}

static void fill_running(Host *in, Rng *rng)
{
    for (int64_t c = 0; c < in[BN_IN_RUNNING_MEAN].desc.dims[0]; c++) {
        in[BN_IN_RUNNING_MEAN].v[c] = fill_float(rng_normal(rng));
        in[BN_IN_RUNNING_VAR].v[c] = fill_float(0.5 + rng_uniform(rng));
    }
}

static void fill_forward(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    (void)problem;
    (void)mode;
    fill_apart(&in[BN_IN_X], rng);
    fill_affine(&in[BN_IN_GAMMA], &in[BN_IN_BETA], rng);
    fill_running(in, rng);
}

/* Any place of a window that lies in the image. */
static void fill_index(const int64_t *p, Host *index, Rng *rng)
{
    const int64_t *d = index->desc.dims;
    for (int64_t i = 0, n = tensor_elements(&index->desc); i < n; i++) {
        const int64_t left = i % d[3] * p[SW] - p[PW], top = i / d[3] % d[2] * p[SH] - p[PH];
        int64_t r, s;
        do r = draw_between(rng, 0, p[WH] - 1);
        while (top + r < 0 || top + r >= p[H]);
        do s = draw_between(rng, 0, p[WW] - 1);
        while (left + s < 0 || left + s >= p[W]);
        index->v[i] = (double)(r * p[WW] + s);
    }
}

static void fill_backward(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    fill_normal(&in[BN_BWD_IN_DY], rng, 0.3, 1);
    fill_apart(&in[BN_BWD_IN_X], rng);
    fill_affine(&in[BN_BWD_IN_GAMMA], &in[BN_BWD_IN_BETA], rng);
    fill_index(p, &in[BN_POOL_BWD_IN_INDEX], rng);
    for (int64_t c = 0; c < p[C]; c++) {
        in[BN_BWD_IN_SAVED].v[c] = fill_float(-0.05 + 0.1 * rng_uniform(rng));
        in[BN_BWD_IN_SAVED].v[p[C] + c] = fill_float(0.6 + 0.2 * rng_uniform(rng));
    }
}

const Family family_bn_pool = { OP_BN_POOL, FAMILY_NAN, 0.95,       20,          pool_params,
                                pool_fixed, draw_pool,  build_pool, fill_forward };
const Family family_bn_pool_bwd = { OP_BN_POOL_BWD, FAMILY_ACCUMULATES, 0.98,      20,
                                    pool_params,    pool_fixed,         draw_pool, build_pool,
                                    fill_backward };

/* ---- signs ---- */

enum { SHARES = 4, DRESIDUAL, SHORTCUT = SHARES };

static const ParamDef end_params[] = { { "n", 2 }, { "c", 1 },        { "h", 4 },
                                       { "w", 4 }, { "shortcut", 0 }, { NULL, 0 } };

static const char *const end_fixed[] = {
    "n=2 c=64 h=7 w=7",
    "n=2 c=64 h=7 w=7 shortcut=1", /* the first block of a stage */
    "n=1 c=8",
    "n=2 c=13 h=9 w=8 shortcut=1",    /* bits and channels of padding */
    "n=2 c=272 h=4 w=4 shortcut=1",   /* more vectors than a block is wide */
    "n=40 c=16 h=14 w=14 shortcut=1", /* more rows than a thread adds up in f32 */
    NULL,
};

static void draw_end(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 6);
    p[C] = draw_channels(rng);
    p[H] = draw_between(rng, 2, 12);
    p[W] = draw_between(rng, 2, 12);
    p[SHORTCUT] = draw_between(rng, 0, 1);
}

static const ParamDef signs_params[] = { { "n", 2 }, { "c", 1 },      { "h", 4 },
                                         { "w", 4 }, { "shares", 1 }, { "dresidual", 1 },
                                         { NULL, 0 } };

static const char *const signs_fixed[] = {
    "n=2 c=64 h=7 w=7 shares=2", /* the end of a block of ResNet-50, where two blocks read it */
    "n=1 c=8 dresidual=0",
    "n=2 c=13 h=9 w=8", /* bits and channels of padding */
    "n=3 c=24 h=5 w=7 shares=2 dresidual=0",
    "n=2 c=272 h=4 w=4",   /* more vectors than a block is wide */
    "n=40 c=16 h=14 w=14", /* more rows than a thread adds up in f32 */
    NULL,
};

static void draw_signs(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 6);
    p[C] = draw_channels(rng);
    p[H] = draw_between(rng, 2, 12);
    p[W] = draw_between(rng, 2, 12);
    p[SHARES] = draw_between(rng, 1, 2);
    p[DRESIDUAL] = draw_between(rng, 0, 1);
}

static void build_end(const int64_t *p, Problem *out)
{
    const TensorDesc x = desc_f32(p[N], p[C], p[H], p[W]), vector = desc_f32(p[C], 0, 0, 0);
    out->attr.bn = (BatchNormAttr){ 1e-5f, 0.1f, BN_TRAIN, ACT_RELU, 0 };
    out->terms = p[N] * p[H] * p[W];
    out->in[BN_IN_X] = x;
    out->in[BN_IN_RUNNING_MEAN] = out->in[BN_IN_RUNNING_VAR] = vector;
    out->wanted[BN_OUT_SAVED] = true;
    if (out->kind == OP_BN_STATISTICS) {
        out->attr.bn.act = ACT_NONE;
        return;
    }
    out->wanted[BN_OUT_Y] = out->wanted[BN_SIGNS_OUT_SIGNS] = true;
    out->in[BN_IN_RESIDUAL] = x;
    out->in[BN_IN_GAMMA] = out->in[BN_IN_BETA] = vector;
    if (!p[SHORTCUT]) return;
    out->in[BN_SIGNS_IN_RESIDUAL_GAMMA] = out->in[BN_SIGNS_IN_RESIDUAL_BETA] = vector;
    out->in[BN_SIGNS_IN_RESIDUAL_SAVED] = desc_f32(2, p[C], 0, 0);
}

static void build_signs(const int64_t *p, Problem *out)
{
    const TensorDesc x = desc_f32(p[N], p[C], p[H], p[W]), vector = desc_f32(p[C], 0, 0, 0);
    out->attr.bn = (BatchNormAttr){ 1e-5f, 0.1f, BN_TRAIN, ACT_RELU, 0 };
    out->terms = p[N] * p[H] * p[W];
    for (int i = 0; i < 3; i++) out->wanted[i] = true;
    out->wanted[BN_BWD_OUT_DRESIDUAL] = p[DRESIDUAL];
    out->in[BN_BWD_IN_DY] = out->in[BN_BWD_IN_X] = x;
    if (p[SHARES] == 2) out->in[BN_BWD_IN_DY2] = x;
    out->in[BN_SIGNS_BWD_IN_SIGNS] = desc_f32(p[N] * p[H] * p[W] * ((p[C] + 7) / 8), 0, 0, 0);
    out->in[BN_SIGNS_BWD_IN_SIGNS].dtype = DTYPE_U8;
    out->in[BN_BWD_IN_GAMMA] = out->in[BN_BWD_IN_BETA] = vector;
    out->in[BN_BWD_IN_SAVED] = desc_f32(2, p[C], 0, 0);
}

static void fill_statistics(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    (void)problem;
    (void)mode;
    fill_normal(&in[BN_IN_X], rng, 0.3, 1);
    fill_running(in, rng);
}

/* What is added is small: no sum comes near where the ReLU bends. */
static void fill_end(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    Host *residual = &in[BN_IN_RESIDUAL];
    fill_forward(p, problem, mode, rng, in);
    for (int64_t i = 0, n = tensor_elements(&residual->desc); i < n; i++)
        residual->v[i] = fill_float(0.1 * (2 * rng_uniform(rng) - 1));
    if (!p[SHORTCUT]) return;
    fill_affine(&in[BN_SIGNS_IN_RESIDUAL_GAMMA], &in[BN_SIGNS_IN_RESIDUAL_BETA], rng);
    for (int64_t c = 0; c < p[C]; c++) {
        in[BN_SIGNS_IN_RESIDUAL_SAVED].v[c] = fill_float(0.02 * (2 * rng_uniform(rng) - 1));
        in[BN_SIGNS_IN_RESIDUAL_SAVED].v[p[C] + c] = fill_float(0.6 + 0.2 * rng_uniform(rng));
    }
}

static void fill_signs_bwd(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    Host *signs = &in[BN_SIGNS_BWD_IN_SIGNS];
    const int64_t bytes = (p[C] + 7) / 8, last = p[C] - 8 * (bytes - 1);
    (void)problem;
    (void)mode;
    fill_normal(&in[BN_BWD_IN_DY], rng, 0.3, 1);
    if (p[SHARES] == 2) fill_normal(&in[BN_BWD_IN_DY2], rng, 0.3, 1);
    fill_apart(&in[BN_BWD_IN_X], rng);
    fill_affine(&in[BN_BWD_IN_GAMMA], &in[BN_BWD_IN_BETA], rng);
    for (int64_t i = 0, n = tensor_elements(&signs->desc); i < n; i++)
        signs->v[i] = (double)rng_below(rng, i % bytes == bytes - 1 ? 1U << last : 256);
    for (int64_t c = 0; c < p[C]; c++) {
        in[BN_BWD_IN_SAVED].v[c] = fill_float(-0.05 + 0.1 * rng_uniform(rng));
        in[BN_BWD_IN_SAVED].v[p[C] + c] = fill_float(0.6 + 0.2 * rng_uniform(rng));
    }
}

const Family family_bn_statistics = { OP_BN_STATISTICS, FAMILY_NAN, 0.95,     20,
                                      end_params,       end_fixed,  draw_end, build_end,
                                      fill_statistics };
const Family family_bn_signs = { OP_BN_SIGNS, FAMILY_NAN, 0.95,      20,      end_params,
                                 end_fixed,   draw_end,   build_end, fill_end };
const Family family_bn_signs_bwd = { OP_BN_SIGNS_BWD, FAMILY_ACCUMULATES, 0.98,       20,
                                     signs_params,    signs_fixed,        draw_signs, build_signs,
                                     fill_signs_bwd };
