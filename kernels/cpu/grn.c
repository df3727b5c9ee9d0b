/* grn.c - global response normalisation and its gradient, in two passes over memory, a strip of an
 * image at a time: sums of each channel of an image, and the result, which is a factor of x and a
 * summand, or of backward factors of dy and x. Sums are float over a run of SUM_STEPS values per
 * lane and double beyond it; of the gradients of gamma and beta they go over images in order. */
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <math.h>
#include <string.h>

enum { SUM_STEPS = 128 };
/* Over the positions of a channel of an image: of x x; for backward of dy x and dy. */
enum { SQUARES, PRODUCTS, GRADIENTS, SUMS };
/* y = FIRST x + SECOND, dx = FIRST dy + SECOND x. */
enum { FIRST, SECOND, FACTORS };

typedef struct Grn {
    CpuView v;
    double eps;
    const float *gamma, *beta;
    const void *x, *dy; /* dy NULL: forward */
    void *y;            /* or dx */
    double *sums;       /* [n][SUMS][c] */
    float *factors;     /* [n][FACTORS][c] */
} Grn;

typedef float SumLanes[SUMS][CPU_STRIP];
typedef double TotalLanes[SUMS][CPU_STRIP];

/* ---- inner loops ---- */

CPU_INLINE void sum_step(const void *x, const void *dy, int64_t at, float (*sum)[CPU_STRIP],
                         bool backward, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        const float v = cpu_lanes_load(x, at + l, type);
        sum[SQUARES][l] += v * v;
        if (!backward) continue;
        const float d = cpu_lanes_load(dy, at + l, type);
        sum[PRODUCTS][l] += d * v;
        sum[GRADIENTS][l] += d;
    }
}

CPU_INLINE void add_sums(double (*total)[CPU_STRIP], float (*sum)[CPU_STRIP], int sums, int lanes)
{
    for (int k = 0; k < sums; k++)
        for (int l = 0; l < lanes; l++) {
            total[k][l] += (double)sum[k][l];
            sum[k][l] = 0;
        }
}

CPU_INLINE void sum_strip(const void *x, const void *dy, const CpuStrip *s,
                          double (*total)[CPU_STRIP], bool backward, DType type, int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : s->stride;
    const int sums = backward ? SUMS : 1;
    SumLanes sum;
    memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < s->steps; i++) {
        sum_step(x, dy, i * stride, sum, backward, type, lanes);
        if ((i + 1) % SUM_STEPS == 0) add_sums(total, sum, sums, lanes);
    }
    add_sums(total, sum, sums, lanes);
    sum_step(x, dy, s->steps * stride, sum, backward, type, (int)s->rest);
    add_sums(total, sum, sums, (int)s->rest);
}

CPU_CLONES static void sum_block(const void *x, const void *dy, const CpuStrip *s,
                                 double (*total)[CPU_STRIP])
{
    if (dy) sum_strip(x, dy, s, total, true, DTYPE_F32, CPU_LANES);
    else sum_strip(x, dy, s, total, false, DTYPE_F32, CPU_LANES);
}

CPU_CLONES static void sum_rows(const void *x, const void *dy, const CpuStrip *s,
                                double (*total)[CPU_STRIP])
{
    if (dy) sum_strip(x, dy, s, total, true, DTYPE_BF16, s->lanes);
    else sum_strip(x, dy, s, total, false, DTYPE_BF16, s->lanes);
}

CPU_INLINE void apply_step(void *y, const void *x, const void *dy, int64_t at,
                           const float (*factors)[CPU_STRIP], bool backward, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        const float v = cpu_lanes_load(x, at + l, type), first = factors[FIRST][l],
                    second = factors[SECOND][l];
        cpu_lanes_store(y, at + l,
                        backward ? cpu_lanes_load(dy, at + l, type) * first + v * second
                                 : v * first + second,
                        type);
    }
}

CPU_INLINE void apply_strip(void *y, const void *x, const void *dy, const CpuStrip *s,
                            const float (*factors)[CPU_STRIP], bool backward, DType type, int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : s->stride;
    for (int64_t i = 0; i < s->steps; i++)
        apply_step(y, x, dy, i * stride, factors, backward, type, lanes);
    apply_step(y, x, dy, s->steps * stride, factors, backward, type, (int)s->rest);
}

CPU_CLONES static void apply_block(void *y, const void *x, const void *dy, const CpuStrip *s,
                                   const float (*factors)[CPU_STRIP])
{
    if (dy) apply_strip(y, x, dy, s, factors, true, DTYPE_F32, CPU_LANES);
    else apply_strip(y, x, dy, s, factors, false, DTYPE_F32, CPU_LANES);
}

CPU_CLONES static void apply_rows(void *y, const void *x, const void *dy, const CpuStrip *s,
                                  const float (*factors)[CPU_STRIP])
{
    if (dy) apply_strip(y, x, dy, s, factors, true, DTYPE_BF16, s->lanes);
    else apply_strip(y, x, dy, s, factors, false, DTYPE_BF16, s->lanes);
}

/* ---- the three parts ---- */

static const void *dy_at(const Grn *g, int64_t at)
{
    return g->dy ? cpu_lanes_at(g->dy, at, g->v.type) : NULL;
}

static void sum_channels(const Grn *g, int64_t strips, int64_t i)
{
    const CpuStrip s = cpu_view_strip(&g->v, strips, i);
    TotalLanes total;
    memset(total, 0, sizeof total);
    (g->v.rows ? sum_rows : sum_block)(cpu_lanes_at(g->x, s.at, g->v.type), dy_at(g, s.at), &s,
                                       total);
    for (int k = 0; k < (g->dy ? SUMS : 1); k++)
        for (int64_t c = 0; c < s.channels; c++)
            g->sums[(s.n * SUMS + k) * g->v.c + s.first + c] = cpu_view_sum(&g->v, total[k], c);
}

/* Of image n; leaves in place of the products what they give to gamma's gradient. */
static void make_factors(const Grn *g, int64_t n)
{
    const int64_t channels = g->v.c;
    double *squares = g->sums + n * SUMS * channels, *products = squares + PRODUCTS * channels;
    float *first = g->factors + n * FACTORS * channels, *second = first + channels;
    double norms = 0, sum = 0;
    for (int64_t c = 0; c < channels; c++) {
        const double norm = sqrt(squares[c]);
        norms += norm;
        if (g->dy) sum += (double)g->gamma[c] * products[c] * norm;
    }
    const double inverse = 1 / (norms / (double)channels + g->eps),
                 mean = sum / (double)channels * inverse * inverse;
    for (int64_t c = 0; c < channels; c++) {
        const double norm = sqrt(squares[c]), response = norm * inverse,
                     gamma = (double)g->gamma[c];
        first[c] = (float)(1 + gamma * response);
        if (!g->dy) second[c] = g->beta[c];
        else second[c] = norm > 0 ? (float)((gamma * products[c] * inverse - mean) / norm) : 0;
        if (g->dy) products[c] *= response;
    }
}

static void apply(const Grn *g, int64_t strips, int64_t i)
{
    const CpuStrip s = cpu_view_strip(&g->v, strips, i);
    float lanes[FACTORS][CPU_STRIP];
    memset(lanes, 0, sizeof lanes);
    for (int k = 0; k < FACTORS; k++)
        for (int64_t c = 0; c < s.channels; c++)
            cpu_view_fill(&g->v, lanes[k], c,
                          g->factors[(s.n * FACTORS + k) * g->v.c + s.first + c]);
    (g->v.rows ? apply_rows : apply_block)(cpu_lanes_at_out(g->y, s.at, g->v.type),
                                           cpu_lanes_at(g->x, s.at, g->v.type), dy_at(g, s.at), &s,
                                           (const float(*)[CPU_STRIP])lanes);
}

static void run(OpInstance *op, Grn *g)
{
    const int threads = cpu_team(op, g->v.n * g->v.cb * g->v.hw * g->v.b);
    const int64_t strips = cpu_view_strips(&g->v, threads);
    g->sums = op->workspace;
    g->factors = (float *)(g->sums + g->v.n * SUMS * g->v.c);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < g->v.n * strips; i++) sum_channels(g, strips, i);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < g->v.n; n++) make_factors(g, n);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < g->v.n * strips; i++) apply(g, strips, i);
    }
}

static void add_over_images(const OpInstance *op, const Grn *g, int which, float *out)
{
    for (int64_t c = 0; c < g->v.c; c++) {
        double sum = op->accumulate ? (double)out[c] : 0;
        for (int64_t n = 0; n < g->v.n; n++) sum += g->sums[(n * SUMS + which) * g->v.c + c];
        out[c] = (float)sum;
    }
}

/* ---- the ops ---- */

static void take_workspace(OpInstance *op, const TensorDesc *x)
{
    op->workspace_bytes =
        (size_t)(x->dims[0] * x->dims[1]) * (SUMS * sizeof(double) + FACTORS * sizeof(float));
}

static Status grn_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_IN_X];
    TRY(cpu_require_decided(x, op));
    take_workspace(op, &x->desc);
    cpu_decide_plain(&op->in[LAYERNORM_IN_GAMMA]);
    cpu_decide_plain(&op->in[LAYERNORM_IN_BETA]);
    return cpu_decide_like(&op->out[LAYERNORM_OUT_Y], x, op);
}

static void grn_run(OpInstance *op)
{
    const LayerNormAttr *attr = op->attr;
    Grn g = { .v = cpu_view(&op->in[LAYERNORM_IN_X]),
              .eps = (double)attr->eps,
              .gamma = op->in[LAYERNORM_IN_GAMMA].data,
              .beta = op->in[LAYERNORM_IN_BETA].data,
              .x = op->in[LAYERNORM_IN_X].data,
              .y = op->out[LAYERNORM_OUT_Y].data };
    run(op, &g);
}

static Status grn_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_BWD_IN_X];
    TRY(cpu_require_decided(x, op));
    take_workspace(op, &x->desc);
    TRY(cpu_decide_like(&op->in[LAYERNORM_BWD_IN_DY], x, op));
    cpu_decide_plain(&op->in[LAYERNORM_BWD_IN_GAMMA]);
    cpu_decide_plain(&op->out[LAYERNORM_BWD_OUT_DGAMMA]);
    cpu_decide_plain(&op->out[LAYERNORM_BWD_OUT_DBETA]);
    return cpu_decide_like(&op->out[LAYERNORM_BWD_OUT_DX], x, op);
}

static void grn_bwd_run(OpInstance *op)
{
    const LayerNormAttr *attr = op->attr;
    Grn g = { .v = cpu_view(&op->in[LAYERNORM_BWD_IN_X]),
              .eps = (double)attr->eps,
              .gamma = op->in[LAYERNORM_BWD_IN_GAMMA].data,
              .x = op->in[LAYERNORM_BWD_IN_X].data,
              .dy = op->in[LAYERNORM_BWD_IN_DY].data,
              .y = op->out[LAYERNORM_BWD_OUT_DX].data };
    run(op, &g);
    add_over_images(op, &g, PRODUCTS, op->out[LAYERNORM_BWD_OUT_DGAMMA].data);
    add_over_images(op, &g, GRADIENTS, op->out[LAYERNORM_BWD_OUT_DBETA].data);
}

CPU_LOOPS(cpu_grn, "lanes", grn_prepare, grn_run);
CPU_LOOPS(cpu_grn_bwd, "lanes", grn_bwd_prepare, grn_bwd_run);
