/* families_attention.c - multi-head attention and what makes a sequence of an image, forward and
 * backward. */
#include "kernels/ops/attention.h"
#include "tests/ops/families.h"

#include <math.h>

/* h x w positions; d: of a head; rate in thousandths; seq: not 0: of so many sequences one behind
 * the other, of which one has h w positions, one a single one, and `empty` more have none; tail:
 * positions behind them */
enum { AN, AHEADS, AD, AH, AW, ARATE, ASTEP, APLACE, ASEQ, AEMPTY, ATAIL };

static const ParamDef params[] = { { "n", 1 },   { "heads", 1 }, { "d", 8 },    { "h", 1 },
                                   { "w", 1 },   { "rate", 0 },  { "step", 0 }, { "place", 0 },
                                   { "seq", 0 }, { "empty", 0 }, { "tail", 0 }, { NULL, 0 } };
static const char *const fixed[] = {
    "n=2 heads=2 d=8 h=1",
    "n=2 heads=3 d=8 h=17",
    "n=1 heads=2 d=32 h=5 w=7",
    "n=1 heads=1 d=16 h=33",
    "n=1 heads=1 d=64 h=16 rate=300 step=70000 place=65530",
    "n=3 heads=2 d=8 h=9 rate=500 step=12345678 place=100000",
    /* a ViT's, of several blocks of queries and tiles of both sizes */
    "n=1 heads=1 d=64 h=197",
    "n=1 heads=2 d=128 h=50",
    "n=2 heads=1 d=80 h=33 rate=200",
    "seq=1 heads=2 d=8 h=17",
    "seq=2 heads=2 d=16 h=9",
    "seq=4 heads=3 d=8 h=21 tail=3",
    "seq=5 empty=2 heads=2 d=32 h=40 tail=7 rate=200 step=70000 place=65533",
    "seq=3 empty=1 heads=1 d=64 h=65 rate=300",
    "seq=3 heads=1 d=128 h=150 tail=1",
    NULL,
};

static int64_t length_of(const int64_t *p, int64_t n)
{
    const int64_t longest = p[AH] * p[AW];
    if (n >= p[ASEQ]) return 0;
    return n + 1 == p[ASEQ] ? longest : n == 0 ? 1 : 1 + (5 * n + 2) % longest;
}

static void draw(Rng *rng, int64_t *p)
{
    p[AN] = draw_between(rng, 1, 3);
    p[AHEADS] = draw_between(rng, 1, 3);
    p[AD] = 8 * draw_between(rng, 1, 4);
    p[AH] = draw_between(rng, 1, 40);
    p[AW] = draw_chance(rng, 3) ? 2 : 1;
    /* of a few weights a drop leaves nothing of too many rows */
    p[ARATE] = draw_chance(rng, 2) && p[AH] > 4 ? draw_between(rng, 1, 600) : 0;
    p[ASTEP] = draw_between(rng, 0, 1 << 30);
    p[APLACE] = draw_between(rng, 0, 1 << 20);
    if (!draw_chance(rng, 2)) return;
    p[AN] = 1;
    p[ASEQ] = draw_between(rng, 1, 5);
    p[AEMPTY] = draw_between(rng, 0, 2);
    p[ATAIL] = p[AH] > 10 ? draw_between(rng, 0, 1) : 0;
}

static void build(const int64_t *p, Problem *out)
{
    const int64_t e = p[AHEADS] * p[AD], sequences = p[ASEQ] ? p[ASEQ] + p[AEMPTY] : 0;
    int64_t h = p[AH], w = p[AW];
    if (p[ASEQ]) {
        w = 1;
        h = p[ATAIL];
        for (int64_t i = 0; i < sequences; i++) h += length_of(p, i);
    }
    const TensorDesc qkv = desc_f32(p[AN], 3 * e, h, w), y = desc_f32(p[AN], e, h, w);
    const TensorDesc starts = tensor_desc(DTYPE_I32, p[ASEQ] ? 1 : 0, (int64_t[]){ sequences + 1 });
    const TensorDesc scalars = p[ARATE] ? desc_f32(SCALAR_COUNT, 0, 0, 0) : desc_f32(0, 0, 0, 0);
    out->attr.attention = (AttentionAttr){ .heads = (int)p[AHEADS],
                                           .longest = p[ASEQ] ? (int)(p[AH] * p[AW]) : 0,
                                           .drop = { .seed = UINT64_C(0x123456789abcdef),
                                                     .layer = 11,
                                                     .rate = (float)((double)p[ARATE] / 1000) } };
    out->terms = p[AH] * p[AW] + p[AD];
    out->wanted[0] = true;
    if (out->kind == OP_ATTENTION) {
        out->in[ATTENTION_IN_QKV] = qkv;
        out->in[ATTENTION_IN_SCALARS] = scalars;
        out->in[ATTENTION_IN_STARTS] = starts;
        out->wanted[ATTENTION_OUT_LSE] = true;
        return;
    }
    out->in[ATTENTION_BWD_IN_QKV] = qkv;
    out->in[ATTENTION_BWD_IN_DY] = out->in[ATTENTION_BWD_IN_Y] = y;
    out->in[ATTENTION_BWD_IN_LSE] =
        p[ASEQ] ? desc_f32(1, h, p[AHEADS], 0) : desc_f32(p[AN], p[AHEADS], h * w, 0);
    out->in[ATTENTION_BWD_IN_SCALARS] = scalars;
    out->in[ATTENTION_BWD_IN_STARTS] = starts;
}

/* What forward leaves of one query. */
static double lse_of(const AttentionSizes *z, const double *qkv, const AttentionPlace *at,
                     int64_t head, int64_t query)
{
    const int64_t image = at->image * 3 * z->heads * z->width;
    double sum = 0;
    for (int64_t key = 0; key < at->length; key++) {
        double score = 0;
        for (int64_t i = 0; i < z->width; i++) {
            const int64_t q = image + attention_channel(z, 0, head) + i,
                          k = image + attention_channel(z, 1, head) + i;
            score +=
                qkv[q * z->positions + at->first + query] * qkv[k * z->positions + at->first + key];
        }
        sum += exp(score / sqrt((double)z->width));
    }
    return log(sum);
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    const bool backward = problem->kind == OP_ATTENTION_BWD;
    Host *scalars = &in[backward ? ATTENTION_BWD_IN_SCALARS : ATTENTION_IN_SCALARS];
    const Host *qkv = &in[backward ? ATTENTION_BWD_IN_QKV : ATTENTION_IN_QKV];
    Host *starts = &in[backward ? ATTENTION_BWD_IN_STARTS : ATTENTION_IN_STARTS];
    const AttentionSizes z = attention_sizes(&problem->attr.attention, &qkv->desc, &starts->desc);
    fill_default(problem, mode, rng, in);
    for (int64_t n = 0; starts->v && n <= z.n; n++)
        starts->v[n] = n ? starts->v[n - 1] + (double)length_of(p, n - 1) : 0;
    if (scalars->v) {
        scalars->v[SCALAR_STEP_LOW] = (double)(p[ASTEP] & 0xffff);
        scalars->v[SCALAR_STEP_HIGH] = (double)(p[ASTEP] >> 16);
        scalars->v[SCALAR_PLACE_LOW] = (double)(p[APLACE] & 0xffff);
        scalars->v[SCALAR_PLACE_HIGH] = (double)(p[APLACE] >> 16);
    }
    if (!backward) return;
    for (int64_t i = 0; i < z.n * z.heads; i++) {
        const int64_t n = i / z.heads, head = i % z.heads;
        AttentionPlace at = attention_place(&z, NULL, n);
        if (starts->v) at = (AttentionPlace){ 0, (int64_t)starts->v[n], length_of(p, n) };
        for (int64_t query = 0; query < at.length; query++)
            in[ATTENTION_BWD_IN_LSE].v[attention_lse_at(&z, &at, head, query)] =
                fill_float(lse_of(&z, qkv->v, &at, head, query));
    }
}

const Family family_attention = { OP_ATTENTION, FAMILY_NAN, 0.1,   12,  params,
                                  fixed,        draw,       build, fill };
const Family family_attention_bwd = {
    OP_ATTENTION_BWD, FAMILY_NAN, 0.1, 12, params, fixed, draw, build, fill
};

/* ---- tokens: class: whether there is a class token ---- */
enum { TN, TC, TH, TW, TCLASS };

static const ParamDef tokens_params[] = { { "n", 1 }, { "c", 1 },     { "h", 1 },
                                          { "w", 1 }, { "class", 1 }, { NULL, 0 } };
static const char *const tokens_fixed[] = { "n=1 c=1 h=1 w=1",
                                            "n=3 c=16 h=4 w=4",
                                            "n=2 c=13 h=3 w=5 class=0",
                                            "n=5 c=40 h=7 w=7",
                                            "n=2 c=8 h=1 w=9",
                                            "n=65 c=24 h=2 w=2",
                                            NULL };

static void draw_tokens(Rng *rng, int64_t *p)
{
    p[TN] = draw_between(rng, 1, 5);
    p[TC] = draw_channels(rng);
    p[TH] = draw_between(rng, 1, 9);
    p[TW] = draw_between(rng, 1, 9);
    p[TCLASS] = draw_between(rng, 0, 1);
}

static void build_tokens(const int64_t *p, Problem *out)
{
    const int64_t length = p[TH] * p[TW] + p[TCLASS];
    const TensorDesc x = desc_f32(p[TN], p[TC], p[TH], p[TW]),
                     y = desc_f32(p[TN], p[TC], length, 1),
                     positions = desc_f32(1, length, p[TC], 0),
                     first = p[TCLASS] ? desc_f32(1, 1, p[TC], 0) : desc_f32(0, 0, 0, 0);
    out->exact = true;
    out->wanted[0] = true;
    out->terms = out->kind == OP_TOKENS ? 1 : p[TN];
    if (out->kind == OP_TOKENS) {
        out->in[TOKENS_IN_X] = x;
        out->in[TOKENS_IN_POSITIONS] = positions;
        out->in[TOKENS_IN_CLASS] = first;
        return;
    }
    out->in[TOKENS_BWD_IN_DY] = y;
    out->out[TOKENS_BWD_OUT_DX] = x;
    out->wanted[TOKENS_BWD_OUT_DPOSITIONS] = true;
    out->wanted[TOKENS_BWD_OUT_DCLASS] = p[TCLASS] != 0;
}

const Family family_tokens = { OP_TOKENS,     FAMILY_EXACT | FAMILY_NAN,
                               0.2,           10,
                               tokens_params, tokens_fixed,
                               draw_tokens,   build_tokens,
                               NULL };
const Family family_tokens_bwd = { OP_TOKENS_BWD, FAMILY_EXACT | FAMILY_NAN | FAMILY_ACCUMULATES,
                                   0.2,           10,
                                   tokens_params, tokens_fixed,
                                   draw_tokens,   build_tokens,
                                   NULL };
