/* batchnorm_bwd.c - gradients of y = act(bn(x) + residual) in one sweep of two passes.
 *
 * Pass 1 forms dz = (dy + dy2) act'(y), sums dz and dz (x - mean), and writes dz where somebody
 * wants it (dresidual) or, in f32, where pass 2 would otherwise have to read dy2 or y or find such
 * a slope as SiLU's again (into dx, which pass 2 then overwrites in place); in bf16 it is formed
 * again, as dx would round it. Pass 2 is dx = gamma inv_std (dz - mean(dz) - xhat mean(dz xhat)).
 * With running statistics (frozen) both means are left out. Where sums go over ranks each pass is
 * an op of its own, and dz is formed again unless the residual has it. Inputs may lie under outputs
 * element by element (dx over dy, dresidual over dy2): every element is read before it is written.
 */
#include "kernels/cpu/batchnorm.h"
#include "kernels/cpu/cpu_math.h"
#include <string.h>

enum { SUM_STEPS = 128 };
typedef enum Mask {
    MASK_NONE,
    MASK_FROM_X,
    MASK_FROM_Y,
    MASK_SILU /*the slope at bn(x), from here on*/,
    MASK_RELU6,
    MASK_HARD_SWISH,
    MASK_COUNT
} Mask;

typedef struct Planes { /* whole tensors; NULL where absent */
    const void *dy, *dy2, *x, *y;
    void *dz; /* where pass 1 leaves dz */
    void *dx;
} Planes;
typedef void SumFn(const Planes *p, const BnSpan *span, const BnLanes *lanes, BnSums *out);
typedef void ApplyFn(const Planes *p, const BnSpan *span, const BnLanes *lanes);

typedef struct Backward { /* what the sweep's callbacks see */
    CpuView view;
    const BatchNormAttr *attr;
    bool accumulate;
    const double *totals; /* [2][C]: sums over ranks, NULL where x is all of the batch */
    double *sums;         /* likewise: of OP_BN_BWD_SUMS */
    Planes first, second; /* what the passes see */
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta;
    SumFn *sum;
    ApplyFn *apply;
} Backward;

/* ---- inner loops ---- */

/* Two loops: in one, gcc moves dy + dy2 behind the mask's branch, may not move it back (it could
 * trap) and stays scalar. The sign of y is that of what forward stored. */
CPU_INLINE void form_dz(float *dz, const Planes *p, int64_t i, const BnLanes *c, int lanes,
                        bool two, Mask mask, DType type)
{
    const float zero = type == DTYPE_BF16 ? FLOAT_BF16_ZERO : FLOAT_F32_ZERO;
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        dz[l] = cpu_lanes_load(p->dy, i + l, type);
        if (two) dz[l] += cpu_lanes_load(p->dy2, i + l, type);
    }
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        const float t = batchnorm_affine(cpu_lanes_load(p->x, i + l, type), c->mean[l], c->scale[l],
                                         c->shift[l]);
        if (mask == MASK_FROM_X) dz[l] = t <= zero ? 0.0f : dz[l];
        if (mask == MASK_SILU) dz[l] *= cpu_silu_slope(t);
        if (mask == MASK_RELU6) dz[l] = cpu_relu6_bwd(dz[l], t);
        if (mask == MASK_HARD_SWISH) dz[l] = cpu_hard_swish_bwd(dz[l], t);
        if (mask == MASK_FROM_Y) dz[l] = cpu_lanes_load(p->y, i + l, type) <= 0.0f ? 0.0f : dz[l];
    }
}

CPU_INLINE void sum_step(const Planes *p, int64_t i, const BnLanes *c, float *first, float *second,
                         int lanes, bool two, Mask mask, bool store, DType type)
{
    float dz[BN_LANES];
    form_dz(dz, p, i, c, lanes, two, mask, type);
    if (store) batchnorm_store(p->dz, i, dz, lanes, type);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        const float x = cpu_lanes_load(p->x, i + l, type);
        first[l] += dz[l];
        second[l] += dz[l] * (x - c->mean[l]);
    }
}

CPU_INLINE void sum_tile(const Planes *p, BnTile t, int64_t tables, const BnLanes *c, BnSums *out,
                         bool two, Mask mask, bool store, DType type)
{
    const int whole = batchnorm_lanes(type), each = whole / CPU_LANES;
    float sums[BN_TILE_TABLES][2][BN_LANES];
    for (int64_t j = 0; j < tables; j++)
        for (int l = 0; l < whole; l++) sums[j][0][l] = sums[j][1][l] = 0;
    for (int64_t k = 0; k < t.rows; k++, t.at += t.stride)
        for (int64_t j = 0; j < tables; j++)
            sum_step(p, t.at + j * whole, &c[j], sums[j][0], sums[j][1], whole, two, mask, store,
                     type);
    for (int64_t j = 0, lanes; t.rest > 0; t.rest -= lanes, t.at += lanes) {
        lanes = batchnorm_rest_lanes(t.rest, type);
        sum_step(p, t.at, &c[j], sums[j][0], sums[j][1], (int)lanes, two, mask, store, type);
        if (type == DTYPE_BF16) j++;
    }
    for (int64_t j = 0; j < tables; j++)
        batchnorm_add_sums(&out[j * each], sums[j][0], sums[j][1], whole);
}

CPU_INLINE void sum_span(const Planes *planes, const BnSpan *s, const BnLanes *c, BnSums *out,
                         bool two, Mask mask, bool store, DType type)
{
    const Planes p = *planes;
    const int64_t tables = type == DTYPE_F32 ? 1 : s->tables,
                  rows = type == DTYPE_F32 ? SUM_STEPS : BN_TILE_ROWS;
    const int64_t each = batchnorm_lanes(type) / CPU_LANES;
    memset(out, 0, (size_t)(tables * each) * sizeof *out);
    for (int64_t first = 0; first <= s->steps; first += rows)
        for (int64_t j = 0; j < tables; j += BN_TILE_TABLES) {
            const BnTile t = batchnorm_tile(s, first, rows, j, type);
            if (t.tables == BN_FEW_TABLES)
                sum_tile(&p, t, BN_FEW_TABLES, &c[j], &out[j * each], two, mask, store, type);
            else sum_tile(&p, t, t.tables, &c[j], &out[j * each], two, mask, store, type);
        }
}

CPU_INLINE void apply_step(const Planes *p, int64_t i, const BnLanes *c, int lanes, bool two,
                           Mask mask, DType type)
{
    float dz[BN_LANES], dx[BN_LANES];
    form_dz(dz, p, i, c, lanes, two, mask, type);
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        const float x = cpu_lanes_load(p->x, i + l, type);
        dx[l] = c->scale[l] * (dz[l] - c->mean_dz[l] - (x - c->mean[l]) * c->slope[l]);
    }
    batchnorm_store(p->dx, i, dx, lanes, type);
}

CPU_INLINE void apply_span(const Planes *planes, const BnSpan *s, const BnLanes *c, bool two,
                           Mask mask, DType type)
{
    const Planes p = *planes;
    const int64_t tables = type == DTYPE_F32 ? 1 : s->tables;
    int64_t at = s->at, rest = s->rest;
    int lanes = batchnorm_lanes(type);
    for (int64_t k = 0; k < s->steps; k++)
        for (int64_t j = 0; j < tables; j++, at += lanes)
            apply_step(&p, at, &c[j], lanes, two, mask, type);
    for (int64_t j = 0; rest > 0; rest -= lanes, at += lanes) {
        lanes = batchnorm_rest_lanes(rest, type);
        apply_step(&p, at, &c[j], lanes, two, mask, type);
        if (type == DTYPE_BF16) j++;
    }
}

#define BN_SUM(name, two, mask, store, type)                                                       \
    CPU_CLONES static void name(const Planes *p, const BnSpan *s, const BnLanes *restrict c,       \
                                BnSums *restrict out)                                              \
    {                                                                                              \
        sum_span(p, s, c, out, two, mask, store, type);                                            \
    }
#define BN_APPLY(name, two, mask, type)                                                            \
    CPU_CLONES static void name(const Planes *p, const BnSpan *s, const BnLanes *restrict c)       \
    {                                                                                              \
        apply_span(p, s, c, two, mask, type);                                                      \
    }
#define BN_SUMS(name, mask, store, type)                                                           \
    BN_SUM(one_##name, false, mask, store, type)                                                   \
    BN_SUM(two_##name, true, mask, store, type)
#define BN_APPLIES(name, mask, type)                                                               \
    BN_APPLY(one_##name, false, mask, type)                                                        \
    BN_APPLY(two_##name, true, mask, type)

/* Without a stored dz there is one gradient in f32, and the mask is none or comes from x, unless
 * the two passes are two ops. */
BN_SUMS(sum_f32, MASK_NONE, false, DTYPE_F32)
BN_SUMS(sum_x_f32, MASK_FROM_X, false, DTYPE_F32)
BN_SUMS(sum_y_f32, MASK_FROM_Y, false, DTYPE_F32)
BN_SUMS(store_f32, MASK_NONE, true, DTYPE_F32)
BN_SUMS(store_x_f32, MASK_FROM_X, true, DTYPE_F32)
BN_SUMS(store_y_f32, MASK_FROM_Y, true, DTYPE_F32)
BN_APPLIES(apply_f32, MASK_NONE, DTYPE_F32)
BN_APPLIES(apply_x_f32, MASK_FROM_X, DTYPE_F32)
BN_APPLIES(apply_y_f32, MASK_FROM_Y, DTYPE_F32)
/* With a residual to be given dz the mask is none or comes from y. */
BN_SUMS(sum_bf16, MASK_NONE, false, DTYPE_BF16)
BN_SUMS(sum_x_bf16, MASK_FROM_X, false, DTYPE_BF16)
BN_SUMS(sum_y_bf16, MASK_FROM_Y, false, DTYPE_BF16)
BN_SUMS(store_bf16, MASK_NONE, true, DTYPE_BF16)
BN_SUMS(store_y_bf16, MASK_FROM_Y, true, DTYPE_BF16)
BN_APPLIES(apply_bf16, MASK_NONE, DTYPE_BF16)
BN_APPLIES(apply_x_bf16, MASK_FROM_X, DTYPE_BF16)
BN_APPLIES(apply_y_bf16, MASK_FROM_Y, DTYPE_BF16)
#define BN_SLOPES(act, mask)                                                                       \
    BN_SUMS(sum_##act##_f32, mask, false, DTYPE_F32)                                               \
    BN_SUMS(store_##act##_f32, mask, true, DTYPE_F32)                                              \
    BN_APPLIES(apply_##act##_f32, mask, DTYPE_F32)                                                 \
    BN_SUMS(sum_##act##_bf16, mask, false, DTYPE_BF16)                                             \
    BN_APPLIES(apply_##act##_bf16, mask, DTYPE_BF16)
BN_SLOPES(silu, MASK_SILU)
BN_SLOPES(relu6, MASK_RELU6)
BN_SLOPES(hard_swish, MASK_HARD_SWISH)

#define BN_ONE_TWO(name)                                                                           \
    {                                                                                              \
        one_##name, two_##name                                                                     \
    }
#define BN_SLOPE_TABLE(pass, type)                                                                 \
    [MASK_SILU] = BN_ONE_TWO(pass##_silu_##type), [MASK_RELU6] = BN_ONE_TWO(pass##_relu6_##type),  \
    [MASK_HARD_SWISH] = BN_ONE_TWO(pass##_hard_swish_##type)
/* by type, mask, whether there are two gradients */
static SumFn *const sum_only[][MASK_COUNT][2] = {
    [DTYPE_F32] = { [MASK_NONE] = BN_ONE_TWO(sum_f32),
                    [MASK_FROM_X] = BN_ONE_TWO(sum_x_f32),
                    [MASK_FROM_Y] = BN_ONE_TWO(sum_y_f32),
                    BN_SLOPE_TABLE(sum, f32) },
    [DTYPE_BF16] = { [MASK_NONE] = BN_ONE_TWO(sum_bf16),
                     [MASK_FROM_X] = BN_ONE_TWO(sum_x_bf16),
                     [MASK_FROM_Y] = BN_ONE_TWO(sum_y_bf16),
                     BN_SLOPE_TABLE(sum, bf16) },
};
static SumFn *const sum_and_store[][MASK_COUNT][2] = {
    [DTYPE_F32] = { [MASK_NONE] = BN_ONE_TWO(store_f32),
                    [MASK_FROM_X] = BN_ONE_TWO(store_x_f32),
                    [MASK_FROM_Y] = BN_ONE_TWO(store_y_f32),
                    BN_SLOPE_TABLE(store, f32) },
    [DTYPE_BF16] = { [MASK_NONE] = BN_ONE_TWO(store_bf16),
                     [MASK_FROM_Y] = BN_ONE_TWO(store_y_bf16) },
};
static ApplyFn *const applies[][MASK_COUNT][2] = {
    [DTYPE_F32] = { [MASK_NONE] = BN_ONE_TWO(apply_f32),
                    [MASK_FROM_X] = BN_ONE_TWO(apply_x_f32),
                    [MASK_FROM_Y] = BN_ONE_TWO(apply_y_f32),
                    BN_SLOPE_TABLE(apply, f32) },
    [DTYPE_BF16] = { [MASK_NONE] = BN_ONE_TWO(apply_bf16),
                     [MASK_FROM_X] = BN_ONE_TWO(apply_x_bf16),
                     [MASK_FROM_Y] = BN_ONE_TWO(apply_y_bf16),
                     BN_SLOPE_TABLE(apply, bf16) },
};

/* ---- per channel block ---- */

static void begin_block(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Backward *g = ctx;
    int64_t b = g->view.b;
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(&g->view, block); c++) {
        int64_t channel = block * b + c;
        cpu_lanes_fill(lanes->mean, c, b, g->saved[channel]);
        cpu_lanes_fill(lanes->scale, c, b, g->gamma[channel] * g->saved[g->view.c + channel]);
        cpu_lanes_fill(lanes->shift, c, b, g->beta[channel]);
    }
}

static void sum(const void *ctx, const BnSpan *span, const BnLanes *lanes, BnSums *partial)
{
    const Backward *g = ctx;
    g->sum(&g->first, span, lanes, partial);
}

static void set_means(const Backward *g, int64_t block, int64_t c, double sum_dz,
                      double sum_dz_xhat, BnLanes *lanes)
{
    const int64_t b = g->view.b;
    const double values = batchnorm_values(&g->view, g->attr),
                 inv_std = (double)g->saved[g->view.c + block * b + c];
    cpu_lanes_fill(lanes->mean_dz, c, b, (float)(sum_dz / values));
    cpu_lanes_fill(lanes->slope, c, b, (float)(inv_std * sum_dz_xhat / values));
}

static void finish_block(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes)
{
    const Backward *g = ctx;
    int64_t b = g->view.b;
    for (int64_t c = 0; c < cpu_view_channels(&g->view, block); c++) {
        int64_t channel = block * b + c;
        double inv_std = (double)g->saved[g->view.c + channel];
        double sum_dz = cpu_lanes_sum(total->first, c, b),
               sum_dz_xhat = cpu_lanes_sum(total->second, c, b) * inv_std;
        g->dgamma[channel] =
            (float)(sum_dz_xhat + (g->accumulate ? (double)g->dgamma[channel] : 0.0));
        g->dbeta[channel] = (float)(sum_dz + (g->accumulate ? (double)g->dbeta[channel] : 0.0));
        if (g->sums) {
            g->sums[channel] = sum_dz;
            g->sums[g->view.c + channel] = sum_dz_xhat;
        }
        /* else mean_dz and slope stay zero */
        if (g->attr->mode == BN_TRAIN) set_means(g, block, c, sum_dz, sum_dz_xhat, lanes);
    }
}

/* By the sums over ranks. */
static void begin_totals(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Backward *g = ctx;
    begin_block(ctx, block, lanes);
    for (int64_t c = 0; c < cpu_view_channels(&g->view, block); c++) {
        const int64_t channel = block * g->view.b + c;
        set_means(g, block, c, g->totals[channel], g->totals[g->view.c + channel], lanes);
    }
}

static void apply(const void *ctx, const BnSpan *span, const BnLanes *lanes)
{
    const Backward *g = ctx;
    g->apply(&g->second, span, lanes);
}

/* ---- the op ---- */

/* Of both ops: they read the same, and have sums or dx in one place. */
static Status batchnorm_bwd_prepare(OpInstance *op)
{
    OpTensor *x = &op->in[BN_BWD_IN_X], *totals = &op->in[BN_BWD_IN_SUMS], *out = op->out;
    TRY(cpu_require_decided(x, op));
    op->workspace_bytes = 0;
    TRY(batchnorm_decide_operand(op, &op->in[BN_BWD_IN_DY], x));
    TRY(batchnorm_decide_operand(op, &op->in[BN_BWD_IN_DY2], x));
    TRY(batchnorm_decide_operand(op, &op->in[BN_BWD_IN_Y], x));
    for (int i = BN_BWD_IN_GAMMA; i <= BN_BWD_IN_SAVED; i++) cpu_decide_plain(&op->in[i]);
    if (totals->desc.rank != 0) cpu_decide_plain(totals);
    if (op->kind == OP_BN_BWD_SUMS) cpu_decide_plain(&out[BN_BWD_SUMS_OUT_SUMS]);
    else TRY(cpu_decide_like(&out[BN_BWD_OUT_DX], x, op));
    for (int i = BN_BWD_OUT_DGAMMA; i <= BN_BWD_OUT_DBETA; i++)
        if (out[i].desc.rank != 0) cpu_decide_plain(&out[i]);
    if (out[BN_BWD_OUT_DRESIDUAL].desc.rank != 0)
        TRY(cpu_decide_like(&out[BN_BWD_OUT_DRESIDUAL], x, op));
    CpuView v = cpu_view(x);
    op->workspace_bytes += totals->desc.rank != 0
                               ? batchnorm_once_workspace(&v)
                               : batchnorm_sweep_workspace(&v, cpu_backend_of(op)->threads);
    op->implementation = v.rows ? "bn_rows" : v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

/* Chooses where dz goes and which inner loops run. */
static void choose_loops(Backward *g, Mask mask, void *dresidual)
{
    const DType type = g->view.type;
    const bool two = g->first.dy2 != NULL, apart = g->sums || g->totals,
               again = apart || type == DTYPE_BF16 ||
                       (!two && (mask == MASK_NONE || mask == MASK_FROM_X)),
               store = dresidual || !again;
    g->first.dz = dresidual ? dresidual : g->first.dx;
    g->second = g->first;
    if (store) g->second.dy = g->first.dz;
    g->sum = (store ? sum_and_store : sum_only)[type][mask][two];
    g->apply = applies[type][store ? MASK_NONE : mask][two && !store];
    ASSERT(g->sum && g->apply);
}

/* y: there is one to read. */
static Mask mask_of(ActKind act, bool y)
{
    switch (act) {
    case ACT_NONE:
        return MASK_NONE;
    case ACT_RELU:
        return y ? MASK_FROM_Y : MASK_FROM_X;
    case ACT_SILU:
        return MASK_SILU;
    case ACT_RELU6:
        return MASK_RELU6;
    case ACT_HARD_SWISH:
        return MASK_HARD_SWISH;
    case ACT_GELU:
    case ACT_GELU_TANH:
    case ACT_TANH:
    case ACT_COUNT:
        break;
    }
    ASSERT(!"shape inference lets no other activation through");
    return MASK_NONE;
}

static void batchnorm_bwd_run(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    const OpTensor *in = op->in, *out = op->out, *x = &in[BN_BWD_IN_X];
    const bool sums = op->kind == OP_BN_BWD_SUMS;
    void *workspace = op->workspace;
    Backward g = { .view = cpu_view(x),
                   .attr = attr,
                   .accumulate = op->accumulate,
                   .totals = in[BN_BWD_IN_SUMS].data,
                   .sums = sums ? out[BN_BWD_SUMS_OUT_SUMS].data : NULL,
                   .first = { .dy = batchnorm_read_operand(&in[BN_BWD_IN_DY], x, &workspace),
                              .dy2 = batchnorm_read_operand(&in[BN_BWD_IN_DY2], x, &workspace),
                              .x = x->data,
                              .y = batchnorm_read_operand(&in[BN_BWD_IN_Y], x, &workspace),
                              .dx = sums ? NULL : out[BN_BWD_OUT_DX].data },
                   .gamma = in[BN_BWD_IN_GAMMA].data,
                   .beta = in[BN_BWD_IN_BETA].data,
                   .saved = in[BN_BWD_IN_SAVED].data,
                   .dgamma = out[BN_BWD_OUT_DGAMMA].data,
                   .dbeta = out[BN_BWD_OUT_DBETA].data };
    choose_loops(&g, mask_of(attr->act, g.first.y != NULL), out[BN_BWD_OUT_DRESIDUAL].data);
    BnSweep sweep = { .view = g.view,
                      .threads = cpu_team(op, g.view.n * g.view.cb * g.view.hw * g.view.b),
                      .ctx = &g,
                      .begin = g.totals ? begin_totals : begin_block,
                      .sum = sum,
                      .finish = finish_block,
                      .apply = sums ? NULL : apply };
    if (g.totals) batchnorm_once(&sweep, workspace);
    else batchnorm_sweep(&sweep, workspace);
}

CPU_LOOPS(cpu_batchnorm_bwd, NULL, batchnorm_bwd_prepare, batchnorm_bwd_run);
CPU_LOOPS(cpu_bn_bwd_sums, NULL, batchnorm_bwd_prepare, batchnorm_bwd_run);
