/* families_point.c - ops on single elements (input, activation, add, scale), the loss, and the
 * optimizer step. */
#include "tests/ops/families.h"

#include "kernels/ops/update.h"

#include <math.h>

/* ---- input: erase: boxes in all images but the first, 1 + EraseMode; mix: 1 mixup, 2 a box of the
 * neighbour; views ---- */
enum { IN_N, IN_H, IN_W, IN_C, IN_ERASE, IN_MIX, IN_VIEWS };

static const ParamDef input_params[] = {
    { "n", 1 },     { "h", 1 },   { "w", 1 },     { "c", 3 },
    { "erase", 0 }, { "mix", 0 }, { "views", 1 }, { NULL, 0 }
};
static const char *const input_fixed[] = { "n=1 h=1 w=1 c=1",
                                           "n=2 h=28 w=28 c=1",
                                           "n=2 h=9 w=11 c=3",
                                           "n=1 h=5 w=5 c=4",
                                           "n=2 h=4 w=3 c=16",
                                           "n=3 h=128 w=127 c=3",
                                           "n=3 h=9 w=11 c=3 erase=1",
                                           "n=3 h=9 w=11 c=3 mix=1",
                                           "n=4 h=12 w=10 c=3 mix=2",
                                           "n=1 h=4 w=4 c=1 mix=1",
                                           "n=3 h=30 w=31 c=3 erase=1 mix=1",
                                           "n=5 h=20 w=17 c=4 erase=1 mix=2",
                                           "n=3 h=19 w=11 c=3 erase=2",
                                           "n=3 h=19 w=21 c=3 erase=3",
                                           "n=3 h=30 w=31 c=3 erase=2 mix=1",
                                           "n=4 h=40 w=31 c=3 erase=3 mix=1",
                                           "n=5 h=20 w=17 c=4 erase=3 mix=2",
                                           "n=2 h=9 w=11 c=3 views=2",
                                           "n=3 h=5 w=8 c=1 views=2",
                                           "n=2 h=9 w=11 c=3 views=6",
                                           "n=1 h=2 w=2 c=1 views=6",
                                           NULL };

static void draw_input(Rng *rng, int64_t *p)
{
    p[IN_N] = draw_between(rng, 1, 4);
    p[IN_H] = draw_between(rng, 1, 17);
    p[IN_W] = draw_between(rng, 1, 17);
    p[IN_C] = draw_between(rng, 1, OP_MAX_IMAGE_CHANNELS);
    p[IN_VIEWS] = draw_chance(rng, 5) ? VIEWS_MIRRORED : VIEWS_ONE;
    if (p[IN_H] > 1 && p[IN_W] > 1 && draw_chance(rng, 6)) p[IN_VIEWS] = VIEWS_SHIFTED;
    p[IN_ERASE] = p[IN_VIEWS] == 1 ? draw_between(rng, 0, ERASE_MODE_COUNT) : 0;
    p[IN_MIX] = p[IN_VIEWS] == 1 ? draw_between(rng, 0, 2) : 0;
}

static void build_input(const int64_t *p, Problem *out)
{
    static const float mean[] = { 0.485f, 0.456f, 0.406f, 0.5f },
                       deviation[] = { 0.229f, 0.224f, 0.225f, 0.25f };
    for (int c = 0; c < OP_MAX_IMAGE_CHANNELS; c++) {
        out->attr.input.mean[c] = mean[c % 4];
        out->attr.input.std[c] = deviation[c % 4] + 0.01f * (float)(c / 4);
    }
    const int64_t dims[] = { p[IN_N], p[IN_H], p[IN_W], p[IN_C] };
    const int64_t boxes[] = { p[IN_N], ERASE_COUNT };
    out->attr.input.views = (int)p[IN_VIEWS];
    if (p[IN_ERASE]) out->attr.input.erase = (EraseMode)(p[IN_ERASE] - 1);
    out->in[INPUT_IN_IMAGES] = tensor_desc(DTYPE_U8, 4, dims);
    if (p[IN_ERASE]) out->in[INPUT_IN_ERASE] = tensor_desc(DTYPE_I32, 2, boxes);
    if (p[IN_MIX]) out->in[INPUT_IN_MIX] = desc_f32(MIX_COUNT, 0, 0, 0);
    out->terms = 1;
    out->wanted[INPUT_OUT_X] = true;
}

static void draw_span(Rng *rng, int64_t length, double *first, double *count)
{
    *first = (double)draw_between(rng, 0, length - 1);
    *count = (double)draw_between(rng, 1, length - (int64_t)*first);
}

static void fill_mix(Host *mix, Rng *rng, bool box, int64_t h, int64_t w)
{
    double *m = mix->v;
    m[MIX_LAMBDA] = fill_float(0.05 + 0.9 * rng_uniform(rng));
    m[MIX_REST] = fill_float(1 - m[MIX_LAMBDA]);
    m[MIX_BOX] = box;
    draw_span(rng, h, &m[MIX_TOP], &m[MIX_BOTTOM]);
    draw_span(rng, w, &m[MIX_LEFT], &m[MIX_RIGHT]);
    m[MIX_BOTTOM] += m[MIX_TOP];
    m[MIX_RIGHT] += m[MIX_LEFT];
}

static void fill_input(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    for (int64_t n = 0; p[IN_ERASE] && n < p[IN_N]; n++) {
        double *box = in[INPUT_IN_ERASE].v + n * ERASE_COUNT;
        draw_span(rng, p[IN_H], &box[ERASE_TOP], &box[ERASE_HEIGHT]);
        draw_span(rng, p[IN_W], &box[ERASE_LEFT], &box[ERASE_WIDTH]);
        for (int k = ERASE_KEY_LOW; k <= ERASE_KEY_HIGH; k++)
            box[k] = (double)(int32_t)rng_u32(rng);
        if (n == 0) box[ERASE_HEIGHT] = box[ERASE_WIDTH] = 0;
    }
    if (p[IN_MIX]) fill_mix(&in[INPUT_IN_MIX], rng, p[IN_MIX] == 2, p[IN_H], p[IN_W]);
}

const Family family_input = { OP_INPUT,    0,          0.9,         24,        input_params,
                              input_fixed, draw_input, build_input, fill_input };

/* ---- activation, add: any rank; c, h, w may be 0 from the right ---- */
enum { AN, AC, AH, AW, AACT };

static const ParamDef activation_params[] = { { "n", 1 }, { "c", 1 },   { "h", 0 },
                                              { "w", 0 }, { "act", 1 }, { NULL, 0 } };
static const char *const activation_fixed[] = { "n=1 c=1",
                                                "n=3 c=17",
                                                "n=2 c=8 h=3 w=5",
                                                "n=2 c=13 h=4 w=4",
                                                "n=1 c=3 h=7 w=7",
                                                "n=1 c=16 h=1 w=1",
                                                "n=2 c=8 h=3 w=5 act=*",
                                                "n=3 c=17 act=*",
                                                "n=2 c=13 h=9 w=8 act=*",
                                                NULL };

static void draw_activation(Rng *rng, int64_t *p)
{
    p[AN] = draw_between(rng, 1, 5);
    p[AC] = draw_channels(rng);
    p[AH] = p[AW] = 0;
    p[AACT] = draw_between(rng, ACT_NONE, ACT_COUNT - 1);
    if (draw_chance(rng, 4)) return;
    p[AH] = draw_between(rng, 1, 9);
    p[AW] = draw_between(rng, 1, 9);
}

static void build_activation(const int64_t *p, Problem *out)
{
    TensorDesc x = desc_f32(p[AN], p[AC], p[AH], p[AW]);
    out->attr.activation.act = (ActKind)p[AACT];
    out->terms = 1;
    out->wanted[0] = true;
    out->in[0] = x;
    if (out->kind == OP_ACTIVATION_BWD) out->in[ACTIVATION_BWD_IN_Y] = x;
}

/* Nothing within 0.01 of the kink. */
static void fill_activation(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    fill_default(problem, mode, rng, in);
    Host *x = &in[ACTIVATION_IN_X];
    for (int64_t i = 0, n = tensor_elements(&x->desc); i < n; i++)
        if (x->v[i] > -0.01 && x->v[i] < 0.01) x->v[i] = x->v[i] < 0 ? -0.5 : 0.5;
}

/* y as forward leaves it: no negative values, zeros among them. */
static void fill_activation_bwd(const int64_t *p, const Problem *problem, Mode mode, Rng *rng,
                                Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *y = &in[ACTIVATION_BWD_IN_Y];
    for (int64_t i = 0, n = tensor_elements(&y->desc); i < n; i++)
        if (p[AACT] == ACT_RELU && y->v[i] < 0) y->v[i] = 0;
}

const Family family_activation = {
    OP_ACTIVATION,    FAMILY_NAN,     0.8, 10, activation_params, activation_fixed, draw_activation,
    build_activation, fill_activation
};
const Family family_activation_bwd = { OP_ACTIVATION_BWD,
                                       0,
                                       0.8,
                                       10,
                                       activation_params,
                                       activation_fixed,
                                       draw_activation,
                                       build_activation,
                                       fill_activation_bwd };

static void build_add(const int64_t *p, Problem *out)
{
    out->in[ADD_IN_A] = out->in[ADD_IN_B] = desc_f32(p[AN], p[AC], p[AH], p[AW]);
    out->terms = 1;
    out->wanted[ADD_OUT_Y] = true;
}

const Family family_add = { OP_ADD,           FAMILY_NAN,      0.1,       10,  activation_params,
                            activation_fixed, draw_activation, build_add, NULL };

/* ---- scale: factor in thousandths ---- */
enum { SC_N, SC_C, SC_H, SC_W, SC_FACTOR };

static const ParamDef scale_params[] = { { "n", 1 }, { "c", 0 },        { "h", 0 },
                                         { "w", 0 }, { "factor", 500 }, { NULL, 0 } };
static const char *const scale_fixed[] = { "n=1",
                                           "n=1000 factor=333",
                                           "n=7 factor=-2000",
                                           "n=100003 factor=250",
                                           "n=2 c=9 h=3 w=3 factor=125",
                                           NULL };

static void draw_scale(Rng *rng, int64_t *p)
{
    p[SC_N] = draw_between(rng, 1, 5000);
    p[SC_C] = p[SC_H] = p[SC_W] = 0;
    p[SC_FACTOR] = draw_between(rng, 1, 3000);
}

static void build_scale(const int64_t *p, Problem *out)
{
    out->attr.scale.factor = (float)((double)p[SC_FACTOR] / 1000);
    out->in[SCALE_IN_X] = desc_f32(p[SC_N], p[SC_C], p[SC_H], p[SC_W]);
    out->terms = 1;
    out->wanted[SCALE_OUT_Y] = true;
}

const Family family_scale = { OP_SCALE,    FAMILY_NAN, 0.1,         5,   scale_params,
                              scale_fixed, draw_scale, build_scale, NULL };

/* ---- softmax_xent: smooth in thousandths; padding: rows at the end with label -1; ties: integer
 * logits; scale: the loss scale, 0 for none; mix: lambda in thousandths, 0 for none; views; loss:
 * LossKind; threshold in thousandths; sum; weights: of classes; multi: any number of labels;
 * teacher: its share in thousandths, 0 for none; t: the temperature in tenths ---- */
enum {
    XN,
    XC,
    XSMOOTH,
    XPADDING,
    XTIES,
    XGRADIENT,
    XSCALE,
    XMIX,
    XVIEWS,
    XLOSS,
    XTHRESHOLD,
    XSUM,
    XWEIGHTS,
    XMULTI,
    XTEACHER,
    XTEMPERATURE
};

static const ParamDef xent_params[] = { { "n", 1 },       { "c", 10 },        { "smooth", 0 },
                                        { "padding", 0 }, { "ties", 0 },      { "gradient", 1 },
                                        { "scale", 0 },   { "mix", 0 },       { "views", 1 },
                                        { "loss", 0 },    { "threshold", 0 }, { "sum", 0 },
                                        { "weights", 0 }, { "multi", 0 },     { "teacher", 0 },
                                        { "t", 40 },      { NULL, 0 } };
static const char *const xent_fixed[] = {
    "n=1 c=2",
    "n=1 c=1",
    "n=8 c=10",
    "n=8 c=10 gradient=0",
    "n=7 c=3 smooth=100",
    "n=40 c=10 ties=1",
    "n=16 c=1000 smooth=100 padding=5",
    "n=5 c=33 padding=4 smooth=50",
    "n=4 c=10 padding=3 gradient=0",
    "n=9 c=10 scale=1024",
    "n=6 c=13 smooth=100 padding=2 scale=96",
    "n=8 c=10 mix=700",
    "n=8 c=10 mix=300 smooth=100",
    "n=7 c=2 mix=600",
    "n=5 c=1000 mix=450 smooth=100 scale=64",
    "n=6 c=13 mix=800 padding=2",
    "n=8 c=10 ties=1 mix=499 gradient=0",
    "n=7 c=10 views=2 gradient=0",
    "n=9 c=33 views=2 gradient=0 padding=4",
    "n=12 c=10 views=2 gradient=0 ties=1",
    "n=3 c=10 views=6 gradient=0",
    "n=4 c=33 views=6 gradient=0 padding=2 smooth=100",
    "n=8 c=10 loss=1",
    "n=1 c=1 loss=1",
    "n=7 c=33 loss=1 smooth=100 sum=1 scale=96",
    "n=16 c=1000 loss=1 mix=700 smooth=100 padding=3",
    "n=8 c=10 loss=1 mix=700 threshold=201",
    "n=8 c=10 loss=1 mix=850 threshold=201 smooth=100 weights=1 gradient=0",
    "n=9 c=10 loss=1 ties=1 weights=1",
    "n=7 c=10 loss=1 views=2 gradient=0",
    "n=8 c=10 loss=1 multi=1",
    "n=1 c=1 loss=1 multi=1",
    "n=7 c=33 loss=1 multi=1 smooth=100 sum=1 scale=96 padding=2",
    "n=9 c=8 loss=1 multi=1 mix=700 weights=1 padding=3",
    "n=6 c=20 loss=1 multi=1 mix=300 smooth=100 threshold=201",
    "n=5 c=10 loss=1 multi=1 views=2 gradient=0",
    "n=8 c=10 weights=1",
    "n=6 c=100 weights=1 smooth=100 mix=300 padding=2 scale=64",
    "n=9 c=10 weights=1 gradient=0 ties=1",
    "n=5 c=3 views=2 weights=1 gradient=0",
    /* in pieces on the CPU, by blocks on a device */
    "n=3 c=50265 padding=1",
    "n=2 c=5000 smooth=100 mix=300 scale=64",
    "n=40 c=4099 smooth=50 padding=3",
    "n=3 c=4500 loss=1 smooth=100",
    "n=3 c=4501 loss=1 multi=1 mix=600",
    "n=4 c=5001 weights=1 mix=700",
    "n=2 c=3000 views=2 gradient=0",
    "n=2 c=70001 gradient=0",
    "n=8 c=10 teacher=500",
    "n=8 c=10 teacher=1000 t=10",
    "n=7 c=3 teacher=900 t=1 smooth=100",
    "n=16 c=1000 teacher=300 t=200 smooth=100 padding=5 scale=64",
    "n=8 c=10 teacher=700 mix=300 smooth=100 weights=1",
    "n=7 c=33 teacher=500 loss=1 smooth=100 sum=1 scale=96",
    "n=9 c=10 teacher=500 t=20 gradient=0 ties=1",
    "n=2 c=5000 teacher=500 mix=300",
    "n=1 c=1 teacher=500",
    NULL,
};

static void draw_xent(Rng *rng, int64_t *p)
{
    p[XN] = draw_between(rng, 1, 20);
    p[XC] = draw_between(rng, 2, 60);
    p[XSMOOTH] = draw_chance(rng, 2) ? draw_between(rng, 1, 300) : 0;
    p[XPADDING] = draw_chance(rng, 2) ? draw_between(rng, 0, p[XN] / 2) : 0;
    p[XTIES] = draw_chance(rng, 3);
    p[XGRADIENT] = !draw_chance(rng, 4);
    p[XSCALE] = draw_chance(rng, 3) ? draw_between(rng, 1, 2000) : 0;
    p[XMIX] = draw_chance(rng, 3) ? draw_between(rng, 1, 999) : 0;
    p[XVIEWS] = !p[XGRADIENT] && !p[XMIX] ? draw_between(rng, 1, 3) : 1;
    if (p[XVIEWS] == 3) p[XVIEWS] = VIEWS_SHIFTED;
    p[XLOSS] = draw_between(rng, LOSS_CROSS_ENTROPY, LOSS_KIND_COUNT - 1);
    p[XTHRESHOLD] = p[XLOSS] == LOSS_BCE && draw_chance(rng, 3) ? draw_between(rng, 151, 499) : 0;
    p[XSUM] = p[XLOSS] == LOSS_BCE && draw_chance(rng, 3);
    p[XWEIGHTS] = draw_chance(rng, 3);
    p[XMULTI] = p[XLOSS] == LOSS_BCE && draw_chance(rng, 2);
    p[XTEACHER] = p[XVIEWS] == 1 && draw_chance(rng, 3) ? draw_between(rng, 1, 1000) : 0;
    p[XTEMPERATURE] = draw_between(rng, 5, 100);
}

static void build_xent(const int64_t *p, Problem *out)
{
    const int64_t n = p[XN];
    out->attr.xent.label_smoothing = (float)((double)p[XSMOOTH] / 1000);
    out->attr.xent.views = (int)p[XVIEWS];
    out->attr.xent.loss = (LossKind)p[XLOSS];
    out->attr.xent.threshold = (float)((double)p[XTHRESHOLD] / 1000);
    out->attr.xent.sum = (int)p[XSUM];
    out->attr.xent.temperature = (float)((double)p[XTEMPERATURE] / 10);
    out->attr.xent.distill = (float)((double)p[XTEACHER] / 1000);
    if (p[XWEIGHTS]) out->in[XENT_IN_CLASS_WEIGHTS] = desc_f32(p[XC], 0, 0, 0);
    if (p[XTEACHER]) out->in[XENT_IN_TEACHER] = desc_f32(n, p[XC], 0, 0);
    out->in[XENT_IN_LOGITS] = desc_f32(n * p[XVIEWS], p[XC], 0, 0);
    if (p[XMIX]) out->in[XENT_IN_MIX] = desc_f32(MIX_COUNT, 0, 0, 0);
    out->in[XENT_IN_LABELS] = tensor_desc(DTYPE_I32, 1, &n);
    if (p[XMULTI])
        out->in[XENT_IN_TARGETS] = tensor_desc(DTYPE_U8, 2, (int64_t[]){ n, (p[XC] + 7) / 8 });
    out->in[XENT_IN_SCALARS] = desc_f32(SCALAR_COUNT, 0, 0, 0);
    if (p[XSCALE]) out->in[XENT_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    out->terms = p[XC];
    out->wanted[XENT_OUT_STATS] = true;
    out->wanted[XENT_OUT_DLOGITS] = p[XGRADIENT] != 0;
}

static void fill_xent(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    if (p[XTIES]) fill_integers(&in[XENT_IN_LOGITS], rng, 3);
    else fill_normal(&in[XENT_IN_LOGITS], rng, 1, 2);
    if (p[XTEACHER]) fill_normal(&in[XENT_IN_TEACHER], rng, 1, 2);
    for (int64_t n = 0; n < p[XN]; n++)
        in[XENT_IN_LABELS].v[n] =
            n < p[XN] - p[XPADDING] ? (double)rng_below(rng, (uint64_t)p[XC]) : -1;
    double *scalars = in[XENT_IN_SCALARS].v;
    scalars[SCALAR_LR] = fill_float(0.1);
    scalars[SCALAR_GRAD_SCALE] = fill_float(1 / (double)p[XN]);
    scalars[SCALAR_BIAS_CORRECTION1] = scalars[SCALAR_BIAS_CORRECTION2] = 1;
    if (p[XSCALE]) in[XENT_IN_LOSS_SCALE].v[LOSS_SCALE_SCALE] = (double)p[XSCALE];
    for (int64_t k = 0; p[XWEIGHTS] && k < p[XC]; k++)
        in[XENT_IN_CLASS_WEIGHTS].v[k] = fill_float(0.1 + 3 * rng_uniform(rng));
    for (int64_t i = 0; p[XMULTI] && i < p[XN] * ((p[XC] + 7) / 8); i++)
        in[XENT_IN_TARGETS].v[i] = (double)rng_below(rng, 256);
    if (!p[XMIX]) return;
    in[XENT_IN_MIX].v[MIX_LAMBDA] = fill_float((double)p[XMIX] / 1000);
    in[XENT_IN_MIX].v[MIX_REST] = fill_float(1 - in[XENT_IN_MIX].v[MIX_LAMBDA]);
}

const Family family_softmax_xent = { OP_SOFTMAX_XENT, FAMILY_NAN, 0.85,       32,       xent_params,
                                     xent_fixed,      draw_xent,  build_xent, fill_xent };

/* ---- update: kind: UpdateKind; momentum and decay in thousandths; gap: elements
 * between segments that belong to none; scale: the loss scale, 0 for none; skip: the gradients are
 * said not to be finite; clip: factor in thousandths, 0 for no clipping; ratio: trust ratios in
 * thousandths, 0 for none ---- */
enum { UKIND, UCOUNT, USEGMENTS, UGAP, UMOMENTUM, UNESTEROV, UDECAY, USCALE, USKIP, UCLIP, URATIO };

static const ParamDef update_params[] = { { "kind", 0 },  { "count", 10 },     { "segments", 1 },
                                          { "gap", 0 },   { "momentum", 900 }, { "nesterov", 0 },
                                          { "decay", 0 }, { "scale", 0 },      { "skip", 0 },
                                          { "clip", 0 },  { "ratio", 0 },      { NULL, 0 } };
static const char *const update_fixed[] = {
    "kind=0 count=1",
    "kind=0 count=100 momentum=0",
    "kind=0 count=1000 momentum=0 decay=100 segments=2",
    "kind=0 count=1003 nesterov=1 decay=10 segments=3 gap=5",
    "kind=0 count=64 decay=100",
    "kind=1 count=1001 decay=10 segments=2 gap=3",
    "kind=2 count=1001 decay=100 segments=4 gap=16",
    "kind=* count=7",
    "kind=* count=1003 decay=10 scale=96 clip=40",
    "kind=2 count=100003 decay=50",
    "kind=0 count=1003 decay=10 scale=1024",
    "kind=1 count=1003 decay=10 scale=96",
    "kind=2 count=1003 decay=10 scale=65536",
    "kind=0 count=1003 decay=10 scale=1024 skip=1",
    "kind=2 count=1003 decay=10 scale=1024 skip=1",
    "kind=0 count=1003 decay=10 clip=250",
    "kind=1 count=1003 decay=10 clip=40",
    "kind=2 count=1003 decay=10 clip=999 scale=96",
    "kind=0 count=1003 momentum=0 clip=125 scale=1024 skip=1",
    "kind=* count=1003 decay=10 segments=3 gap=2 ratio=300",
    "kind=* count=1003 decay=10 nesterov=1 segments=2 ratio=1700 clip=500",
    "kind=* count=1003 decay=10 momentum=0 segments=2 ratio=20",
    NULL,
};

static void draw_update(Rng *rng, int64_t *p)
{
    p[UKIND] = draw_between(rng, 0, UPDATE_KIND_COUNT - 1);
    p[UCOUNT] = draw_between(rng, 40, 3000);
    p[USEGMENTS] = draw_between(rng, 1, PROBLEM_MAX_SEGMENTS);
    p[UGAP] = draw_between(rng, 0, 9);
    p[UMOMENTUM] = draw_between(rng, 1, 990);
    p[UNESTEROV] = draw_between(rng, 0, 1);
    p[UDECAY] = draw_between(rng, 0, 200);
    p[USCALE] = draw_chance(rng, 3) ? draw_between(rng, 1, 2000) : 0;
    p[USKIP] = p[USCALE] && draw_chance(rng, 4);
    p[UCLIP] = draw_chance(rng, 3) ? draw_between(rng, 1, 1000) : 0;
    p[URATIO] = draw_chance(rng, 2) ? draw_between(rng, 1, 2000) : 0;
}

static void build_update(const int64_t *p, Problem *out)
{
    TensorDesc flat = desc_f32(p[UCOUNT], 0, 0, 0);
    out->in[UPDATE_IN_PARAM] = out->in[UPDATE_IN_GRAD] = flat;
    out->in[UPDATE_IN_SCALARS] = desc_f32(SCALAR_COUNT, 0, 0, 0);
    if (p[USCALE]) out->in[UPDATE_IN_LOSS_SCALE] = desc_f32(LOSS_SCALE_COUNT, 0, 0, 0);
    if (p[UCLIP]) out->in[UPDATE_IN_CLIP] = desc_f32(CLIP_COUNT, 0, 0, 0);
    if (p[URATIO]) out->in[UPDATE_IN_RATIO] = desc_f32(p[USEGMENTS], 0, 0, 0);
    const float rates[] = { 1.0f, 0.1f, 64.0f };
    int64_t share = p[UCOUNT] / p[USEGMENTS];
    for (int i = 0; i < p[USEGMENTS]; i++)
        out->segments[i] = (UpdateSegment){ i * share, share - p[UGAP],
                                            i % 2 ? 0 : (float)((double)p[UDECAY] / 1000),
                                            rates[i % 3], p[URATIO] > 0 };
    out->attr.update = (UpdateAttr){ .kind = (UpdateKind)p[UKIND],
                                     .momentum = (float)((double)p[UMOMENTUM] / 1000),
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .eps = 1e-8f,
                                     .nesterov = p[UNESTEROV] != 0,
                                     .segment_count = (int)p[USEGMENTS],
                                     .segments = out->segments };
    for (int i = 0; i < update_states(out->attr.update.kind, (double)out->attr.update.momentum);
         i++)
        out->in[UPDATE_IN_STATE0 + i] = flat;
    out->terms = 1;
}

/* Where the sign that Lion takes could hang on rounding, it is that of 0. */
static void leave_kink(const int64_t *p, const UpdateAttr *a, Host *in)
{
    const double clip = p[UCLIP] ? in[UPDATE_IN_CLIP].v[CLIP_FACTOR] : 1;
    double *g = in[UPDATE_IN_GRAD].v, *m = in[UPDATE_IN_STATE0].v;
    for (int64_t i = 0; i < p[UCOUNT]; i++) {
        const double kept = a->beta1 * m[i], added = (1 - a->beta1) * clip * g[i];
        if (i % 16 != 0 && fabs(kept + added) > 1e-4 * (fabs(kept) + fabs(added))) continue;
        g[i] = m[i] = 0;
    }
}

static void fill_update(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    Host *second = &in[UPDATE_IN_STATE1];
    for (int64_t i = 0; second->desc.rank && i < p[UCOUNT]; i++)
        second->v[i] = fill_float(0.1 + second->v[i] * second->v[i]);
    double *scalars = in[UPDATE_IN_SCALARS].v;
    scalars[SCALAR_LR] = fill_float(0.05);
    scalars[SCALAR_GRAD_SCALE] = 1;
    scalars[SCALAR_BIAS_CORRECTION1] = fill_float(1 - 0.9 * 0.9 * 0.9);
    scalars[SCALAR_BIAS_CORRECTION2] = fill_float(1 - 0.999 * 0.999 * 0.999);
    if (p[UCLIP]) in[UPDATE_IN_CLIP].v[CLIP_FACTOR] = fill_float((double)p[UCLIP] / 1000);
    for (int64_t i = 0; p[URATIO] && i < p[USEGMENTS]; i++)
        in[UPDATE_IN_RATIO].v[i] = fill_float((double)(p[URATIO] * (i + 1)) / 1000);
    if (p[UKIND] == UPDATE_LION) leave_kink(p, &problem->attr.update, in);
    if (!p[USCALE]) return;
    Host *grad = &in[UPDATE_IN_GRAD], *state = &in[UPDATE_IN_LOSS_SCALE];
    for (int64_t i = 0; i < p[UCOUNT]; i++) grad->v[i] = fill_float(grad->v[i] * (double)p[USCALE]);
    state->v[LOSS_SCALE_SCALE] = (double)p[USCALE];
    state->v[LOSS_SCALE_FOUND_INF] = (double)p[USKIP];
    if (p[USKIP]) grad->v[0] = INFINITY;
}

const Family family_update = { OP_UPDATE,    0,           0.2,          12,         update_params,
                               update_fixed, draw_update, build_update, fill_update };
