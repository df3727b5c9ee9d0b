/* families_grn.c - global response normalisation and its gradient. */
#include "tests/ops/families.h"

/* zero: a channel of zeros, whose norm is 0 */
enum { N, C, H, W, ZERO };

static const ParamDef params[] = { { "n", 1 }, { "c", 5 },    { "h", 1 },
                                   { "w", 1 }, { "zero", 0 }, { NULL, 0 } };
static const char *const fixed[] = { "n=1 c=5",
                                     "n=2 c=1 h=3 w=2",
                                     "n=2 c=96 h=7 w=7",
                                     "n=3 c=13 h=4 w=5 zero=1",
                                     "n=5 c=40 h=14 w=14",
                                     "n=1 c=160 h=33 w=20",
                                     "n=1 c=197 h=17 w=1",
                                     "n=1 c=1100 h=2 w=2 zero=1",
                                     "n=1 c=4096 h=3 w=1",
                                     "n=70 c=8 h=2 w=2",
                                     "n=1 c=8 h=130 w=64", /* enough for several blocks */
                                     NULL };

static void draw(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 9);
    p[C] = draw_channels(rng);
    p[H] = draw_between(rng, 1, 9);
    p[W] = draw_between(rng, 1, 9);
    p[ZERO] = p[C] > 1 && draw_chance(rng, 4);
}

/* Terms of a sum: the positions of an image. */
static void build(const int64_t *p, Problem *out)
{
    families_layernorm_build(p, out);
    out->attr.layernorm.eps = 1e-6F;
    out->terms = p[H] * p[W];
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *x = &in[problem->kind == OP_GRN ? (int)LAYERNORM_IN_X : (int)LAYERNORM_BWD_IN_X];
    fill_normal(x, rng, 0, 1);
    for (int64_t i = 0; p[ZERO] && i < p[H] * p[W]; i++) x->v[i] = 0;
}

const Family family_grn = { OP_GRN, FAMILY_NAN, 1, 12, params, fixed, draw, build, fill };
const Family family_grn_bwd = {
    OP_GRN_BWD, FAMILY_NAN | FAMILY_ACCUMULATES, 1, 12, params, fixed, draw, build, fill
};
