/* families_window.c - pooling over windows and whole images, and subsampling, with their
 * gradients. */
#include "tests/ops/families.h"

/* ---- pool2d: kind 0 max, 1 avg, 2 blur, 3 blur with mirrored padding, 4 avg of tiles, whose
 * strides and padding follow from the window ---- */
enum { PN, PC, PH, PW, PKIND, PWH, PWW, PSH, PSW, PPH, PPW, PINDEX };

static const ParamDef pool_params[] = { { "n", 1 },    { "c", 1 },  { "h", 1 },  { "w", 1 },
                                        { "kind", 0 }, { "wh", 2 }, { "ww", 2 }, { "sh", 2 },
                                        { "sw", 2 },   { "ph", 0 }, { "pw", 0 }, { "index", 1 },
                                        { NULL, 0 } };

static const char *const pool_fixed[] = {
    "n=1 c=1 h=1 w=1 wh=1 ww=1 sh=1 sw=1",
    "n=2 c=8 h=1 w=1 wh=3 ww=3 ph=1 pw=1",  /* window larger than the image */
    "n=2 c=16 h=9 w=8 wh=3 ww=3 ph=1 pw=1", /* the ImageNet stem */
    "n=2 c=16 h=9 w=8 wh=3 ww=3 ph=1 pw=1 index=0",
    "n=2 c=5 h=7 w=7 wh=3 ww=3 sh=1 sw=1 ph=1 pw=1",
    "n=1 c=13 h=6 w=5 wh=2 ww=3 sh=2 sw=1 ph=1 pw=0",
    "n=2 c=19 h=6 w=7 sh=1 sw=1 ph=1 pw=1",
    "n=2 c=9 h=2 w=3 wh=5 ww=5 sh=1 sw=1 ph=2 pw=2",
    "n=2 c=16 h=7 w=8", /* airbench's, nothing outside */
    "n=2 c=8 h=6 w=6 wh=3 ww=3 ph=1 pw=1 kind=*",
    "n=2 c=16 h=8 w=7 kind=2 wh=3 ww=3 sh=1 sw=1 ph=1 pw=1", /* FFCV's */
    "n=2 c=19 h=1 w=2 kind=2 wh=3 ww=3 sh=1 sw=2 ph=1 pw=1",
    "n=2 c=16 h=2 w=2 kind=3 wh=3 ww=3 ph=1 pw=1", /* both sides mirror the same pixels */
    "n=2 c=24 h=3 w=8 kind=3 wh=3 ww=3 ph=1 pw=1",
    "n=1 c=5 h=7 w=2 kind=3 wh=3 ww=3 sh=1 sw=3 ph=1 pw=1",
    "n=2 c=12 h=5 w=7 kind=1 wh=3 ww=3 ph=1 pw=1",
    "n=1 c=3 h=4 w=4 kind=1 wh=4 ww=2 sh=3 sw=1 ph=2 pw=1",
    "n=2 c=16 h=8 w=6 kind=4", /* ResNet-D's */
    "n=2 c=19 h=7 w=9 kind=4",
    "n=1 c=8 h=1 w=5 kind=4 ww=3",
    NULL,
};

static void draw_pool_axis(Rng *rng, int64_t *size, int64_t *kernel_size, int64_t *stride,
                           int64_t *pad)
{
    *kernel_size = draw_between(rng, 1, 4);
    *stride = draw_between(rng, 1, 3);
    *pad = draw_between(rng, 0, *kernel_size / 2);
    *size = draw_between(rng, 1, 10);
    if (*size + 2 * *pad < *kernel_size) *size = *kernel_size;
}

static void draw_pool(Rng *rng, int64_t *p)
{
    p[PN] = draw_between(rng, 1, 3);
    p[PC] = draw_channels(rng);
    draw_pool_axis(rng, &p[PH], &p[PWH], &p[PSH], &p[PPH]);
    draw_pool_axis(rng, &p[PW], &p[PWW], &p[PSW], &p[PPW]);
    p[PKIND] = draw_chance(rng, 3) ? POOL_AVG : POOL_MAX;
    p[PINDEX] = !draw_chance(rng, 4);
    if (draw_chance(rng, 4)) p[PKIND] = POOL_AVG_TILES;
    if (!draw_chance(rng, 3)) return;
    p[PKIND] = draw_between(rng, POOL_BLUR, POOL_BLUR_REFLECT);
    p[PWH] = p[PWW] = 3;
    p[PPH] = p[PPW] = 1;
    if (p[PKIND] == POOL_BLUR_REFLECT) {
        p[PH] += p[PH] == 1;
        p[PW] += p[PW] == 1;
    }
}

static void build_pool(const int64_t *p, Problem *out)
{
    const bool tiles = p[PKIND] == POOL_AVG_TILES;
    const Pool2dAttr windows = { (PoolKind)p[PKIND], (int)p[PWH], (int)p[PWW], (int)p[PSH],
                                 (int)p[PSW],        (int)p[PPH], (int)p[PPW] },
                     whole = {
                         POOL_AVG_TILES, (int)p[PWH], (int)p[PWW], (int)p[PWH], (int)p[PWW], 0, 0
                     };
    out->attr.pool = tiles ? whole : windows;
    out->exact = tiles ? p[PH] % p[PWH] == 0 && p[PW] % p[PWW] == 0 && power_of_two(p[PWH] * p[PWW])
                       : p[PKIND] != POOL_AVG || power_of_two(p[PWH] * p[PWW]);
    out->wanted[0] = true;
    TensorDesc x = desc_f32(p[PN], p[PC], p[PH], p[PW]), y = x;
    y.dims[2] = (p[PH] + 2 * p[PPH] - p[PWH]) / p[PSH] + 1;
    y.dims[3] = (p[PW] + 2 * p[PPW] - p[PWW]) / p[PSW] + 1;
    if (tiles) {
        y.dims[2] = (p[PH] + p[PWH] - 1) / p[PWH];
        y.dims[3] = (p[PW] + p[PWW] - 1) / p[PWW];
    }
    out->terms = p[PWH] * p[PWW];
    if (out->kind == OP_POOL2D) {
        out->in[POOL_IN_X] = x;
        out->wanted[POOL_OUT_INDEX] = p[PKIND] == POOL_MAX && p[PINDEX];
        return;
    }
    out->in[POOL_BWD_IN_DY] = y;
    if (p[PKIND] == POOL_MAX) {
        out->in[POOL_BWD_IN_INDEX] = y;
        out->in[POOL_BWD_IN_INDEX].dtype = DTYPE_U8;
    }
    out->out[POOL_BWD_OUT_DX] = x;
}

static void fill_pool(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    if (p[PKIND] == POOL_MAX && mode != MODE_EXACT) fill_distinct(&in[POOL_IN_X], rng);
    /* integers have ties: the first of the window must win */
    else fill_default(problem, mode, rng, in);
}

/* A random place of a window that lies in the image. */
static int64_t draw_inside(Rng *rng, int64_t origin, int64_t kernel_size, int64_t size)
{
    int64_t first = origin < 0 ? -origin : 0,
            last = origin + kernel_size > size ? size - origin - 1 : kernel_size - 1;
    return draw_between(rng, first, last);
}

static void fill_pool_bwd(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    fill_default(problem, mode, rng, in);
    if (p[PKIND] != POOL_MAX) return;
    const int64_t *d = problem->in[POOL_BWD_IN_DY].dims;
    for (int64_t i = 0, n = tensor_elements(&problem->in[POOL_BWD_IN_DY]); i < n; i++) {
        int64_t q = i % d[3], row = i / d[3] % d[2];
        int64_t r = draw_inside(rng, row * p[PSH] - p[PPH], p[PWH], p[PH]),
                s = draw_inside(rng, q * p[PSW] - p[PPW], p[PWW], p[PW]);
        in[POOL_BWD_IN_INDEX].v[i] = (double)(r * p[PWW] + s);
    }
}

const Family family_pool2d = {
    OP_POOL2D, FAMILY_EXACT | FAMILY_NAN, 0.7, 20, pool_params, pool_fixed, draw_pool, build_pool,
    fill_pool
};
const Family family_pool2d_bwd = { OP_POOL2D_BWD, FAMILY_EXACT, 0.95,      20,
                                   pool_params,   pool_fixed,   draw_pool, build_pool,
                                   fill_pool_bwd };

/* ---- global average pooling ---- */
enum { GN, GC, GH, GW };

static const ParamDef gap_params[] = {
    { "n", 1 }, { "c", 1 }, { "h", 1 }, { "w", 1 }, { NULL, 0 }
};
static const char *const gap_fixed[] = { "n=1 c=1 h=1 w=1",
                                         "n=2 c=16 h=7 w=7",
                                         "n=3 c=13 h=4 w=4",
                                         "n=2 c=64 h=8 w=8",
                                         "n=1 c=9 h=1 w=2",
                                         "n=4 c=1100 h=12 w=12",
                                         NULL };

static void draw_gap(Rng *rng, int64_t *p)
{
    p[GN] = draw_between(rng, 1, 4);
    p[GC] = draw_channels(rng);
    p[GH] = draw_between(rng, 1, 9);
    p[GW] = draw_between(rng, 1, 9);
}

static void build_gap(const int64_t *p, Problem *out)
{
    TensorDesc x = desc_f32(p[GN], p[GC], p[GH], p[GW]);
    bool forward = out->kind == OP_GLOBAL_AVGPOOL;
    out->exact = power_of_two(p[GH] * p[GW]);
    out->terms = forward ? p[GH] * p[GW] : 1;
    out->wanted[0] = true;
    out->in[0] = forward ? x : desc_f32(p[GN], p[GC], 0, 0);
    if (!forward) out->out[0] = x;
}

const Family family_global_avgpool = { OP_GLOBAL_AVGPOOL,
                                       FAMILY_EXACT | FAMILY_NAN,
                                       0.5,
                                       10,
                                       gap_params,
                                       gap_fixed,
                                       draw_gap,
                                       build_gap,
                                       NULL };
const Family family_global_avgpool_bwd = { OP_GLOBAL_AVGPOOL_BWD,
                                           FAMILY_EXACT | FAMILY_NAN,
                                           0.5,
                                           10,
                                           gap_params,
                                           gap_fixed,
                                           draw_gap,
                                           build_gap,
                                           NULL };

/* ---- subsample ---- */
enum { SN, SC, SH, SW, SSTRIDE, SK };

static const ParamDef subsample_params[] = { { "n", 1 },      { "c", 1 }, { "h", 1 }, { "w", 1 },
                                             { "stride", 2 }, { "k", 1 }, { NULL, 0 } };
static const char *const subsample_fixed[] = {
    "n=1 c=1 h=1 w=1 k=1",
    "n=2 c=16 h=8 w=8 k=32",
    "n=2 c=8 h=7 w=5 k=16",
    "n=1 c=4 h=6 w=6 k=8",
    "n=2 c=12 h=4 w=4 stride=1 k=20",
    "n=2 c=3 h=9 w=9 k=5",
    "n=2 c=5 h=5 w=7 stride=3 k=17",
    NULL,
};

static void draw_subsample(Rng *rng, int64_t *p)
{
    p[SN] = draw_between(rng, 1, 3);
    p[SC] = draw_channels(rng);
    p[SH] = draw_between(rng, 1, 9);
    p[SW] = draw_between(rng, 1, 9);
    p[SSTRIDE] = draw_between(rng, 1, 3);
    p[SK] = p[SC] + (draw_chance(rng, 3) ? 0 : draw_between(rng, 1, 20));
}

static void build_subsample(const int64_t *p, Problem *out)
{
    TensorDesc x = desc_f32(p[SN], p[SC], p[SH], p[SW]);
    TensorDesc y =
        desc_f32(p[SN], p[SK], (p[SH] - 1) / p[SSTRIDE] + 1, (p[SW] - 1) / p[SSTRIDE] + 1);
    out->attr.subsample = (SubsampleAttr){ (int)p[SSTRIDE], p[SK] };
    out->terms = 1;
    out->wanted[0] = true;
    out->in[0] = out->kind == OP_SUBSAMPLE ? x : y;
    if (out->kind == OP_SUBSAMPLE_BWD) out->out[0] = x;
}

/* Added channels are zero, and so are the gradients of skipped pixels. */
const Family family_subsample = {
    OP_SUBSAMPLE,    0,   0.96, 10, subsample_params, subsample_fixed, draw_subsample,
    build_subsample, NULL
};
const Family family_subsample_bwd = {
    OP_SUBSAMPLE_BWD, 0,   0.9, 10, subsample_params, subsample_fixed, draw_subsample,
    build_subsample,  NULL
};
