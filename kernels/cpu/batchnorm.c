/* batchnorm.c - y = act(bn(x) + residual): training statistics and normalisation in one sweep, or
 * one pass with running statistics.
 *
 * STATISTICS are sums of x - k and (x - k)^2 where k is the mean of the channel's first values, so
 * that a mean of a thousand deviations costs no digits; float over a run of SUM_STEPS values per
 * lane (of rows BN_TILE_ROWS), double beyond it. saved holds the float mean and 1/sqrt(var + eps)
 * that were applied: backward starts from the same two numbers. Sums that are to be added over
 * ranks are about 0, which all ranks have in common, in double: where the mean is 2^k deviations,
 * 53 - 2k bits of the variance are left. */
#include "kernels/cpu/batchnorm.h"
#include "kernels/cpu/cpu_math.h"
#include <math.h>
#include <string.h>

enum { SUM_STEPS = 128, GUESS_POSITIONS = 16 };

typedef void NormaliseFn(void *y, const void *x, const void *residual, const BnSpan *span,
                         const BnLanes *lanes);
typedef void SumFn(const void *x, const BnSpan *span, const BnLanes *guess, BnSums *out);

typedef struct Forward { /* what the sweep's callbacks see */
    const BatchNormAttr *attr;
    CpuView view;
    const void *x, *residual;
    const float *gamma, *beta;
    const double *totals; /* [2][C]: sums over ranks, NULL where x is all of the batch */
    double *sums;         /* likewise: of OP_BN_SUMS */
    const float *given;   /* [2][C]: saved by another, of OP_BN_APPLY */
    void *y;
    float *running_mean, *running_var, *saved; /* saved: NULL where nobody wants it */
    SumFn *sum;
    NormaliseFn *normalise;
} Forward;

/* ---- inner loops ---- */

CPU_INLINE void sum_step(const void *x, int64_t i, const float *guess, float *sum, float *square,
                         int lanes, DType type)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float d = cpu_lanes_load(x, i + l, type) - guess[l];
        sum[l] += d;
        square[l] += d * d;
    }
}

CPU_INLINE void sum_tile(const void *x, BnTile t, int64_t tables, const BnLanes *guess, BnSums *out,
                         DType type)
{
    const int whole = batchnorm_lanes(type), each = whole / CPU_LANES;
    float sums[BN_TILE_TABLES][2][BN_LANES]; /* and squares, beside them */
    for (int64_t j = 0; j < tables; j++)
        for (int l = 0; l < whole; l++) sums[j][0][l] = sums[j][1][l] = 0;
    for (int64_t k = 0; k < t.rows; k++, t.at += t.stride)
        for (int64_t j = 0; j < tables; j++)
            sum_step(x, t.at + j * whole, guess[j].mean, sums[j][0], sums[j][1], whole, type);
    for (int64_t j = 0, lanes; t.rest > 0; t.rest -= lanes, t.at += lanes) {
        lanes = batchnorm_rest_lanes(t.rest, type);
        sum_step(x, t.at, guess[j].mean, sums[j][0], sums[j][1], (int)lanes, type);
        if (type == DTYPE_BF16) j++;
    }
    for (int64_t j = 0; j < tables; j++)
        batchnorm_add_sums(&out[j * each], sums[j][0], sums[j][1], whole);
}

/* Sums of x - guess and its square over a span. */
CPU_INLINE void sum_span(const void *x, const BnSpan *s, const BnLanes *guess, BnSums *out,
                         DType type)
{
    const int64_t tables = type == DTYPE_F32 ? 1 : s->tables,
                  rows = type == DTYPE_F32 ? SUM_STEPS : BN_TILE_ROWS;
    const int64_t each = batchnorm_lanes(type) / CPU_LANES;
    memset(out, 0, (size_t)(tables * each) * sizeof *out);
    for (int64_t first = 0; first <= s->steps; first += rows)
        for (int64_t j = 0; j < tables; j += BN_TILE_TABLES) {
            const BnTile t = batchnorm_tile(s, first, rows, j, type);
            if (t.tables == BN_FEW_TABLES)
                sum_tile(x, t, BN_FEW_TABLES, &guess[j], &out[j * each], type);
            else sum_tile(x, t, t.tables, &guess[j], &out[j * each], type);
        }
}

CPU_INLINE void normalise_step(void *y, const void *x, const void *r, int64_t i, const BnLanes *c,
                               int lanes, bool add, ActKind act, DType type)
{
    float out[BN_LANES];
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float t =
            batchnorm_affine(cpu_lanes_load(x, i + l, type), c->mean[l], c->scale[l], c->shift[l]);
        if (add) t += cpu_lanes_load(r, i + l, type);
        if (act == ACT_SILU) t = cpu_silu(t);
        if (act == ACT_RELU6) t = cpu_relu6(t);
        if (act == ACT_HARD_SWISH) t = cpu_hard_swish(t);
        out[l] = act == ACT_RELU && t <= 0.0f ? 0.0f : t; /* this way round a NaN stays one */
    }
    batchnorm_store(y, i, out, lanes, type);
}

CPU_INLINE void normalise_span(void *y, const void *x, const void *r, const BnSpan *s,
                               const BnLanes *c, bool add, ActKind act, DType type)
{
    const int64_t tables = type == DTYPE_F32 ? 1 : s->tables;
    int64_t at = s->at, rest = s->rest;
    int lanes = batchnorm_lanes(type);
    for (int64_t k = 0; k < s->steps; k++)
        for (int64_t j = 0; j < tables; j++, at += lanes)
            normalise_step(y, x, r, at, &c[j], lanes, add, act, type);
    for (int64_t j = 0; rest > 0; rest -= lanes, at += lanes) {
        lanes = batchnorm_rest_lanes(rest, type);
        normalise_step(y, x, r, at, &c[j], lanes, add, act, type);
        if (type == DTYPE_BF16) j++;
    }
}

#define BN_SUM(name, type)                                                                         \
    CPU_CLONES static void name(const void *x, const BnSpan *s, const BnLanes *restrict guess,     \
                                BnSums *restrict out)                                              \
    {                                                                                              \
        sum_span(x, s, guess, out, type);                                                          \
    }
BN_SUM(sum_f32, DTYPE_F32)
BN_SUM(sum_bf16, DTYPE_BF16)

#define BN_NORMALISE(name, add, act, type)                                                         \
    CPU_CLONES static void name(void *y, const void *x, const void *r, const BnSpan *s,            \
                                const BnLanes *restrict c)                                         \
    {                                                                                              \
        normalise_span(y, x, r, s, c, add, act, type);                                             \
    }
#define BN_NORMALISE_ALL(name, type)                                                               \
    BN_NORMALISE(name, false, ACT_NONE, type)                                                      \
    BN_NORMALISE(name##_relu, false, ACT_RELU, type)                                               \
    BN_NORMALISE(name##_silu, false, ACT_SILU, type)                                               \
    BN_NORMALISE(name##_relu6, false, ACT_RELU6, type)                                             \
    BN_NORMALISE(name##_hard_swish, false, ACT_HARD_SWISH, type)                                   \
    BN_NORMALISE(name##_add, true, ACT_NONE, type)                                                 \
    BN_NORMALISE(name##_add_relu, true, ACT_RELU, type)
BN_NORMALISE_ALL(normalise_f32, DTYPE_F32)
BN_NORMALISE_ALL(normalise_bf16, DTYPE_BF16)

/* those that are not by sign take no residual */
#define BN_NORMALISE_TABLE(name)                                                                   \
    {                                                                                              \
        { [ACT_NONE] = name,                                                                       \
          [ACT_RELU] = name##_relu,                                                                \
          [ACT_SILU] = name##_silu,                                                                \
          [ACT_RELU6] = name##_relu6,                                                              \
          [ACT_HARD_SWISH] = name##_hard_swish },                                                  \
        {                                                                                          \
            [ACT_NONE] = name##_add, [ACT_RELU] = name##_add_relu                                  \
        }                                                                                          \
    }
/* by type, whether there is a residual, activation */
static SumFn *const sums[] = { [DTYPE_F32] = sum_f32, [DTYPE_BF16] = sum_bf16 };
static NormaliseFn *const normalises[][2][ACT_COUNT] = {
    [DTYPE_F32] = BN_NORMALISE_TABLE(normalise_f32),
    [DTYPE_BF16] = BN_NORMALISE_TABLE(normalise_bf16),
};

/* ---- per channel block ---- */

/* Applies mean and inv_std to channel c of a block, and saves them. */
static void set_channel(const Forward *f, int64_t block, int64_t c, float mean, float inv_std,
                        BnLanes *lanes)
{
    int64_t b = f->view.b, channel = block * b + c;
    cpu_lanes_fill(lanes->mean, c, b, mean);
    cpu_lanes_fill(lanes->scale, c, b, f->gamma[channel] * inv_std);
    cpu_lanes_fill(lanes->shift, c, b, f->beta[channel]);
    if (!f->saved) return;
    f->saved[channel] = mean;
    f->saved[f->view.c + channel] = inv_std;
}

static float inverse_std(const Forward *f, double var)
{
    return (float)(1.0 / sqrt(var + (double)f->attr->eps));
}

/* Guesses each channel's mean from the first positions of the first image. */
static void begin_block(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Forward *f = ctx;
    const CpuView *v = &f->view;
    int64_t positions = v->hw < GUESS_POSITIONS ? v->hw : GUESS_POSITIONS;
    /* Past the last channel all stays zero, and so y does: later kernels rely on zero padding. */
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(v, block); c++) {
        float sum = 0;
        for (int64_t p = 0; p < positions; p++)
            sum += cpu_lanes_load(f->x, block * v->block_step + p * v->step + c, v->type);
        cpu_lanes_fill(lanes->mean, c, v->b, sum / (float)positions);
    }
}

static void sum_x(const void *ctx, const BnSpan *span, const BnLanes *lanes, BnSums *partial)
{
    const Forward *f = ctx;
    f->sum(f->x, span, lanes, partial);
}

/* Of the batch, behind which `values` values are. */
static void use_statistics(const Forward *f, int64_t block, int64_t c, double mean, double var,
                           BnLanes *lanes)
{
    const double values = batchnorm_values(&f->view, f->attr), m = (double)f->attr->momentum;
    const int64_t channel = block * f->view.b + c;
    if (var < 0) var = 0;
    f->running_mean[channel] = (float)((1 - m) * (double)f->running_mean[channel] + m * mean);
    f->running_var[channel] =
        (float)((1 - m) * (double)f->running_var[channel] + m * var * (values / (values - 1)));
    set_channel(f, block, c, (float)mean, inverse_std(f, var), lanes);
}

static void finish_block(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes)
{
    const Forward *f = ctx;
    const double values = batchnorm_values(&f->view, f->attr);
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        const double offset = cpu_lanes_sum(total->first, c, f->view.b) / values;
        use_statistics(f, block, c, (double)lanes->mean[c] + offset,
                       cpu_lanes_sum(total->second, c, f->view.b) / values - offset * offset,
                       lanes);
    }
}

/* Keeps the sums about 0. */
static void finish_sums(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes)
{
    const Forward *f = ctx;
    const double values = (double)f->view.n * (double)f->view.hw;
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        const int64_t channel = block * f->view.b + c;
        const double guess = (double)lanes->mean[c],
                     sum = cpu_lanes_sum(total->first, c, f->view.b),
                     square = cpu_lanes_sum(total->second, c, f->view.b);
        f->sums[channel] = values * guess + sum;
        f->sums[f->view.c + channel] = square + guess * (2 * sum + values * guess);
    }
}

/* By the sums over ranks. */
static void begin_totals(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Forward *f = ctx;
    const double values = batchnorm_values(&f->view, f->attr);
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        const int64_t channel = block * f->view.b + c;
        const double mean = f->totals[channel] / values;
        use_statistics(f, block, c, mean, f->totals[f->view.c + channel] / values - mean * mean,
                       lanes);
    }
}

/* With running statistics. */
static void begin_frozen(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Forward *f = ctx;
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        int64_t channel = block * f->view.b + c;
        set_channel(f, block, c, f->running_mean[channel],
                    inverse_std(f, (double)f->running_var[channel]), lanes);
    }
}

/* With statistics that an OP_BATCHNORM has saved. */
static void begin_given(const void *ctx, int64_t block, BnLanes *lanes)
{
    const Forward *f = ctx;
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        const int64_t channel = block * f->view.b + c;
        set_channel(f, block, c, f->given[channel], f->given[f->view.c + channel], lanes);
    }
}

static void apply(const void *ctx, const BnSpan *span, const BnLanes *lanes)
{
    const Forward *f = ctx;
    f->normalise(f->y, f->x, f->residual, span, lanes);
}

/* ---- the op ---- */

static Status batchnorm_prepare(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    TRY(cpu_require_decided(&op->in[BN_IN_X], op));
    for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++) cpu_decide_plain(&op->in[i]);
    op->workspace_bytes = 0;
    TRY(batchnorm_decide_operand(op, &op->in[BN_IN_RESIDUAL], &op->in[BN_IN_X]));
    TRY(cpu_decide_like(&op->out[BN_OUT_Y], &op->in[BN_IN_X], op));
    if (op->out[BN_OUT_SAVED].desc.rank != 0) cpu_decide_plain(&op->out[BN_OUT_SAVED]);
    CpuView v = cpu_view(&op->in[BN_IN_X]);
    if (op->in[BN_IN_SUMS].desc.rank != 0) cpu_decide_plain(&op->in[BN_IN_SUMS]);
    if (attr->mode == BN_TRAIN && batchnorm_values(&v, attr) < 2)
        return fail(
            ERR_USAGE,
            "batch norm cannot train on one value per channel: use a larger batch or image");
    op->workspace_bytes += attr->mode == BN_TRAIN && attr->ranks == 0
                               ? batchnorm_sweep_workspace(&v, cpu_backend_of(op)->threads)
                               : batchnorm_once_workspace(&v);
    op->implementation = v.rows ? "bn_rows" : v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

static void batchnorm_run(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    void *workspace = op->workspace;
    Forward f = { .attr = attr,
                  .view = cpu_view(&op->in[BN_IN_X]),
                  .x = op->in[BN_IN_X].data,
                  .residual =
                      batchnorm_read_operand(&op->in[BN_IN_RESIDUAL], &op->in[BN_IN_X], &workspace),
                  .gamma = op->in[BN_IN_GAMMA].data,
                  .beta = op->in[BN_IN_BETA].data,
                  .totals = op->in[BN_IN_SUMS].data,
                  .y = op->out[BN_OUT_Y].data,
                  .running_mean = op->in[BN_IN_RUNNING_MEAN].data,
                  .running_var = op->in[BN_IN_RUNNING_VAR].data,
                  .saved = op->out[BN_OUT_SAVED].data };
    BnSweep sweep = { .view = f.view,
                      .threads = cpu_team(op, f.view.n * f.view.cb * f.view.hw * f.view.b),
                      .ctx = &f,
                      .begin = begin_block,
                      .sum = sum_x,
                      .finish = finish_block,
                      .apply = apply };
    f.sum = sums[f.view.type];
    f.normalise = normalises[f.view.type][f.residual != NULL][attr->act];
    ASSERT(f.normalise); /* shape inference lets no other activation through */
    if (attr->mode == BN_TRAIN && attr->ranks == 0) {
        batchnorm_sweep(&sweep, workspace);
        return;
    }
    sweep.begin = attr->mode == BN_TRAIN ? begin_totals : begin_frozen;
    batchnorm_once(&sweep, workspace);
}

static Status apply_prepare(OpInstance *op)
{
    OpTensor *x = &op->in[BN_APPLY_IN_X];
    TRY(cpu_require_decided(x, op));
    for (int i = BN_APPLY_IN_GAMMA; i <= BN_APPLY_IN_SAVED; i++) cpu_decide_plain(&op->in[i]);
    op->workspace_bytes = 0;
    TRY(batchnorm_decide_operand(op, &op->in[BN_APPLY_IN_RESIDUAL], x));
    TRY(cpu_decide_like(&op->out[BN_APPLY_OUT_Y], x, op));
    const CpuView v = cpu_view(x);
    op->workspace_bytes += batchnorm_once_workspace(&v);
    op->implementation = v.rows ? "bn_rows" : v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

static void apply_run(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    const OpTensor *x = &op->in[BN_APPLY_IN_X];
    void *workspace = op->workspace;
    Forward f = { .attr = attr,
                  .view = cpu_view(x),
                  .x = x->data,
                  .residual = batchnorm_read_operand(&op->in[BN_APPLY_IN_RESIDUAL], x, &workspace),
                  .gamma = op->in[BN_APPLY_IN_GAMMA].data,
                  .beta = op->in[BN_APPLY_IN_BETA].data,
                  .given = op->in[BN_APPLY_IN_SAVED].data,
                  .y = op->out[BN_APPLY_OUT_Y].data };
    const BnSweep sweep = { .view = f.view,
                            .threads = cpu_team(op, f.view.n * f.view.cb * f.view.hw * f.view.b),
                            .ctx = &f,
                            .begin = begin_given,
                            .apply = apply };
    f.normalise = normalises[f.view.type][f.residual != NULL][attr->act];
    ASSERT(f.normalise);
    batchnorm_once(&sweep, workspace);
}

static Status sums_prepare(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[BN_SUMS_IN_X], op));
    cpu_decide_plain(&op->out[BN_SUMS_OUT_SUMS]);
    const CpuView v = cpu_view(&op->in[BN_SUMS_IN_X]);
    op->workspace_bytes = batchnorm_sweep_workspace(&v, cpu_backend_of(op)->threads);
    op->implementation = v.rows ? "bn_rows" : v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

static void sums_run(OpInstance *op)
{
    Forward f = { .view = cpu_view(&op->in[BN_SUMS_IN_X]),
                  .x = op->in[BN_SUMS_IN_X].data,
                  .sums = op->out[BN_SUMS_OUT_SUMS].data };
    const BnSweep sweep = { .view = f.view,
                            .threads = cpu_team(op, f.view.n * f.view.cb * f.view.hw * f.view.b),
                            .ctx = &f,
                            .begin = begin_block,
                            .sum = sum_x,
                            .finish = finish_sums };
    f.sum = sums[f.view.type];
    batchnorm_sweep(&sweep, op->workspace);
}

CPU_LOOPS(cpu_bn_sums, NULL, sums_prepare, sums_run);
CPU_LOOPS(cpu_bn_apply, NULL, apply_prepare, apply_run);
CPU_LOOPS(cpu_batchnorm, NULL, batchnorm_prepare, batchnorm_run);
