/* families_layernorm.c - layer norm and its gradient. */
#include "tests/ops/families.h"

/* offset: mean of x, in its deviations; h 0: x of rank 2. Of two or three channels next to nothing
 * is left of dx but rounding. */
enum { N, C, H, W, OFFSET };

static const ParamDef params[] = { { "n", 1 }, { "c", 5 },      { "h", 1 },
                                   { "w", 1 }, { "offset", 0 }, { NULL, 0 } };
static const char *const fixed[] = { "n=1 c=5",
                                     "n=2 c=1 h=3 w=2", /* no variance: xhat is 0 */
                                     "n=2 c=96 h=7 w=7",
                                     "n=3 c=13 h=4 w=5",
                                     "n=2 c=24 h=3 w=3 offset=100",
                                     "n=1 c=192 h=9 w=9",
                                     "n=1 c=197 h=17 w=1", /* tokens */
                                     "n=5 c=384 h=0 w=0",
                                     "n=3 c=10 h=0 w=0 offset=20",
                                     "n=1 c=768 h=5 w=3",
                                     "n=1 c=1100 h=2 w=2",
                                     "n=1 c=2056 h=3 w=1",
                                     "n=4 c=8 h=65 w=64", /* enough for several blocks */
                                     NULL };

static void draw(Rng *rng, int64_t *p)
{
    const bool rows = draw_chance(rng, 4);
    p[N] = draw_between(rng, 1, 9);
    p[C] = 4 + draw_channels(rng);
    p[H] = rows ? 0 : draw_between(rng, 1, 9);
    p[W] = rows ? 0 : draw_between(rng, 1, 9);
    p[OFFSET] = draw_chance(rng, 4) ? draw_between(rng, -20, 20) : 0;
}

void families_layernorm_build(const int64_t *p, Problem *out)
{
    const TensorDesc x = desc_f32(p[N], p[C], p[H], p[W]), vector = desc_f32(p[C], 0, 0, 0);
    out->attr.layernorm = (LayerNormAttr){ .eps = 1e-5F };
    out->terms = p[C];
    if (out->kind == OP_LAYERNORM || out->kind == OP_GRN) {
        out->in[LAYERNORM_IN_X] = x;
        out->in[LAYERNORM_IN_GAMMA] = out->in[LAYERNORM_IN_BETA] = vector;
        out->wanted[LAYERNORM_OUT_Y] = true;
        return;
    }
    out->in[LAYERNORM_BWD_IN_DY] = out->in[LAYERNORM_BWD_IN_X] = x;
    out->in[LAYERNORM_BWD_IN_GAMMA] = vector;
    for (int i = 0; i <= LAYERNORM_BWD_OUT_DBETA; i++) out->wanted[i] = true;
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    fill_normal(&in[problem->kind == OP_LAYERNORM ? (int)LAYERNORM_IN_X : (int)LAYERNORM_BWD_IN_X],
                rng, (double)p[OFFSET], 1);
}

/* Of one channel everything but beta's part is zero. */
const Family family_layernorm = { OP_LAYERNORM, FAMILY_NAN, 1,    12,
                                  params,       fixed,      draw, families_layernorm_build,
                                  fill };
const Family family_layernorm_bwd = { OP_LAYERNORM_BWD,
                                      FAMILY_NAN | FAMILY_ACCUMULATES,
                                      1,
                                      12,
                                      params,
                                      fixed,
                                      draw,
                                      families_layernorm_build,
                                      fill };
