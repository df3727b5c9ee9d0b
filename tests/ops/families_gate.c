/* families_gate.c - the ops of EfficientNet that stand on their own: the gate of
 * squeeze-and-excitation, dropout and stochastic depth. */
#include "tests/ops/families.h"
#include <math.h>

/* ---- gate ---- */
enum { GN, GC, GH, GW, GHARD };

static const ParamDef gate_params[] = { { "n", 1 }, { "c", 1 },    { "h", 1 },
                                        { "w", 1 }, { "hard", 0 }, { NULL, 0 } };
static const char *const gate_fixed[] = { "n=1 c=1 h=1 w=1",
                                          "n=2 c=16 h=7 w=7",
                                          "n=3 c=13 h=4 w=5",
                                          "n=2 c=8 h=3 w=3",
                                          "n=1 c=40 h=14 w=14",
                                          "n=2 c=3 h=9 w=9",
                                          "n=1 c=9 h=65 w=64",
                                          "n=3 c=13 h=4 w=5 hard=1",
                                          "n=2 c=40 h=9 w=9 hard=1",
                                          "n=4 c=1100 h=12 w=12",
                                          NULL };

static void draw_gate(Rng *rng, int64_t *p)
{
    p[GN] = draw_between(rng, 1, 4);
    p[GC] = draw_channels(rng);
    p[GH] = draw_between(rng, 1, 9);
    p[GW] = draw_between(rng, 1, 9);
    p[GHARD] = draw_between(rng, 0, 1);
}

/* Hard: a gate on either side of where it bends, the others not so near that a difference meets
 * it. */
static void fill_gate(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *g = &in[problem->kind == OP_GATE ? GATE_IN_G : GATE_BWD_IN_G];
    const int64_t gates = tensor_elements(&g->desc);
    if (!p[GHARD]) return;
    for (int64_t i = 0; i < gates; i++)
        if (fabs(fabs(g->v[i]) - 3) < 0.1) g->v[i] = 2;
    if (gates < 8) return; /* zeros would be most of the gradient */
    g->v[0] = -4;
    g->v[gates - 1] = 4;
}

static void build_gate(const int64_t *p, Problem *out)
{
    TensorDesc x = desc_f32(p[GN], p[GC], p[GH], p[GW]), g = desc_f32(p[GN], p[GC], 0, 0);
    out->terms = out->kind == OP_GATE ? 1 : p[GH] * p[GW];
    out->wanted[0] = true;
    out->attr.gate.hard = p[GHARD] != 0;
    out->in[GATE_IN_X] = x;
    if (out->kind == OP_GATE) {
        out->in[GATE_IN_G] = g;
        return;
    }
    out->in[GATE_BWD_IN_DY] = out->in[GATE_BWD_IN_X] = x;
    out->in[GATE_BWD_IN_G] = g;
    out->wanted[GATE_BWD_OUT_DG] = true;
}

const Family family_gate = { OP_GATE,    FAMILY_NAN, 0.3,        10,       gate_params,
                             gate_fixed, draw_gate,  build_gate, fill_gate };
const Family family_gate_bwd = { OP_GATE_BWD, FAMILY_NAN, 0.3,        10,       gate_params,
                                 gate_fixed,  draw_gate,  build_gate, fill_gate };

/* ---- drop: rate in thousandths; image: one draw an image; step and place: where the draws are;
 * seq: not 0: the positions are those of so many sequences, a tenth nobody's ---- */
enum { DN, DC, DH, DW, DRATE, DIMAGE, DRESIDUAL, DSTEP, DPLACE, DSEQ };

static const ParamDef drop_params[] = { { "n", 1 },        { "c", 1 },      { "h", 0 },
                                        { "w", 0 },        { "rate", 200 }, { "image", 0 },
                                        { "residual", 0 }, { "step", 0 },   { "place", 0 },
                                        { "seq", 0 },      { NULL, 0 } };
static const char *const drop_fixed[] = {
    "n=8 c=40",
    /* both halves of either word, and a carry between images */
    "n=3 c=13 rate=500 step=70000 place=65530",
    "n=8 c=16 h=7 w=7 image=1 rate=500 residual=1",
    "n=32 c=5 h=3 w=3 image=1 rate=300 step=12345678",
    "n=16 c=8 h=4 w=4 image=1 rate=200 place=100000",
    "n=5 c=33 residual=1",
    "n=4 c=33 rate=0",
    "n=2 c=24 h=5 w=3 rate=500 residual=1",
    "n=3 c=24 h=1 w=1 rate=300 residual=1", /* one pixel; half a block */
    "n=1 c=13 h=9 w=1 rate=300",
    "n=1 c=272 h=33 w=1 rate=200 residual=1 seq=4 step=70000 place=65533",
    "n=1 c=13 h=40 w=1 rate=500 seq=3",
    "n=1 c=1100 h=3 w=1 rate=100 seq=1 residual=1",
    NULL,
};

static void draw_drop(Rng *rng, int64_t *p)
{
    p[DN] = draw_between(rng, 8, 40);
    p[DC] = draw_channels(rng);
    p[DRATE] = draw_between(rng, 0, 500);
    p[DIMAGE] = draw_between(rng, 0, 1);
    const bool positions = p[DIMAGE] || draw_chance(rng, 2);
    p[DH] = positions ? draw_between(rng, 1, 5) : 0;
    p[DW] = positions ? draw_between(rng, 1, 5) : 0;
    p[DRESIDUAL] = draw_between(rng, 0, 1);
    p[DSTEP] = draw_between(rng, 0, 1 << 30);
    p[DPLACE] = draw_between(rng, 0, 1 << 20);
    if (p[DIMAGE] || !positions) return;
    p[DSEQ] = draw_between(rng, 0, 3);
    if (p[DSEQ]) p[DN] = 1;
}

static void build_drop(const int64_t *p, Problem *out)
{
    TensorDesc x = desc_f32(p[DN], p[DC], p[DH], p[DW]);
    out->attr.drop = (DropAttr){ .seed = UINT64_C(0x123456789abcdef),
                                 .layer = 37,
                                 .rate = (float)((double)p[DRATE] / 1000),
                                 .per_image = p[DIMAGE] != 0 };
    out->terms = 1;
    out->wanted[0] = true;
    out->in[0] = x;
    out->in[DROP_IN_SCALARS] = desc_f32(SCALAR_COUNT, 0, 0, 0);
    if (out->kind == OP_DROP && p[DRESIDUAL]) out->in[DROP_IN_RESIDUAL] = x;
    if (p[DSEQ])
        out->in[out->kind == OP_DROP ? DROP_IN_WHERE : DROP_BWD_IN_WHERE] =
            tensor_desc(DTYPE_I32, 2, (int64_t[]){ p[DH] * p[DW], 2 });
}

/* A sequence of one position, others of alike many, the last of what is left; then nobody's. */
static void fill_where(const int64_t *p, Host *where)
{
    const int64_t used = p[DH] * p[DW] - p[DH] * p[DW] / 10,
                  each = p[DSEQ] > 1 ? (used - 1 + p[DSEQ] - 2) / (p[DSEQ] - 1) : used;
    for (int64_t i = 0; i < p[DH] * p[DW]; i++) {
        const int64_t rest = i - (p[DSEQ] > 1);
        where->v[2 * i] = i >= used ? -1 : rest < 0 ? 0 : (double)(rest / each + (p[DSEQ] > 1));
        where->v[2 * i + 1] = i >= used || rest < 0 ? 0 : (double)(rest % each);
    }
}

static void fill_drop(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    double *scalars = in[DROP_IN_SCALARS].v; /* the same slot in the gradient */
    scalars[SCALAR_STEP_LOW] = (double)(p[DSTEP] & 0xffff);
    scalars[SCALAR_STEP_HIGH] = (double)(p[DSTEP] >> 16);
    scalars[SCALAR_PLACE_LOW] = (double)(p[DPLACE] & 0xffff);
    scalars[SCALAR_PLACE_HIGH] = (double)(p[DPLACE] >> 16);
    if (p[DSEQ]) fill_where(p, &in[problem->kind == OP_DROP ? DROP_IN_WHERE : DROP_BWD_IN_WHERE]);
}

/* Half of few images may well all be dropped. */
const Family family_drop = { OP_DROP,    FAMILY_NAN, 1,          12,       drop_params,
                             drop_fixed, draw_drop,  build_drop, fill_drop };
const Family family_drop_bwd = { OP_DROP_BWD, FAMILY_NAN, 1,          12,       drop_params,
                                 drop_fixed,  draw_drop,  build_drop, fill_drop };
