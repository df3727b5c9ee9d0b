/* families_embed.c - words to a canvas, single places of one, forward and backward. */
#include "tests/ops/families.h"

#include <string.h>

/* Up to n sequences of at most s words of a dictionary of v; k kinds of segments; so_far: the
 * gradient of the words is added to another; seed: of lengths and words, which forward and backward
 * have alike. */
enum { EN, ES, EC, EV, EOFFSET, EK, ESO_FAR, ESEED };

static const ParamDef params[] = { { "n", 1 },      { "s", 1 },      { "c", 1 },
                                   { "v", 2 },      { "offset", 0 }, { "segments", 0 },
                                   { "so_far", 0 }, { "seed", 0 },   { NULL, 0 } };
static const char *const fixed[] = {
    "n=1 s=1 c=1",
    "n=3 s=5 c=16 v=6 offset=2",
    "n=4 s=33 c=24 v=3 segments=2 seed=1", /* runs of more than 32 places */
    "n=2 s=9 c=13 v=40 offset=1 so_far=1 seed=2",
    "n=8 s=40 c=64 v=5 offset=2 segments=3 so_far=1 seed=3",
    "n=2 s=70 c=768 v=50 offset=2 seed=4",
    NULL,
};

static void draw(Rng *rng, int64_t *p)
{
    p[EN] = draw_between(rng, 1, 6);
    p[ES] = draw_between(rng, 1, 40);
    p[EC] = draw_channels(rng);
    p[EV] = draw_between(rng, 1, 1 + p[EN] * p[ES] / 8);
    p[EOFFSET] = draw_between(rng, 0, 2);
    p[EK] = draw_chance(rng, 2) ? draw_between(rng, 1, 3) : 0;
    p[ESO_FAR] = draw_between(rng, 0, 1);
    p[ESEED] = draw_between(rng, 0, 1 << 20);
}

static TensorDesc indices(int64_t a, int64_t b)
{
    return tensor_desc(DTYPE_I32, b ? 2 : 1, (const int64_t[]){ a, b });
}

static void build(const int64_t *p, Problem *out)
{
    const int64_t places = p[EN] * p[ES];
    const TensorDesc words = desc_f32(p[EV], p[EC], 0, 0),
                     positions = desc_f32(p[ES] + p[EOFFSET], p[EC], 0, 0),
                     none = desc_f32(0, 0, 0, 0),
                     segments = p[EK] ? desc_f32(p[EK], p[EC], 0, 0) : none,
                     segment_ids = p[EK] ? indices(places, 0) : none;
    out->attr.embed = (EmbedAttr){ .offset = (int)p[EOFFSET] };
    out->exact = true;
    out->wanted[0] = true;
    out->terms = out->kind == OP_EMBED ? 3 : places;
    if (out->kind == OP_EMBED) {
        out->in[EMBED_IN_WORDS] = words;
        out->in[EMBED_IN_POSITIONS] = positions;
        out->in[EMBED_IN_SEGMENTS] = segments;
        out->in[EMBED_IN_IDS] = indices(places, 0);
        out->in[EMBED_IN_WHERE] = indices(places, 2);
        out->in[EMBED_IN_SEGMENT_IDS] = segment_ids;
        return;
    }
    out->in[EMBED_BWD_IN_DY] = desc_f32(1, p[EC], places, 1);
    out->in[EMBED_BWD_IN_IDS] = out->in[EMBED_BWD_IN_ORDER] = indices(places, 0);
    out->in[EMBED_BWD_IN_STARTS] = indices(p[EN] + 1, 0);
    out->in[EMBED_BWD_IN_SEGMENT_IDS] = segment_ids;
    out->in[EMBED_BWD_IN_SO_FAR] = p[ESO_FAR] ? words : none;
    out->wanted[EMBED_BWD_OUT_DWORDS] = !p[ESO_FAR];
    out->wanted[EMBED_BWD_OUT_DPOSITIONS] = true;
    out->wanted[EMBED_BWD_OUT_DSEGMENTS] = p[EK] > 0;
    if (!p[ESO_FAR]) out->out[EMBED_BWD_OUT_DWORDS] = words;
    out->out[EMBED_BWD_OUT_DPOSITIONS] = positions;
    out->out[EMBED_BWD_OUT_DSEGMENTS] = segments;
}

/* Starts of the sequences and the end of the last: the first is whole, so that not nearly all of
 * the canvas is empty, and the others may be empty only at the end. */
static void fill_starts(const int64_t *p, Rng *rng, double *starts)
{
    const int64_t there = draw_between(rng, 1, p[EN]);
    starts[0] = 0;
    for (int64_t n = 0; n < p[EN]; n++)
        starts[n + 1] = starts[n] + (double)(n == 0      ? p[ES]
                                             : n < there ? draw_between(rng, 1, p[ES])
                                                         : 0);
}

/* Places by their ids, nobody's last. */
static void fill_order(const int64_t *p, const double *ids, double *order)
{
    int64_t at = 0;
    for (int64_t v = 0; v <= p[EV]; v++)
        for (int64_t t = 0; t < p[EN] * p[ES]; t++)
            if (v < p[EV] ? ids[t] == (double)v : ids[t] < 0) order[at++] = (double)t;
}

/* One canvas; NULL: not asked for. */
static void fill_canvas(const int64_t *p, double *ids, double *where, double *segment_ids,
                        double *starts)
{
    Rng rng = rng_at((uint64_t)p[ESEED], RNG_TEST, (uint32_t)p[EN], (uint32_t)p[ES]);
    int64_t n = 0;
    fill_starts(p, &rng, starts);
    for (int64_t t = 0; t < p[EN] * p[ES]; t++) {
        while (n < p[EN] && (double)t >= starts[n + 1]) n++;
        const bool there = n < p[EN];
        const int64_t id = t ? draw_between(&rng, 0, p[EV] - 1) : 0,
                      kind = draw_between(&rng, 0, p[EK] ? p[EK] - 1 : 0);
        ids[t] = there ? (double)id : -1;
        if (where) where[2 * t] = there ? (double)n : -1;
        if (where) where[2 * t + 1] = there ? (double)t - starts[n] : -1;
        if (segment_ids) segment_ids[t] = there ? (double)kind : -1;
    }
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    double starts[64];
    fill_default(problem, mode, rng, in);
    if (problem->kind == OP_EMBED) {
        fill_canvas(p, in[EMBED_IN_IDS].v, in[EMBED_IN_WHERE].v, in[EMBED_IN_SEGMENT_IDS].v,
                    starts);
        return;
    }
    fill_canvas(p, in[EMBED_BWD_IN_IDS].v, NULL, in[EMBED_BWD_IN_SEGMENT_IDS].v, starts);
    fill_order(p, in[EMBED_BWD_IN_IDS].v, in[EMBED_BWD_IN_ORDER].v);
    memcpy(in[EMBED_BWD_IN_STARTS].v, starts, (size_t)(p[EN] + 1) * sizeof *starts);
}

const Family family_embed = {
    OP_EMBED, FAMILY_EXACT | FAMILY_NAN, 0.9, 12, params, fixed, draw, build, fill
};
const Family family_embed_bwd = { OP_EMBED_BWD, FAMILY_EXACT | FAMILY_NAN | FAMILY_ACCUMULATES,
                                  0.95,         12,
                                  params,       fixed,
                                  draw,         build,
                                  fill };

/* ---- picks: count of `rows` rows of t places; twice: the last of them name one place ---- */
enum { PC, PT, PROWS, PCOUNT, PTWICE };

static const ParamDef pick_params[] = { { "c", 1 },     { "t", 1 },     { "rows", 1 },
                                        { "count", 1 }, { "twice", 0 }, { NULL, 0 } };
static const char *const pick_fixed[] = { "c=1 t=1",
                                          "c=16 t=9 rows=4 count=4",
                                          "c=13 t=20 rows=9 count=8",
                                          "c=24 t=8 rows=12 count=12",
                                          "c=768 t=70 rows=11 count=11",
                                          NULL };

static void draw_pick(Rng *rng, int64_t *p)
{
    p[PC] = draw_channels(rng);
    p[PT] = draw_between(rng, 1, 60);
    /* enough that not nearly all of the canvas's gradient is zero */
    p[PROWS] = p[PT] / 4 + draw_between(rng, 1, 20);
    p[PCOUNT] = draw_between(rng, p[PT] / 8 + 1, p[PROWS]);
    p[PTWICE] = draw_between(rng, 0, 1);
}

static void build_pick(const int64_t *p, Problem *out)
{
    const TensorDesc canvas = desc_f32(1, p[PC], p[PT], 1), flat = desc_f32(p[PCOUNT], p[PC], 0, 0);
    const bool backward = out->kind == OP_PICK_BWD;
    out->attr.pick = (PickAttr){ .count = p[PCOUNT] };
    out->exact = true;
    out->wanted[0] = true;
    out->terms = 1;
    out->in[0] = backward ? flat : canvas;
    out->in[1] = indices(p[PROWS], 0);
    if (backward) out->out[PICK_BWD_OUT_DX] = canvas;
}

/* Increasing places from the first on; behind them -1, or all the same one. */
static void fill_pick(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    int64_t next = 0;
    fill_default(problem, mode, rng, in);
    for (int64_t m = 0; m < p[PROWS]; m++) {
        in[PICK_IN_ROWS].v[m] = next < p[PT] ? (double)next : p[PTWICE] ? (double)p[PT] : -1;
        if (!p[PTWICE] || m < p[PROWS] / 2) next += draw_between(rng, 1, 4);
    }
    (void)problem;
}

const Family family_pick = {
    OP_PICK,  FAMILY_EXACT | FAMILY_NAN, 0.95, 12, pick_params, pick_fixed, draw_pick, build_pick,
    fill_pick
};
const Family family_pick_bwd = { OP_PICK_BWD, FAMILY_EXACT | FAMILY_NAN,
                                 0.95,        12,
                                 pick_params, pick_fixed,
                                 draw_pick,   build_pick,
                                 fill_pick };
