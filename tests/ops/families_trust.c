/* families_trust.c - the trust ratios of LARS and LAMB. */
#include "kernels/ops/update.h"
#include "tests/ops/families.h"

static const UpdateKind trusting[] = { UPDATE_LARS, UPDATE_LARS_MLPERF, UPDATE_LAMB };
enum { TRUSTING = sizeof trusting / sizeof *trusting };

/* ---- trust_ratio: rule: index of trusting; gap: elements between segments that belong to none;
 * decay, clip (the factor of clipping, 0 for none) and param (the size of weights) in thousandths;
 * scale: the loss scale, 0 for none; trust_clip; every third segment does not adapt, unless it is
 * the only one ---- */
enum { RULE, COUNT, SEGMENTS, GAP, DECAY, SCALE, CLIP, PARAM, TRUST_CLIP };

static const ParamDef trust_params[] = { { "rule", 0 }, { "count", 10 },   { "segments", 1 },
                                         { "gap", 0 },  { "decay", 0 },    { "scale", 0 },
                                         { "clip", 0 }, { "param", 1000 }, { "trust_clip", 0 },
                                         { NULL, 0 } };
static const char *const trust_fixed[] = {
    "count=1",
    "count=1003 segments=3 gap=5",
    "count=100 param=0",        /* all weights are zero */
    "rule=2 count=100 param=0", /* no decay: what there is to divide is zero */
    "rule=2 count=8192 decay=10",
    "rule=2 count=24591 segments=2 decay=100",
    "rule=1 count=8193 scale=1024",
    "rule=2 count=8191 decay=10 scale=96 clip=40",
    "rule=0 count=100003 segments=4 gap=3 clip=250",
    "rule=2 count=100003 segments=4 gap=3 decay=20",
    "rule=0 count=500 param=100 trust_clip=1",
    "rule=0 count=500 param=900000 trust_clip=1", /* more than the learning rate */
    "rule=2 count=500 decay=5 param=10 trust_clip=1",
    "rule=2 count=500 decay=5 param=90000 trust_clip=1",
    "rule=1 count=2500000", /* more chunks than a block has threads */
    NULL,
};

static void draw_trust(Rng *rng, int64_t *p)
{
    p[RULE] = draw_between(rng, 0, TRUSTING - 1);
    p[COUNT] = draw_between(rng, 40, 40000);
    p[SEGMENTS] = draw_between(rng, 1, PROBLEM_MAX_SEGMENTS);
    p[GAP] = draw_between(rng, 0, 9);
    p[DECAY] = draw_between(rng, 0, 200);
    p[SCALE] = draw_chance(rng, 3) ? draw_between(rng, 1, 2000) : 0;
    p[CLIP] = draw_chance(rng, 3) ? draw_between(rng, 1, 1000) : 0;
    p[PARAM] = draw_between(rng, 1, 5000);
    p[TRUST_CLIP] = draw_chance(rng, 2);
}

static void build_trust(const int64_t *p, Problem *out)
{
    const TensorDesc flat = desc_f32(p[COUNT], 0, 0, 0);
    const int64_t share = p[COUNT] / p[SEGMENTS];
    for (int i = 0; i < p[SEGMENTS]; i++)
        out->segments[i] = (UpdateSegment){ .first = i * share,
                                            .count = share - p[GAP],
                                            .weight_decay = (float)((double)p[DECAY] / 1000),
                                            .lr = i % 2 ? 0.5f : 1.0f,
                                            .adapts = i % 3 != 1 };
    out->attr.update = (UpdateAttr){ .kind = trusting[p[RULE]],
                                     .momentum = 0.9f,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .trust_coefficient = 0.01,
                                     .trust_clip = p[TRUST_CLIP] != 0,
                                     .eps = 1e-6f,
                                     .segment_count = (int)p[SEGMENTS],
                                     .segments = out->segments };
    out->in[UPDATE_IN_PARAM] = out->in[UPDATE_IN_GRAD] = flat;
    for (int i = 0; i < update_states(out->attr.update.kind, 0.9); i++)
        out->in[UPDATE_IN_STATE0 + i] = flat;
    out->in[UPDATE_IN_SCALARS] = desc_f32(SCALAR_COUNT, 0, 0, 0);
    if (p[SCALE]) out->in[UPDATE_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    if (p[CLIP]) out->in[UPDATE_IN_CLIP] = desc_f32(CLIP_COUNT, 0, 0, 0);
    out->wanted[TRUST_RATIO_OUT_SUMS] = out->wanted[TRUST_RATIO_OUT_RATIOS] = true;
    out->terms = TRUST_CHUNK;
}

static void fill_trust(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *second = &in[UPDATE_IN_STATE1], *grad = &in[UPDATE_IN_GRAD];
    double *scalars = in[UPDATE_IN_SCALARS].v;
    for (int64_t i = 0; i < p[COUNT]; i++) {
        in[UPDATE_IN_PARAM].v[i] = fill_float(in[UPDATE_IN_PARAM].v[i] * (double)p[PARAM] / 1000);
        if (p[SCALE]) grad->v[i] = fill_float(grad->v[i] * (double)p[SCALE]);
        if (second->desc.rank) second->v[i] = fill_float(0.1 + second->v[i] * second->v[i]);
    }
    scalars[SCALAR_LR] = fill_float(0.05);
    scalars[SCALAR_BIAS_CORRECTION1] = fill_float(1 - 0.9 * 0.9 * 0.9);
    scalars[SCALAR_BIAS_CORRECTION2] = fill_float(1 - 0.999 * 0.999 * 0.999);
    if (p[CLIP]) in[UPDATE_IN_CLIP].v[CLIP_FACTOR] = fill_float((double)p[CLIP] / 1000);
    if (p[SCALE]) in[UPDATE_IN_LOSS_SCALE].v[LOSS_SCALE_SCALE] = (double)p[SCALE];
}

const Family family_trust_ratio = { OP_TRUST_RATIO, 0,           0,          16,
                                    trust_params,   trust_fixed, draw_trust, build_trust,
                                    fill_trust };
