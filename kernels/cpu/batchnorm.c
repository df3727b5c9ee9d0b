/* batchnorm.c - y = act(bn(x) + residual): training statistics and normalisation in one sweep, or
 * one pass with running statistics.
 *
 * STATISTICS are sums of x - k and (x - k)^2 where k is the mean of the channel's first values, so
 * that a mean of a thousand deviations costs no digits; float over a run of SUM_STEPS values per
 * lane, double beyond it. saved holds the float mean and 1/sqrt(var + eps) that were applied:
 * backward starts from the same two numbers. */
#include "kernels/cpu/batchnorm.h"
#include "kernels/cpu/cpu_math.h"
#include <math.h>
#include <string.h>

enum { SUM_STEPS = 128, GUESS_POSITIONS = 16 };

typedef void NormaliseFn(float *y, const float *x, const float *residual, int64_t count,
                         const BnLanes *lanes);

typedef struct Forward { /* what the sweep's callbacks see */
    const BatchNormAttr *attr;
    CpuView view;
    const float *x, *residual, *gamma, *beta;
    float *y, *running_mean, *running_var, *saved; /* saved: NULL where nobody wants it */
    NormaliseFn *normalise;
} Forward;

/* ---- inner loops ---- */

CPU_INLINE void sum_step(const float *x, const float *guess, float *sum, float *square, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float d = x[l] - guess[l];
        sum[l] += d;
        square[l] += d * d;
    }
}

/* Sums of x - guess and its square over one plane. */
CPU_CLONES static void sum_plane(const float *restrict x, int64_t count,
                                 const float *restrict guess, BnSums *restrict out)
{
    int64_t i = 0;
    memset(out, 0, sizeof *out);
    while (i < count) {
        float sum[CPU_LANES] = { 0 }, square[CPU_LANES] = { 0 };
        int64_t end = count - i < SUM_STEPS * CPU_LANES ? count : i + SUM_STEPS * CPU_LANES;
        for (; i + CPU_LANES <= end; i += CPU_LANES) sum_step(x + i, guess, sum, square, CPU_LANES);
        if (i + CPU_HALF_LANES <= end) {
            sum_step(x + i, guess, sum, square, CPU_HALF_LANES);
            i += CPU_HALF_LANES;
        }
        for (; i < end; i++) sum_step(x + i, guess, sum, square, 1);
        for (int l = 0; l < CPU_LANES; l++) {
            out->first[l] += (double)sum[l];
            out->second[l] += (double)square[l];
        }
    }
}

CPU_INLINE void normalise_step(float *y, const float *x, const float *r, const BnLanes *c,
                               int lanes, bool add, ActKind act)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        float t = batchnorm_affine(x[l], c->mean[l], c->scale[l], c->shift[l]);
        if (add) t += r[l];
        if (act == ACT_SILU) t = cpu_silu(t);
        y[l] = act == ACT_RELU && t <= 0.0f ? 0.0f : t; /* this way round a NaN stays one */
    }
}

CPU_INLINE void normalise_run(float *y, const float *x, const float *r, int64_t count,
                              const BnLanes *c, bool add, ActKind act)
{
    int64_t i = 0;
    for (; i + CPU_LANES <= count; i += CPU_LANES)
        normalise_step(y + i, x + i, add ? r + i : NULL, c, CPU_LANES, add, act);
    if (i + CPU_HALF_LANES <= count) {
        normalise_step(y + i, x + i, add ? r + i : NULL, c, CPU_HALF_LANES, add, act);
        i += CPU_HALF_LANES;
    }
    for (; i < count; i++) normalise_step(y + i, x + i, add ? r + i : NULL, c, 1, add, act);
}

CPU_CLONES static void normalise(float *y, const float *x, const float *r, int64_t count,
                                 const BnLanes *restrict c)
{
    normalise_run(y, x, r, count, c, false, ACT_NONE);
}

CPU_CLONES static void normalise_relu(float *y, const float *x, const float *r, int64_t count,
                                      const BnLanes *restrict c)
{
    normalise_run(y, x, r, count, c, false, ACT_RELU);
}

CPU_CLONES static void normalise_silu(float *y, const float *x, const float *r, int64_t count,
                                      const BnLanes *restrict c)
{
    normalise_run(y, x, r, count, c, false, ACT_SILU);
}

CPU_CLONES static void normalise_add(float *y, const float *x, const float *r, int64_t count,
                                     const BnLanes *restrict c)
{
    normalise_run(y, x, r, count, c, true, ACT_NONE);
}

CPU_CLONES static void normalise_add_relu(float *y, const float *x, const float *r, int64_t count,
                                          const BnLanes *restrict c)
{
    normalise_run(y, x, r, count, c, true, ACT_RELU);
}

/* ---- per channel block ---- */

/* Applies mean and inv_std to channel c of a block, and saves them. */
static void set_channel(const Forward *f, int64_t block, int64_t c, float mean, float inv_std,
                        BnLanes *lanes)
{
    int64_t b = f->view.b, channel = block * b + c;
    cpu_lanes_fill(lanes->mean, c, b, mean);
    cpu_lanes_fill(lanes->scale, c, b, f->gamma[channel] * inv_std);
    cpu_lanes_fill(lanes->shift, c, b, f->beta[channel]);
    if (f->saved == NULL) return;
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
    const float *x = f->x + block * v->hw * v->b;
    int64_t positions = v->hw < GUESS_POSITIONS ? v->hw : GUESS_POSITIONS;
    /* Past the last channel all stays zero, and so y does: later kernels rely on zero padding. */
    memset(lanes, 0, sizeof *lanes);
    for (int64_t c = 0; c < cpu_view_channels(v, block); c++) {
        float sum = 0;
        for (int64_t p = 0; p < positions; p++) sum += x[p * v->b + c];
        cpu_lanes_fill(lanes->mean, c, v->b, sum / (float)positions);
    }
}

static void sum_block(const void *ctx, int64_t plane, const BnLanes *lanes, BnSums *partial)
{
    const Forward *f = ctx;
    int64_t count = f->view.hw * f->view.b;
    sum_plane(f->x + plane * count, count, lanes->mean, partial);
}

static void finish_block(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes)
{
    const Forward *f = ctx;
    double values = (double)f->view.n * (double)f->view.hw, m = (double)f->attr->momentum;
    for (int64_t c = 0; c < cpu_view_channels(&f->view, block); c++) {
        int64_t channel = block * f->view.b + c;
        double offset = cpu_lanes_sum(total->first, c, f->view.b) / values,
               mean = (double)lanes->mean[c] + offset;
        double var = cpu_lanes_sum(total->second, c, f->view.b) / values - offset * offset;
        if (var < 0) var = 0;
        f->running_mean[channel] = (float)((1 - m) * (double)f->running_mean[channel] + m * mean);
        f->running_var[channel] =
            (float)((1 - m) * (double)f->running_var[channel] + m * var * (values / (values - 1)));
        set_channel(f, block, c, (float)mean, inverse_std(f, var), lanes);
    }
}

static void apply_block(const void *ctx, int64_t plane, const BnLanes *lanes)
{
    const Forward *f = ctx;
    int64_t count = f->view.hw * f->view.b, at = plane * count;
    f->normalise(f->y + at, f->x + at, f->residual ? f->residual + at : NULL, count, lanes);
}

/* ---- the op ---- */

static void run_training(const Forward *f, int threads, void *workspace)
{
    BnSweep sweep = { .view = f->view,
                      .threads = threads,
                      .ctx = f,
                      .begin = begin_block,
                      .sum = sum_block,
                      .finish = finish_block,
                      .apply = apply_block };
    batchnorm_sweep(&sweep, workspace);
}

/* Running statistics are known beforehand: one pass, in the order of memory. */
static void run_frozen(const Forward *f, int threads, BnLanes *lanes)
{
    const CpuView *v = &f->view;
    for (int64_t block = 0; block < v->cb; block++) {
        memset(&lanes[block], 0, sizeof lanes[block]);
        for (int64_t c = 0; c < cpu_view_channels(v, block); c++) {
            int64_t channel = block * v->b + c;
            set_channel(f, block, c, f->running_mean[channel],
                        inverse_std(f, (double)f->running_var[channel]), &lanes[block]);
        }
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v->n * v->cb; plane++)
        apply_block(f, plane, &lanes[plane % v->cb]);
}

static Status batchnorm_prepare(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    TRY(cpu_require_decided(&op->in[BN_IN_X], op));
    for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++) cpu_decide_plain(&op->in[i]);
    if (op->in[BN_IN_RESIDUAL].desc.rank != 0)
        TRY(cpu_decide_like(&op->in[BN_IN_RESIDUAL], &op->in[BN_IN_X], op));
    TRY(cpu_decide_like(&op->out[BN_OUT_Y], &op->in[BN_IN_X], op));
    if (op->out[BN_OUT_SAVED].desc.rank != 0) cpu_decide_plain(&op->out[BN_OUT_SAVED]);
    CpuView v = cpu_view(&op->in[BN_IN_X]);
    if (attr->mode == BN_TRAIN && v.n * v.hw < 2)
        return fail(
            ERR_USAGE,
            "batch norm cannot train on one value per channel: use a larger batch or image");
    op->workspace_bytes = attr->mode == BN_TRAIN
                              ? batchnorm_sweep_workspace(&v, cpu_backend_of(op)->threads)
                              : (size_t)v.cb * sizeof(BnLanes);
    op->implementation = v.b == 1 ? "bn_plain" : "bn_blocked";
    return OK;
}

static Status batchnorm_run(OpInstance *op, Stream *stream)
{
    static NormaliseFn *const variants[2][ACT_COUNT] = {
        { [ACT_NONE] = normalise, [ACT_RELU] = normalise_relu, [ACT_SILU] = normalise_silu },
        /* silu takes no residual */
        { [ACT_NONE] = normalise_add, [ACT_RELU] = normalise_add_relu },
    };
    const BatchNormAttr *attr = op->attr;
    Forward f = { .attr = attr,
                  .view = cpu_view(&op->in[BN_IN_X]),
                  .x = op->in[BN_IN_X].data,
                  .residual = op->in[BN_IN_RESIDUAL].data,
                  .gamma = op->in[BN_IN_GAMMA].data,
                  .beta = op->in[BN_IN_BETA].data,
                  .y = op->out[BN_OUT_Y].data,
                  .running_mean = op->in[BN_IN_RUNNING_MEAN].data,
                  .running_var = op->in[BN_IN_RUNNING_VAR].data,
                  .saved = op->out[BN_OUT_SAVED].data };
    int threads = cpu_team(op, f.view.n * f.view.cb * f.view.hw * f.view.b);
    (void)stream; /* CPU ops run when called */
    f.normalise = variants[f.residual != NULL][attr->act];
    ASSERT(f.normalise); /* shape inference lets no other activation through */
    if (attr->mode == BN_TRAIN) run_training(&f, threads, op->workspace);
    else run_frozen(&f, threads, op->workspace);
    return OK;
}

const OpImpl cpu_batchnorm = { .prepare = batchnorm_prepare,
                               .bind = cpu_bind_nothing,
                               .run = batchnorm_run };
