/* families_scale.c - the dynamic loss scale: the search for what is not finite, and the rule that
 * moves the scale; and the norm of all gradients, in its two passes. */
#include "tests/ops/families.h"

#include <math.h>

static void fill_state(Host *state, double scale, int64_t good, int64_t found, int64_t skipped)
{
    state->v[LOSS_SCALE_SCALE] = scale;
    state->v[LOSS_SCALE_GOOD_STEPS] = (double)good;
    state->v[LOSS_SCALE_FOUND_INF] = (double)found;
    state->v[LOSS_SCALE_SKIPPED] = (double)skipped;
}

/* ---- finite_check: bad 0 none, 1 infinity, 2 its negative, 3 NaN, 4 the largest numbers there
 * are; at: where, in thousandths; found: what the state says before ---- */
enum { FC_COUNT, FC_BAD, FC_AT, FC_FOUND };

static const ParamDef finite_params[] = {
    { "count", 1 }, { "bad", 0 }, { "at", 0 }, { "found", 0 }, { NULL, 0 }
};
static const char *const finite_fixed[] = {
    "count=1",
    "count=1 bad=1",
    "count=1 bad=3",
    "count=1000 bad=4",
    "count=1000 bad=4 found=1",
    "count=1000 bad=2 at=999",
    "count=1003 bad=3 at=1000", /* the last element, behind the last vector */
    "count=1003 bad=1 at=0",
    "count=100003 bad=1 at=500",
    "count=100003 bad=3 at=1000",
    "count=100003 bad=4",
    "count=100003 found=1",
    NULL,
};

static void draw_finite(Rng *rng, int64_t *p)
{
    p[FC_COUNT] = draw_between(rng, 1, 30000);
    p[FC_BAD] = draw_between(rng, 0, 4);
    p[FC_AT] = draw_between(rng, 0, 1000);
    p[FC_FOUND] = draw_chance(rng, 4);
}

static void build_finite(const int64_t *p, Problem *out)
{
    out->in[FINITE_CHECK_IN_X] = desc_f32(p[FC_COUNT], 0, 0, 0);
    out->in[FINITE_CHECK_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    out->terms = 1;
}

static void fill_finite(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    static const double bad[] = { 0, INFINITY, -INFINITY, NAN, 3.4028234663852886e38 };
    fill_default(problem, mode, rng, in);
    Host *x = &in[FINITE_CHECK_IN_X];
    int64_t at = p[FC_AT] * (p[FC_COUNT] - 1) / 1000;
    if (p[FC_BAD]) x->v[at] = bad[p[FC_BAD]];
    if (p[FC_BAD] == 4) x->v[p[FC_COUNT] - 1 - at] = -bad[4];
    fill_state(&in[FINITE_CHECK_IN_LOSS_SCALE], 1024, 5, p[FC_FOUND], 2);
}

const Family family_finite_check = {
    OP_FINITE_CHECK, 0, 1, 12, finite_params, finite_fixed, draw_finite, build_finite, fill_finite
};

/* ---- loss_scale: exponent of the scale; growth and backoff in thousandths; max: exponent of the
 * largest scale ---- */
enum { LS_SCALE, LS_GOOD, LS_FOUND, LS_SKIPPED, LS_INTERVAL, LS_GROWTH, LS_BACKOFF, LS_MAX };

static const ParamDef scale_params[] = { { "scale", 16 },    { "good", 0 },      { "found", 0 },
                                         { "skipped", 0 },   { "interval", 10 }, { "growth", 2000 },
                                         { "backoff", 500 }, { "max", 24 },      { NULL, 0 } };
static const char *const scale_fixed[] = {
    "scale=16",
    "good=8",
    "good=9",          /* grows */
    "good=9 found=1",  /* does not */
    "good=9 scale=24", /* cannot grow further */
    "good=9 scale=23 growth=3000",
    "good=4 found=1 skipped=7",
    "scale=0 found=1",
    "interval=1",
    "interval=1 growth=1125 backoff=333",
    "found=1 growth=1125 backoff=333",
    NULL,
};

static void draw_scale(Rng *rng, int64_t *p)
{
    p[LS_SCALE] = draw_between(rng, 0, 24);
    p[LS_INTERVAL] = draw_between(rng, 1, 5);
    p[LS_GOOD] = draw_between(rng, 0, p[LS_INTERVAL] - 1);
    p[LS_FOUND] = draw_chance(rng, 3);
    p[LS_SKIPPED] = draw_between(rng, 0, 100);
    p[LS_GROWTH] = draw_between(rng, 1000, 3000);
    p[LS_BACKOFF] = draw_between(rng, 100, 1000);
    p[LS_MAX] = 24;
}

static void build_scale(const int64_t *p, Problem *out)
{
    out->attr.loss_scale = (LossScaleAttr){ .growth = (float)((double)p[LS_GROWTH] / 1000),
                                            .backoff = (float)((double)p[LS_BACKOFF] / 1000),
                                            .max = ldexpf(1, (int)p[LS_MAX]),
                                            .interval = (int)p[LS_INTERVAL] };
    out->in[LOSS_SCALE_IN_STATE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    out->terms = 1;
}

static void fill_scale(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    (void)rng;
    fill_state(&in[LOSS_SCALE_IN_STATE], ldexp(1, (int)p[LS_SCALE]), p[LS_GOOD], p[LS_FOUND],
               p[LS_SKIPPED]);
}

const Family family_loss_scale = { OP_LOSS_SCALE, 0,          1,           12,        scale_params,
                                   scale_fixed,   draw_scale, build_scale, fill_scale };

/* ---- grad_squares ---- */

static const ParamDef squares_params[] = { { "count", 1 }, { NULL, 0 } };
static const char *const squares_fixed[] = {
    "count=1",    "count=3",     "count=4",      "count=1003",   "count=8191", "count=8192",
    "count=8193", "count=16384", "count=100003", "count=300001", NULL,
};

static void draw_squares(Rng *rng, int64_t *p)
{
    p[0] = draw_between(rng, 1, 40000);
}

static void build_squares(const int64_t *p, Problem *out)
{
    out->in[GRAD_SQUARES_IN_X] = desc_f32(p[0], 0, 0, 0);
    out->wanted[GRAD_SQUARES_OUT_SUMS] = true;
    out->terms = p[0] < GRAD_SQUARES_CHUNK ? p[0] : GRAD_SQUARES_CHUNK;
    out->exact = true;
}

const Family family_grad_squares = { OP_GRAD_SQUARES,
                                     FAMILY_EXACT | FAMILY_NAN,
                                     0,
                                     8,
                                     squares_params,
                                     squares_fixed,
                                     draw_squares,
                                     build_squares,
                                     NULL };

/* ---- grad_norm: max_norm in thousandths; size: of each sum, in thousandths, -1 for infinity;
 * scale: the loss scale, 0 for none; length in thousandths; exact: no 1e-6 beside the norm ---- */
enum { GN_COUNT, GN_MAX, GN_SIZE, GN_SCALE, GN_LENGTH, GN_EXACT };

static const ParamDef norm_params[] = { { "count", 1 }, { "max_norm", 1000 }, { "size", 1000 },
                                        { "scale", 0 }, { "length", 0 },      { "exact", 0 },
                                        { NULL, 0 } };
static const char *const norm_fixed[] = {
    "count=1",
    "count=1 max_norm=0",
    "count=1 size=0",           /* no gradient at all */
    "count=100 max_norm=2500",  /* too long */
    "count=100 max_norm=50000", /* not too long */
    "count=100 max_norm=0 size=5",
    "count=257 max_norm=100 size=40000",
    "count=1000 scale=1024",
    "count=1000 max_norm=100000 scale=96",
    "count=3200 max_norm=1 scale=65536",
    "count=100 length=50", /* shrunk to it, or made longer */
    "count=100 length=50000",
    "count=1000 length=500 scale=96 max_norm=1",
    "count=20 size=-1 length=50",
    "count=20 size=-1",
    "count=20 size=-1 scale=1024 max_norm=5",
    "count=1 size=0 exact=1",
    "count=257 max_norm=100 size=40000 exact=1",
    "count=3 max_norm=1 size=1 exact=1 scale=65536",
    NULL,
};

static void draw_norm(Rng *rng, int64_t *p)
{
    p[GN_COUNT] = draw_between(rng, 1, 5000);
    p[GN_MAX] = draw_chance(rng, 4) ? 0 : draw_between(rng, 1, 20000);
    p[GN_SIZE] = draw_between(rng, 1, 20000);
    p[GN_SCALE] = draw_chance(rng, 3) ? draw_between(rng, 1, 2000) : 0;
    p[GN_LENGTH] = draw_chance(rng, 4) ? draw_between(rng, 1, 2000) : 0;
    p[GN_EXACT] = draw_chance(rng, 2);
}

static void build_norm(const int64_t *p, Problem *out)
{
    out->attr.grad_norm = (GradNormAttr){ .max_norm = (float)((double)p[GN_MAX] / 1000),
                                          .eps = p[GN_EXACT] ? 0 : 1e-6,
                                          .length = (float)((double)p[GN_LENGTH] / 1000) };
    out->in[GRAD_NORM_IN_SUMS] = tensor_desc(DTYPE_F64, 1, &p[GN_COUNT]);
    if (p[GN_SCALE]) out->in[GRAD_NORM_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    out->wanted[GRAD_NORM_OUT_CLIP] = true;
    out->terms = p[GN_COUNT];
}

static void fill_norm(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    double size = p[GN_SIZE] < 0 ? (double)INFINITY : (double)p[GN_SIZE] / 1000;
    (void)problem;
    (void)mode;
    for (int64_t k = 0; k < p[GN_COUNT]; k++)
        in[GRAD_NORM_IN_SUMS].v[k] = size * (0.5 + rng_uniform(rng));
    if (p[GN_SCALE]) fill_state(&in[GRAD_NORM_IN_LOSS_SCALE], (double)p[GN_SCALE], 5, 0, 2);
}

const Family family_grad_norm = { OP_GRAD_NORM, FAMILY_NAN, 1,          12,       norm_params,
                                  norm_fixed,   draw_norm,  build_norm, fill_norm };
