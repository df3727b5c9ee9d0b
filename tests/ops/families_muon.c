/* families_muon.c - Muon's direction. */
#include "tests/ops/families.h"

/* ---- muon: rows of c r s columns, rank: of the tensor; momentum and clip (the factor of clipping,
 * 0 for none) in thousandths; scale: the loss scale, 0 for none; skip: the gradients are said not
 * to be finite; size: of gradients, in millionths ---- */
enum { ROWS, C, R, S, RANK, MOMENTUM, NESTEROV, SCALE, SKIP, CLIP, SIZE };

static const ParamDef muon_params[] = { { "rows", 8 },     { "c", 8 },          { "r", 1 },
                                        { "s", 1 },        { "rank", 4 },       { "momentum", 900 },
                                        { "nesterov", 0 }, { "scale", 0 },      { "skip", 0 },
                                        { "clip", 0 },     { "size", 1000000 }, { NULL, 0 } };
static const char *const muon_fixed[] = {
    "rows=4 c=4 rank=2",
    "rows=16 c=8 r=3 s=3",
    "rows=24 c=8 r=3 s=3 nesterov=1",
    "rows=64 c=16",         /* more rows than columns */
    "rows=100 c=13 rank=2", /* whose numbers end in no vector */
    "rows=10 c=64 rank=2 momentum=0",
    "rows=16 c=3 r=7 s=7 scale=1024 clip=250",
    "rows=16 c=16 scale=1024 skip=1",
    "rows=40 c=40 rank=2 size=0",
    "rows=16 c=16 momentum=0 size=1", /* a norm near eps */
    "rows=8 c=600 rank=2",            /* sums longer than a piece of them */
    NULL,
};

static void draw_muon(Rng *rng, int64_t *p)
{
    p[ROWS] = draw_between(rng, 4, 60);
    p[C] = draw_between(rng, 4, 60);
    p[RANK] = draw_chance(rng, 2) ? 2 : 4;
    if (p[RANK] == 4) p[R] = draw_between(rng, 1, 3);
    if (p[RANK] == 4) p[S] = draw_between(rng, 1, 3);
    p[MOMENTUM] = draw_between(rng, 0, 990);
    p[NESTEROV] = draw_between(rng, 0, 1);
    p[SCALE] = draw_chance(rng, 3) ? draw_between(rng, 1, 2000) : 0;
    p[CLIP] = draw_chance(rng, 3) ? draw_between(rng, 1, 1000) : 0;
}

static void build_muon(const int64_t *p, Problem *out)
{
    const bool flat = p[RANK] == 2;
    const TensorDesc t = desc_f32(p[ROWS], p[C], flat ? 0 : p[R], flat ? 0 : p[S]);
    out->attr.muon = (MuonAttr){ (double)p[MOMENTUM] / 1000, 1e-7F, p[NESTEROV] != 0 };
    out->in[MUON_IN_GRAD] = out->in[MUON_IN_MOMENTUM] = t;
    if (p[SCALE]) out->in[MUON_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    if (p[CLIP]) out->in[MUON_IN_CLIP] = desc_f32(CLIP_COUNT, 0, 0, 0);
    out->terms = p[C] * p[R] * p[S];
}

static void fill_muon(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *grad = &in[MUON_IN_GRAD], *momentum = &in[MUON_IN_MOMENTUM];
    const double size = (double)p[SIZE] / 1e6;
    for (int64_t i = 0; i < tensor_elements(&grad->desc); i++) {
        grad->v[i] = fill_float(grad->v[i] * size * (p[SCALE] ? (double)p[SCALE] : 1));
        momentum->v[i] = fill_float(momentum->v[i] * size);
    }
    if (p[CLIP]) in[MUON_IN_CLIP].v[CLIP_FACTOR] = fill_float((double)p[CLIP] / 1000);
    if (!p[SCALE]) return;
    in[MUON_IN_LOSS_SCALE].v[LOSS_SCALE_SCALE] = (double)p[SCALE];
    in[MUON_IN_LOSS_SCALE].v[LOSS_SCALE_FOUND_INF] = (double)p[SKIP];
}

const Family family_muon = { OP_MUON,    0,         1,          16,       muon_params,
                             muon_fixed, draw_muon, build_muon, fill_muon };
