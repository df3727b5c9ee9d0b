/* batchnorm_bwd.c - gradients of y = act(bn(x) + residual) in one sweep of two passes.
 *
 * Pass 1 forms dz = (dy + dy2) act'(y), sums dz and dz (x - mean), and writes dz where somebody
 * wants it (dresidual) or where pass 2 would otherwise have to read dy2 or y or find the slope of
 * SiLU again (into dx, which pass 2 then overwrites in place). Pass 2 is dx = gamma inv_std (dz -
 * mean(dz) - xhat mean(dz xhat)). With running statistics (frozen) both means are left out. Inputs
 * may lie under outputs element by element (dx over dy, dresidual over dy2): every element is read
 * before it is written. */
#include "kernels/cpu/batchnorm.h"
#include "kernels/cpu/cpu_math.h"
#include <string.h>

enum { SUM_STEPS = 128 };
typedef enum Mask {
    MASK_NONE,
    MASK_FROM_X,
    MASK_FROM_Y,
    MASK_SILU /*the slope at bn(x)*/,
    MASK_COUNT
} Mask;

typedef struct Planes { /* one plane of every tensor; NULL where absent */
    const float *dy, *dy2, *x, *y;
    float *dz; /* where pass 1 leaves dz */
} Planes;
typedef void SumFn(const Planes *p, int64_t count, const BnLanes *lanes, BnSums *out);
typedef void ApplyFn(float *dx, const float *dz, const float *x, int64_t count,
                     const BnLanes *lanes);

typedef struct Backward { /* what the sweep's callbacks see */
    CpuView view;
    bool frozen, accumulate;
    Planes base; /* whole tensors */
    const float *gamma, *beta, *saved;
    const float *dz; /* what pass 2 reads: base.dz, or dy itself */
    float *dx, *dgamma, *dbeta;
    SumFn *sum;
    ApplyFn *apply;
} Backward;

/* ---- inner loops ---- */

/* Two loops: in one, gcc moves dy + dy2 behind the mask's branch, may not move it back (it could
 * trap) and stays scalar. */
CPU_INLINE void sum_step(const Planes *p, int64_t i, const BnLanes *c, float *first, float *second,
                         int lanes, bool two, Mask mask, bool store)
{
    const float *dy = p->dy + i, *dy2 = two ? p->dy2 + i : NULL, *x = p->x + i,
                *y = mask == MASK_FROM_Y ? p->y + i : NULL;
    float *dz_out = store ? p->dz + i : NULL, whole[CPU_LANES];
#pragma omp simd
    for (int l = 0; l < lanes; l++) whole[l] = two ? dy[l] + dy2[l] : dy[l];
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float dz = whole[l];
        if (mask == MASK_FROM_X)
            dz = batchnorm_affine(x[l], c->mean[l], c->scale[l], c->shift[l]) <= 0.0f ? 0.0f : dz;
        if (mask == MASK_SILU)
            dz *= cpu_silu_slope(batchnorm_affine(x[l], c->mean[l], c->scale[l], c->shift[l]));
        if (mask == MASK_FROM_Y) dz = y[l] <= 0.0f ? 0.0f : dz;
        if (store) dz_out[l] = dz;
        first[l] += dz;
        second[l] += dz * (x[l] - c->mean[l]);
    }
}

CPU_INLINE void sum_run(const Planes *planes, int64_t count, const BnLanes *c, BnSums *out,
                        bool two, Mask mask, bool store)
{
    Planes p = *planes;
    int64_t i = 0;
    memset(out, 0, sizeof *out);
    while (i < count) {
        float first[CPU_LANES] = { 0 }, second[CPU_LANES] = { 0 };
        int64_t end = count - i < SUM_STEPS * CPU_LANES ? count : i + SUM_STEPS * CPU_LANES;
        for (; i + CPU_LANES <= end; i += CPU_LANES)
            sum_step(&p, i, c, first, second, CPU_LANES, two, mask, store);
        if (i + CPU_HALF_LANES <= end) {
            sum_step(&p, i, c, first, second, CPU_HALF_LANES, two, mask, store);
            i += CPU_HALF_LANES;
        }
        for (; i < end; i++) sum_step(&p, i, c, first, second, 1, two, mask, store);
        for (int l = 0; l < CPU_LANES; l++) {
            out->first[l] += (double)first[l];
            out->second[l] += (double)second[l];
        }
    }
}

CPU_CLONES static void sum_one(const Planes *p, int64_t count, const BnLanes *restrict c,
                               BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_NONE, false);
}

CPU_CLONES static void sum_one_x(const Planes *p, int64_t count, const BnLanes *restrict c,
                                 BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_FROM_X, false);
}

CPU_CLONES static void sum_one_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                     BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_NONE, true);
}

CPU_CLONES static void sum_one_x_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                       BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_FROM_X, true);
}

CPU_CLONES static void sum_one_y_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                       BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_FROM_Y, true);
}

CPU_CLONES static void sum_two_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                     BnSums *restrict out)
{
    sum_run(p, count, c, out, true, MASK_NONE, true);
}

CPU_CLONES static void sum_two_x_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                       BnSums *restrict out)
{
    sum_run(p, count, c, out, true, MASK_FROM_X, true);
}

CPU_CLONES static void sum_two_y_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                       BnSums *restrict out)
{
    sum_run(p, count, c, out, true, MASK_FROM_Y, true);
}

CPU_CLONES static void sum_one_silu_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                          BnSums *restrict out)
{
    sum_run(p, count, c, out, false, MASK_SILU, true);
}

CPU_CLONES static void sum_two_silu_store(const Planes *p, int64_t count, const BnLanes *restrict c,
                                          BnSums *restrict out)
{
    sum_run(p, count, c, out, true, MASK_SILU, true);
}

/* Without a stored dz there is one gradient, and the mask is none or comes from x. */
static SumFn *const sum_only[MASK_COUNT] = { [MASK_NONE] = sum_one, [MASK_FROM_X] = sum_one_x };
static SumFn *const sum_and_store[2][MASK_COUNT] = {
    { [MASK_NONE] = sum_one_store,
      [MASK_FROM_X] = sum_one_x_store,
      [MASK_FROM_Y] = sum_one_y_store,
      [MASK_SILU] = sum_one_silu_store },
    { [MASK_NONE] = sum_two_store,
      [MASK_FROM_X] = sum_two_x_store,
      [MASK_FROM_Y] = sum_two_y_store,
      [MASK_SILU] = sum_two_silu_store },
};

CPU_INLINE void apply_step(float *dx, const float *dz, const float *x, const BnLanes *c, int lanes,
                           bool mask)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float g = dz[l];
        if (mask)
            g = batchnorm_affine(x[l], c->mean[l], c->scale[l], c->shift[l]) <= 0.0f ? 0.0f : g;
        dx[l] = c->scale[l] * (g - c->mean_dz[l] - (x[l] - c->mean[l]) * c->slope[l]);
    }
}

CPU_INLINE void apply_run(float *dx, const float *dz, const float *x, int64_t count,
                          const BnLanes *c, bool mask)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= count; i += CPU_LANES)
        apply_step(dx + i, dz + i, x + i, c, CPU_LANES, mask);
    if (i + CPU_HALF_LANES <= count) {
        apply_step(dx + i, dz + i, x + i, c, CPU_HALF_LANES, mask);
        i += CPU_HALF_LANES;
    }
    for (; i < count; i++) apply_step(dx + i, dz + i, x + i, c, 1, mask);
}

CPU_CLONES static void apply_dz(float *dx, const float *dz, const float *x, int64_t count,
                                const BnLanes *restrict c)
{
    apply_run(dx, dz, x, count, c, false);
}

CPU_CLONES static void apply_masked(float *dx, const float *dy, const float *x, int64_t count,
                                    const BnLanes *restrict c)
{
    apply_run(dx, dy, x, count, c, true);
}

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

static void sum_block(const void *ctx, int64_t plane, const BnLanes *lanes, BnSums *partial)
{
    const Backward *g = ctx;
    const Planes *t = &g->base;
    int64_t count = g->view.hw * g->view.b, at = plane * count;
    Planes p = { .dy = t->dy + at,
                 .dy2 = t->dy2 ? t->dy2 + at : NULL,
                 .x = t->x + at,
                 .y = t->y ? t->y + at : NULL,
                 .dz = t->dz ? t->dz + at : NULL };
    g->sum(&p, count, lanes, partial);
}

static void finish_block(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes)
{
    const Backward *g = ctx;
    int64_t b = g->view.b;
    double values = (double)g->view.n * (double)g->view.hw;
    for (int64_t c = 0; c < cpu_view_channels(&g->view, block); c++) {
        int64_t channel = block * b + c;
        double inv_std = (double)g->saved[g->view.c + channel];
        double sum_dz = cpu_lanes_sum(total->first, c, b),
               sum_dz_xhat = cpu_lanes_sum(total->second, c, b) * inv_std;
        g->dgamma[channel] =
            (float)(sum_dz_xhat + (g->accumulate ? (double)g->dgamma[channel] : 0.0));
        g->dbeta[channel] = (float)(sum_dz + (g->accumulate ? (double)g->dbeta[channel] : 0.0));
        if (g->frozen) continue; /* mean_dz and slope stay zero */
        cpu_lanes_fill(lanes->mean_dz, c, b, (float)(sum_dz / values));
        cpu_lanes_fill(lanes->slope, c, b, (float)(inv_std * sum_dz_xhat / values));
    }
}

static void apply_block(const void *ctx, int64_t plane, const BnLanes *lanes)
{
    const Backward *g = ctx;
    int64_t count = g->view.hw * g->view.b, at = plane * count;
    g->apply(g->dx + at, g->dz + at, g->base.x + at, count, lanes);
}

/* ---- the op ---- */

static Status batchnorm_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[BN_BWD_IN_X];
    TRY(cpu_decide_like(&op->in[BN_BWD_IN_DY], x, op));
    if (op->in[BN_BWD_IN_DY2].desc.rank != 0) TRY(cpu_decide_like(&op->in[BN_BWD_IN_DY2], x, op));
    if (op->in[BN_BWD_IN_Y].desc.rank != 0) TRY(cpu_decide_like(&op->in[BN_BWD_IN_Y], x, op));
    for (int i = BN_BWD_IN_GAMMA; i <= BN_BWD_IN_SAVED; i++) cpu_decide_plain(&op->in[i]);
    TRY(cpu_decide_like(&op->out[BN_BWD_OUT_DX], x, op));
    cpu_decide_plain(&op->out[BN_BWD_OUT_DGAMMA]);
    cpu_decide_plain(&op->out[BN_BWD_OUT_DBETA]);
    if (op->out[BN_BWD_OUT_DRESIDUAL].desc.rank != 0)
        TRY(cpu_decide_like(&op->out[BN_BWD_OUT_DRESIDUAL], x, op));
    CpuView v = cpu_view(x);
    op->workspace_bytes = batchnorm_sweep_workspace(&v, cpu_backend_of(op)->threads);
    op->implementation = v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

/* Chooses where dz goes and which inner loops run. */
static void choose(Backward *g, Mask mask, float *dresidual)
{
    bool two = g->base.dy2 != NULL,
         store = dresidual != NULL || two || mask == MASK_FROM_Y || mask == MASK_SILU;
    g->base.dz = dresidual != NULL ? dresidual : store ? g->dx : NULL;
    g->dz = store ? g->base.dz : g->base.dy;
    g->sum = store ? sum_and_store[two][mask] : sum_only[mask];
    g->apply = !store && mask == MASK_FROM_X ? apply_masked : apply_dz;
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
    case ACT_GELU:
    case ACT_GELU_TANH:
    case ACT_COUNT:
        break;
    }
    ASSERT(!"shape inference lets no other activation through");
    return MASK_NONE;
}

static Status batchnorm_bwd_run(OpInstance *op, Stream *stream)
{
    const BatchNormAttr *attr = op->attr;
    const OpTensor *in = op->in, *out = op->out;
    Backward g = { .view = cpu_view(&in[BN_BWD_IN_X]),
                   .frozen = attr->mode != BN_TRAIN,
                   .accumulate = op->accumulate,
                   .base = { .dy = in[BN_BWD_IN_DY].data,
                             .dy2 = in[BN_BWD_IN_DY2].data,
                             .x = in[BN_BWD_IN_X].data,
                             .y = in[BN_BWD_IN_Y].data },
                   .gamma = in[BN_BWD_IN_GAMMA].data,
                   .beta = in[BN_BWD_IN_BETA].data,
                   .saved = in[BN_BWD_IN_SAVED].data,
                   .dx = out[BN_BWD_OUT_DX].data,
                   .dgamma = out[BN_BWD_OUT_DGAMMA].data,
                   .dbeta = out[BN_BWD_OUT_DBETA].data };
    (void)stream; /* CPU ops run when called */
    choose(&g, mask_of(attr->act, g.base.y != NULL), out[BN_BWD_OUT_DRESIDUAL].data);
    BnSweep sweep = { .view = g.view,
                      .threads = cpu_team(op, g.view.n * g.view.cb * g.view.hw * g.view.b),
                      .ctx = &g,
                      .begin = begin_block,
                      .sum = sum_block,
                      .finish = finish_block,
                      .apply = apply_block };
    batchnorm_sweep(&sweep, op->workspace);
    return OK;
}

const OpImpl cpu_batchnorm_bwd = { .prepare = batchnorm_bwd_prepare,
                                   .bind = cpu_bind_nothing,
                                   .run = batchnorm_bwd_run };
