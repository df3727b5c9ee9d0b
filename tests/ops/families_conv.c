/* families_conv.c - ops with weights: convolution and linear, with their gradients. */
#include "tests/ops/families.h"

/* ---- convolution ---- */
enum { CN, CC, CH, CW, CK, CR, CS, CSH, CSW, CPT, CPB, CPL, CPR, CG, CBIAS, CRANK };

static const ParamDef conv_params[] = {
    { "n", 1 },  { "c", 1 },  { "h", 1 },    { "w", 1 },
    { "k", 1 },  { "r", 1 },  { "s", 1 },    { "sh", 1 },
    { "sw", 1 }, { "pt", 0 }, { "pb", 0 },   { "pl", 0 },
    { "pr", 0 }, { "g", 1 },  { "bias", 0 }, { "rank", 4 } /* of w */,
    { NULL, 0 },
};

static const char *const conv_fixed[] = {
    "n=1 c=1 h=1 w=1 k=1",
    "n=1 c=3 h=1 w=1 k=8 r=3 s=3 pt=1 pb=1 pl=1 pr=1", /* image smaller than the window */
    "n=2 c=2 h=3 w=2 k=5 r=7 s=7 pt=3 pb=3 pl=3 pr=3",
    "n=2 c=3 h=9 w=11 k=16 r=7 s=7 sh=2 sw=2 pt=3 pb=3 pl=3 pr=3", /* the ImageNet stem */
    "n=2 c=1 h=8 w=8 k=8 r=7 s=7 sh=2 sw=2 pt=3 pb=3 pl=3 pr=3",   /* one input channel */
    /* strided 1x1: most of dx is zero */
    "n=2 c=32 h=8 w=7 k=64 sh=3 sw=2",
    /* asymmetric, as TensorFlow pads */
    "n=2 c=16 h=6 w=6 k=16 r=3 s=3 sh=2 sw=2 pt=0 pb=1 pl=0 pr=1",
    "n=1 c=7 h=5 w=6 k=9 r=3 s=3 pt=2 pb=0 pl=0 pr=2",
    "n=2 c=12 h=5 w=5 k=20 r=3 s=3 pt=1 pb=1 pl=1 pr=1", /* channels between multiples of 8 */
    "n=2 c=16 h=6 w=5 k=32 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=2",
    "n=2 c=32 h=5 w=5 k=32 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=4",  /* 8 channels a group */
    "n=2 c=16 h=6 w=6 k=16 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=4",  /* 4 channels a group */
    "n=1 c=13 h=6 w=6 k=13 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=13", /* depthwise */
    "n=2 c=16 h=7 w=7 k=16 r=5 s=5 sh=2 sw=2 pt=2 pb=2 pl=2 pr=2 g=16",
    "n=3 c=40 h=9 w=11 k=40 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=40",
    "n=2 c=72 h=5 w=13 k=72 r=5 s=5 pt=2 pb=2 pl=2 pr=2 g=72",
    "n=2 c=24 h=7 w=9 k=24 r=3 s=3 sh=2 sw=2 pt=1 pb=1 pl=1 pr=1 g=24",
    /* depthwise, as TensorFlow pads */
    "n=2 c=48 h=8 w=10 k=48 r=3 s=3 sh=2 sw=2 pt=0 pb=1 pl=0 pr=1 g=48",
    "n=1 c=8 h=8 w=11 k=8 r=5 s=5 sh=2 sw=2 pt=1 pb=2 pl=1 pr=2 g=8",
    "n=2 c=16 h=2 w=1 k=16 r=5 s=5 pt=2 pb=2 pl=2 pr=2 g=16", /* mostly padding */
    "n=4 c=8 h=33 w=39 k=8 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=8",  /* enough for several blocks */
    "n=1 c=16 h=5 w=4 k=16 r=3 s=3 pt=0 pb=0 pl=2 pr=0 g=16",
    "n=1 c=6 h=5 w=5 k=4 r=3 s=3 pt=1 pb=1 pl=1 pr=1 g=2",
    "n=3 c=24 h=4 w=4 k=8 r=1 s=3 sh=1 sw=2 pl=1 pr=1",
    "n=2 c=13 h=5 w=7 k=20 bias=1 rank=2",
    "n=2 c=3 h=8 w=12 k=24 r=4 s=4 sh=4 sw=4 bias=1", /* ConvNeXt's stem, */
    "n=2 c=16 h=9 w=8 k=16 r=7 s=7 pt=3 pb=3 pl=3 pr=3 g=16 bias=1",
    "n=2 c=40 h=3 w=5 k=40 r=7 s=7 pt=3 pb=3 pl=3 pr=3 g=40 bias=1",
    "n=1 c=24 h=33 w=20 k=24 r=7 s=7 pt=3 pb=3 pl=3 pr=3 g=24", /* its blocks, */
    "n=3 c=24 h=6 w=5 k=24 g=24 rank=3",                        /* and their scale */
    "n=2 c=24 h=5 w=1 k=24 g=24 rank=1",
    "n=2 c=8 h=7 w=7 k=16 sh=2 sw=2",
    "n=3 c=8 h=8 w=8 k=16 sw=2",                         /* accept_fast_narrow is for this */
    "n=2 c=32 h=7 w=5 k=48 r=3 s=3 pt=1 pb=1 pl=1 pr=1", /* rows shorter than AMX's */
    /* Winograd's: whole and cut tiles, one block of channels, half a block, more tiles than a block
     * has */
    "n=1 c=16 h=4 w=8 k=16 r=3 s=3 pt=1 pb=1 pl=1 pr=1",
    "n=3 c=48 h=9 w=11 k=80 r=3 s=3 pt=1 pb=1 pl=1 pr=1",
    "n=2 c=64 h=6 w=3 k=32 r=3 s=3 pt=1 pb=1 pl=1 pr=1 bias=1",
    "n=2 c=16 h=57 w=62 k=48 r=3 s=3 pt=1 pb=1 pl=1 pr=1",
    "n=2 c=24 h=10 w=9 k=56 r=3 s=3 pt=1 pb=1 pl=1 pr=1 bias=1",
    "n=1 c=56 h=8 w=8 k=40 r=3 s=3 pt=1 pb=1 pl=1 pr=1",
    "n=1 c=136 h=8 w=5 k=24 r=3 s=3 pt=1 pb=1 pl=1 pr=1",
    NULL,
};

static void draw_conv_axis(Rng *rng, int64_t *size, int64_t *kernel_size, int64_t *stride,
                           int64_t *before, int64_t *after)
{
    static const int64_t kernel_sizes[] = { 1, 1, 2, 3, 3, 3, 5 };
    *kernel_size = kernel_sizes[rng_below(rng, sizeof kernel_sizes / sizeof kernel_sizes[0])];
    *stride = draw_between(rng, 1, 3);
    *before = draw_between(rng, 0, *kernel_size / 2);
    *after = draw_chance(rng, 3) ? draw_between(rng, 0, *kernel_size / 2) : *before;
    *size = draw_between(rng, 1, 12);
    if (*size + *before + *after < *kernel_size) *size = *kernel_size;
}

static void draw_conv(Rng *rng, int64_t *p)
{
    p[CN] = draw_between(rng, 1, 3);
    p[CBIAS] = draw_chance(rng, 3);
    draw_conv_axis(rng, &p[CH], &p[CR], &p[CSH], &p[CPT], &p[CPB]);
    draw_conv_axis(rng, &p[CW], &p[CS], &p[CSW], &p[CPL], &p[CPR]);
    if (draw_chance(rng, 4)) {
        p[CG] = draw_between(rng, 2, 9);
        p[CC] = p[CG] * draw_between(rng, 1, 4);
        p[CK] = p[CG] * draw_between(rng, 1, 4);
    } else {
        p[CG] = 1;
        p[CC] = draw_channels(rng);
        p[CK] = draw_channels(rng);
    }
}

static void build_conv(const int64_t *p, Problem *out)
{
    out->attr.conv = (Conv2dAttr){ (int)p[CSH], (int)p[CSW], (int)p[CPT], (int)p[CPB],
                                   (int)p[CPL], (int)p[CPR], (int)p[CG] };
    out->exact = true;
    TensorDesc x = desc_f32(p[CN], p[CC], p[CH], p[CW]),
               w = tensor_desc(DTYPE_F32, (int)p[CRANK],
                               (int64_t[]){ p[CK], p[CC] / p[CG], p[CR], p[CS] });
    int64_t rows = (p[CH] + p[CPT] + p[CPB] - p[CR]) / p[CSH] + 1,
            columns = (p[CW] + p[CPL] + p[CPR] - p[CS]) / p[CSW] + 1;
    TensorDesc y = desc_f32(p[CN], p[CK], rows, columns),
               bias = desc_f32(p[CBIAS] * p[CK], 0, 0, 0);
    out->wanted[0] = true;
    if (out->kind == OP_CONV2D) {
        out->in[CONV_IN_X] = x;
        out->in[CONV_IN_W] = w;
        out->in[CONV_IN_B] = bias;
        out->terms = w.dims[1] * p[CR] * p[CS] + p[CBIAS];
    } else if (out->kind == OP_CONV2D_BWD_DATA) {
        out->in[CONV_BWD_DATA_IN_DY] = y;
        out->in[CONV_BWD_DATA_IN_W] = w;
        out->out[CONV_BWD_DATA_OUT_DX] = x;
        out->terms = p[CK] / p[CG] * p[CR] * p[CS];
    } else {
        out->in[CONV_BWD_WEIGHTS_IN_X] = x;
        out->in[CONV_BWD_WEIGHTS_IN_DY] = y;
        out->out[CONV_BWD_WEIGHTS_OUT_DW] = w;
        out->out[CONV_BWD_WEIGHTS_OUT_DB] = bias;
        out->wanted[CONV_BWD_WEIGHTS_OUT_DB] = p[CBIAS] != 0;
        out->terms = p[CN] * rows * columns;
    }
}

const Family family_conv2d = { OP_CONV2D,   FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS,
                               0.4,         14,
                               conv_params, conv_fixed,
                               draw_conv,   build_conv,
                               NULL };
/* Pixels that a stride skips have no gradient, taps that lie in the padding of a small image have
 * none. */
const Family family_conv2d_bwd_data = { OP_CONV2D_BWD_DATA,
                                        FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS,
                                        0.9,
                                        14,
                                        conv_params,
                                        conv_fixed,
                                        draw_conv,
                                        build_conv,
                                        NULL };
const Family family_conv2d_bwd_weights = { OP_CONV2D_BWD_WEIGHTS,
                                           FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS |
                                               FAMILY_ACCUMULATES,
                                           0.97,
                                           14,
                                           conv_params,
                                           conv_fixed,
                                           draw_conv,
                                           build_conv,
                                           NULL };

/* ---- linear: h and w other than 0 make x of rank 4 ---- */
enum { LN, LC, LK, LBIAS, LH, LW };

static const ParamDef linear_params[] = { { "n", 1 }, { "c", 1 }, { "k", 1 }, { "bias", 1 },
                                          { "h", 0 }, { "w", 0 }, { NULL, 0 } };

static const char *const linear_fixed[] = {
    "n=1 c=1 k=1",          "n=1 c=1 k=1 bias=0",
    "n=4 c=64 k=10",        "n=3 c=17 k=13 bias=0",
    "n=2 c=1 k=10 h=5 w=7", "n=5 c=3 k=16 h=4 w=4",
    "n=1 c=300 k=7",        "n=33 c=8 k=1",
    "n=3 c=16 k=5 h=3 w=2", /* x in channel blocks */
    "n=2 c=13 k=5 h=3 w=3", NULL,
};

static void draw_linear(Rng *rng, int64_t *p)
{
    p[LN] = draw_between(rng, 1, 9);
    p[LC] = draw_between(rng, 1, 70);
    p[LK] = draw_between(rng, 1, 40);
    p[LBIAS] = !draw_chance(rng, 3);
    p[LH] = p[LW] = 0;
    if (!draw_chance(rng, 4)) return;
    p[LC] = draw_between(rng, 1, 4); /* images: below the channel block, so plain in any backend */
    p[LH] = draw_between(rng, 1, 6);
    p[LW] = draw_between(rng, 1, 6);
}

static void build_linear(const int64_t *p, Problem *out)
{
    int64_t features = p[LH] ? p[LC] * p[LH] * p[LW] : p[LC];
    TensorDesc x = desc_f32(p[LN], p[LC], p[LH], p[LW]), w = desc_f32(p[LK], features, 0, 0),
               y = desc_f32(p[LN], p[LK], 0, 0);
    TensorDesc bias = desc_f32(p[LBIAS] ? p[LK] : 0, 0, 0, 0);
    out->exact = true;
    out->wanted[0] = true;
    if (out->kind == OP_LINEAR) {
        out->in[LINEAR_IN_X] = x;
        out->in[LINEAR_IN_W] = w;
        out->in[LINEAR_IN_B] = bias;
        out->terms = features + 1;
    } else if (out->kind == OP_LINEAR_BWD_DATA) {
        out->in[LINEAR_BWD_DATA_IN_DY] = y;
        out->in[LINEAR_BWD_DATA_IN_W] = w;
        out->out[LINEAR_BWD_DATA_OUT_DX] = x;
        out->terms = p[LK];
    } else {
        out->in[LINEAR_BWD_WEIGHTS_IN_X] = x;
        out->in[LINEAR_BWD_WEIGHTS_IN_DY] = y;
        out->out[LINEAR_BWD_WEIGHTS_OUT_DW] = w;
        out->out[LINEAR_BWD_WEIGHTS_OUT_DB] = bias;
        out->wanted[LINEAR_BWD_WEIGHTS_OUT_DB] = p[LBIAS] != 0;
        out->terms = p[LN];
    }
}

const Family family_linear = { OP_LINEAR,     FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS,
                               0.4,           12,
                               linear_params, linear_fixed,
                               draw_linear,   build_linear,
                               NULL };
const Family family_linear_bwd_data = { OP_LINEAR_BWD_DATA,
                                        FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS,
                                        0.4,
                                        12,
                                        linear_params,
                                        linear_fixed,
                                        draw_linear,
                                        build_linear,
                                        NULL };
const Family family_linear_bwd_weights = { OP_LINEAR_BWD_WEIGHTS,
                                           FAMILY_EXACT | FAMILY_NAN | FAMILY_WEIGHTS |
                                               FAMILY_ACCUMULATES,
                                           0.4,
                                           12,
                                           linear_params,
                                           linear_fixed,
                                           draw_linear,
                                           build_linear,
                                           NULL };
