/* families_average.c - averaged copies of weights: how far they move, when they do not, and that
 * two change places. mode: of LerpMode; weight: in thousandths, below 0 for no turn; skip: 1 where
 * the gradients of the step are not finite, 0 where they are, -1 without a loss scale. */
#include "tests/ops/families.h"

#include <math.h>

enum { LP_MODE, LP_COUNT, LP_WEIGHT, LP_SKIP, LP_SCALAR };

static const ParamDef params[] = { { "mode", 0 },  { "count", 1 },  { "weight", 250 },
                                   { "skip", -1 }, { "scalar", 0 }, { NULL, 0 } };
static const char *const fixed[] = {
    "mode=0 count=1",
    "mode=1 count=3 weight=500",
    "mode=2 count=4",
    "mode=0 count=1003 weight=0",
    "mode=0 count=1003 weight=1000",
    "mode=0 count=1003 weight=-1000",
    "mode=1 count=1003 weight=0 scalar=1",
    "mode=1 count=1003 weight=1000",
    "mode=1 count=1003 weight=-1000",
    "mode=2 count=1003 weight=-1000 skip=1",
    "mode=0 count=4096 weight=499",
    "mode=0 count=4097 weight=501 scalar=1",
    "mode=0 count=1003 weight=125 skip=1", /* a step that is none */
    "mode=1 count=1003 weight=125 skip=1",
    "mode=1 count=1003 weight=0 skip=1", /* the end of a run even so */
    "mode=0 count=1003 weight=1 skip=0",
    "mode=0 count=100003 weight=375",
    "mode=1 count=100003 weight=875 skip=0 scalar=1",
    "mode=2 count=100003",
    NULL,
};

static void draw(Rng *rng, int64_t *p)
{
    p[LP_MODE] = draw_between(rng, 0, LERP_MODE_COUNT - 1);
    p[LP_COUNT] = draw_between(rng, 1, 20000);
    p[LP_WEIGHT] = draw_chance(rng, 5) ? -1000 : draw_between(rng, 0, 1000);
    p[LP_SKIP] = draw_between(rng, -1, 1);
    p[LP_SCALAR] = draw_between(rng, 0, 1);
}

static void build(const int64_t *p, Problem *out)
{
    out->attr.lerp = (LerpAttr){ .mode = (LerpMode)p[LP_MODE],
                                 .weight = p[LP_SCALAR] ? SCALAR_LOOKAHEAD : SCALAR_EMA };
    out->in[LERP_IN_AVERAGE] = out->in[LERP_IN_X] = desc_f32(p[LP_COUNT], 0, 0, 0);
    out->in[LERP_IN_SCALARS] = desc_f32(SCALAR_COUNT, 0, 0, 0);
    if (p[LP_SKIP] >= 0) out->in[LERP_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    out->terms = 2;
    out->exact = p[LP_WEIGHT] % 125 == 0;
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    for (int i = 0; i < SCALAR_COUNT; i++) in[LERP_IN_SCALARS].v[i] = 0.75;
    in[LERP_IN_SCALARS].v[problem->attr.lerp.weight] = fill_float((double)p[LP_WEIGHT] / 1000);
    if (p[LP_SKIP] >= 0)
        for (int i = 0; i < LOSS_SCALE_COUNT; i++)
            in[LERP_IN_LOSS_SCALE].v[i] = i == LOSS_SCALE_FOUND_INF ? (double)p[LP_SKIP] : 16;
}

const Family family_lerp = { OP_LERP, FAMILY_EXACT, 0.2, 16, params, fixed, draw, build, fill };
