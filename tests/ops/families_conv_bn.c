/* families_conv_bn.c - a convolution of an evaluation with batch norm, residual and activation. */
#include "tests/ops/families.h"

enum { N, C, H, W, K, R, S, SH, SW, PT, PB, PL, PR, G, ACT, RESIDUAL };

static const ParamDef params[CASE_MAX_PARAMS + 1] = {
    { "n", 1 },  { "c", 1 },  { "h", 1 },   { "w", 1 },        { "k", 1 },  { "r", 1 },
    { "s", 1 },  { "sh", 1 }, { "sw", 1 },  { "pt", 0 },       { "pb", 0 }, { "pl", 0 },
    { "pr", 0 }, { "g", 1 },  { "act", 0 }, { "residual", 0 }, { NULL, 0 },
};

static const char *const fixed[] = {
    "n=1 c=1 h=1 w=1 k=1",
    "n=2 c=3 h=9 w=11 k=16 r=7 s=7 sh=2 sw=2 pt=3 pb=3 pl=3 pr=3 act=1", /* the ImageNet stem */
    "n=2 c=64 h=7 w=7 k=64 act=1",
    "n=2 c=64 h=7 w=7 k=256 act=1 residual=1", /* the end of a bottleneck */
    "n=2 c=64 h=6 w=6 k=64 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=1 residual=1",
    "n=2 c=32 h=8 w=8 k=64 sh=2 sw=2", /* a shortcut */
    "n=2 c=48 h=5 w=5 k=24 residual=1",
    "n=2 c=16 h=7 w=7 k=96 act=*",
    "n=2 c=16 h=7 w=7 k=96 act=* residual=1",
    /* channels between multiples of 8 */
    "n=2 c=12 h=5 w=5 k=20 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=1 residual=1",
    "n=2 c=20 h=5 w=4 k=5 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=1 residual=1", /* y is plain, x is not */
    "n=2 c=5 h=5 w=4 k=20 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=2",
    /* asymmetric, as TensorFlow pads */
    "n=2 c=16 h=6 w=6 k=16 r=3 s=3 sh=2 sw=2 pt=0 pb=1 pl=0 pr=1 act=1",
    /* eight of nine taps see padding */
    "n=1 c=16 h=1 w=1 k=32 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=1 residual=1",
    "n=2 c=32 h=2 w=1 k=16 r=5 s=5 pt=2 pb=2 pl=2 pr=2",
    "n=2 c=64 h=5 w=5 k=64 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=4 act=1",    /* 16 channels a group */
    "n=2 c=64 h=5 w=5 k=64 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=8 act=1",    /* 8 */
    "n=2 c=128 h=5 w=5 k=128 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=32 act=1", /* 4: ResNeXt */
    "n=1 c=13 h=6 w=6 k=13 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=13 act=1 residual=1",
    "n=3 c=40 h=9 w=11 k=40 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=40 act=2", /* depthwise */
    "n=2 c=72 h=5 w=13 k=72 r=5 s=5 sh=2 sw=2 pt=2 pb=2 pl=2 pr=2 g=72 act=2",
    "n=2 c=16 h=2 w=1 k=16 r=5 s=5 pt=2 pb=2 pl=2 pr=2 g=16 act=2 residual=1",
    "n=1 c=6 h=5 w=5 k=4 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=2 act=1",
    /* Winograd's */
    "n=1 c=32 h=9 w=7 k=48 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=*",
    "n=2 c=16 h=4 w=6 k=16 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=* residual=1",
    "n=1 c=24 h=9 w=7 k=40 r=3 s=3 pt=1 pb=1 pl=1 pr=1 act=* residual=1",
    NULL,
};

static void draw_axis(Rng *rng, int64_t *size, int64_t *kernel_size, int64_t *stride,
                      int64_t *before, int64_t *after)
{
    static const int64_t kernel_sizes[] = { 1, 1, 2, 3, 3, 5 };
    *kernel_size = kernel_sizes[rng_below(rng, sizeof kernel_sizes / sizeof kernel_sizes[0])];
    *stride = draw_between(rng, 1, 2);
    *before = draw_between(rng, 0, *kernel_size / 2);
    *after = draw_chance(rng, 3) ? draw_between(rng, 0, *kernel_size / 2) : *before;
    *size = draw_between(rng, 1, 12);
    if (*size + *before + *after < *kernel_size) *size = *kernel_size;
}

static void draw(Rng *rng, int64_t *p)
{
    p[N] = draw_between(rng, 1, 3);
    draw_axis(rng, &p[H], &p[R], &p[SH], &p[PT], &p[PB]);
    draw_axis(rng, &p[W], &p[S], &p[SW], &p[PL], &p[PR]);
    p[G] = draw_chance(rng, 4) ? draw_between(rng, 2, 9) : 1;
    p[C] = p[G] > 1 ? p[G] * draw_between(rng, 1, 4) : draw_channels(rng);
    p[K] = p[G] > 1 ? p[G] * draw_between(rng, 1, 4) : draw_channels(rng);
    p[ACT] = draw_folded_act(rng);
    p[RESIDUAL] = draw_between(rng, 0, 1);
}

static void build(const int64_t *p, Problem *out)
{
    const int64_t rows = (p[H] + p[PT] + p[PB] - p[R]) / p[SH] + 1,
                  columns = (p[W] + p[PL] + p[PR] - p[S]) / p[SW] + 1;
    out->attr.conv_bn = (Conv2dBnAttr){
        .conv = { (int)p[SH], (int)p[SW], (int)p[PT], (int)p[PB], (int)p[PL], (int)p[PR],
                  (int)p[G] },
        .eps = 1e-5f,
        .act = (ActKind)p[ACT],
    };
    out->terms = p[C] / p[G] * p[R] * p[S] + 3; /* mean, shift and residual */
    out->wanted[CONV_BN_OUT_Y] = true;
    out->in[CONV_BN_IN_X] = desc_f32(p[N], p[C], p[H], p[W]);
    out->in[CONV_BN_IN_W] = desc_f32(p[K], p[C] / p[G], p[R], p[S]);
    for (int i = CONV_BN_IN_GAMMA; i <= CONV_BN_IN_RUNNING_VAR; i++)
        out->in[i] = desc_f32(p[K], 0, 0, 0);
    if (p[RESIDUAL]) out->in[CONV_BN_IN_RESIDUAL] = desc_f32(p[N], p[K], rows, columns);
}

static void fill(const int64_t *p, const Problem *problem, Mode mode, Rng *rng, Host *in)
{
    (void)problem;
    (void)mode;
    fill_normal(&in[CONV_BN_IN_X], rng, 0.1, 1);
    fill_normal(&in[CONV_BN_IN_W], rng, 0.1, 1);
    /* so that a ReLU leaves some of each channel */
    fill_normal(&in[CONV_BN_IN_BETA], rng, 0, 0.2);
    fill_normal(&in[CONV_BN_IN_RUNNING_MEAN], rng, 0, 0.2);
    for (int64_t c = 0; c < p[K]; c++) {
        const double gamma = 0.5 + rng_uniform(rng);
        in[CONV_BN_IN_GAMMA].v[c] = fill_float(draw_chance(rng, 4) ? -gamma : gamma);
        in[CONV_BN_IN_RUNNING_VAR].v[c] = fill_float(0.5 + rng_uniform(rng));
    }
    if (p[RESIDUAL]) fill_normal(&in[CONV_BN_IN_RESIDUAL], rng, 0.1, 1);
}

const Family family_conv2d_bn = {
    OP_CONV2D_BN, FAMILY_NAN | FAMILY_WEIGHTS, 0.9, 40, params, fixed, draw, build, fill
};
