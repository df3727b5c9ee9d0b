/* layernorm.c - each position's channels to mean 0 and variance 1, and the gradient.
 *
 * A tile is POSITIONS neighbouring positions of one image with all their channels, small enough to
 * stay in cache while it is gone through several times: for the mean, for the squares of what is
 * left without it, and for the result; backward finds both again and sums the two means that dx
 * takes away. Within a tile channel blocks are the outer loop, so that memory is read in runs, and
 * lane l of every sum is of channel l of its block. Sums of a tile are f32; gamma's and beta's
 * gradients go on in double, in PARTS parts whose number does not depend on the team. */
#include "kernels/cpu/batchnorm.h"
#include <math.h>
#include <string.h>

enum { POSITIONS = 16, PARTS = 64 };

typedef struct Norm {
    CpuView v;
    int64_t tiles; /* of an image */
    double eps;
    const float *gamma, *beta;
    const void *x, *dy;
    void *y;      /* or dx */
    double *sums; /* [parts][2][cb * b] */
} Norm;

typedef struct Tile {
    const void *x, *dy;
    void *y;
    int positions;
    float mean[POSITIONS], inv_std[POSITIONS];
    float mean_g[POSITIONS], mean_product[POSITIONS]; /* of g = dy gamma, and of g xhat */
} Tile;

typedef float Sums[POSITIONS][CPU_LANES];

/* Rows are one image, whatever the batch; so are matrices. */
static CpuView view_of(const OpTensor *x)
{
    CpuView v = cpu_view(x);
    if (!v.rows && x->desc.rank == 4) return v;
    v.rows = true;
    v.b = v.block_step = CPU_LANES;
    v.cb = (v.c + CPU_LANES - 1) / CPU_LANES;
    v.step = v.c;
    v.hw *= v.n;
    v.n = 1;
    return v;
}

/* ---- inner loops; lanes: of a whole block, a constant ---- */

typedef enum Pass { PASS_SUM, PASS_SQUARES, PASS_APPLY, PASS_BWD_SUMS, PASS_BWD_APPLY } Pass;

typedef struct Totals { /* of a pass over a tile */
    Sums first, second;
    double *gradients; /* of the tile's part: gamma's, beta's */
} Totals;

CPU_INLINE void run_block(const Norm *n, const Tile *t, Totals *s, int64_t block, Pass pass,
                          DType type, int lanes)
{
    const int64_t first = block * n->v.b, padded = n->v.cb * n->v.b;
    const float *gamma = n->gamma + first, *beta = n->beta + first;
    float dgamma[CPU_LANES] = { 0 }, dbeta[CPU_LANES] = { 0 };
    int64_t at = block * n->v.block_step;
    for (int p = 0; p < t->positions; p++, at += n->v.step) {
        const float mean = t->mean[p], inv_std = t->inv_std[p];
#pragma omp simd
        for (int l = 0; l < lanes; l++) {
            const float x = cpu_lanes_load(t->x, at + l, type), xhat = (x - mean) * inv_std;
            if (pass == PASS_SUM) s->first[p][l] += x;
            if (pass == PASS_SQUARES) s->first[p][l] += (x - mean) * (x - mean);
            if (pass == PASS_APPLY) cpu_lanes_store(t->y, at + l, gamma[l] * xhat + beta[l], type);
            if (pass == PASS_BWD_SUMS || pass == PASS_BWD_APPLY) {
                const float dy = cpu_lanes_load(t->dy, at + l, type), g = dy * gamma[l];
                if (pass == PASS_BWD_SUMS) {
                    dgamma[l] += dy * xhat;
                    dbeta[l] += dy;
                    s->first[p][l] += g;
                    s->second[p][l] += g * xhat;
                } else {
                    const float rest = g - t->mean_g[p] - xhat * t->mean_product[p];
                    cpu_lanes_store(t->y, at + l, inv_std * rest, type);
                }
            }
        }
        if ((pass == PASS_APPLY || pass == PASS_BWD_APPLY) && !n->v.rows)
            for (int64_t l = lanes; l < n->v.b; l++) cpu_lanes_store(t->y, at + l, 0, type);
    }
    for (int l = 0; pass == PASS_BWD_SUMS && l < lanes; l++) {
        s->gradients[first + l] += (double)dgamma[l];
        s->gradients[padded + first + l] += (double)dbeta[l];
    }
}

/* All blocks; the last one may have fewer channels. */
CPU_INLINE void run_pass(const Norm *n, const Tile *t, Totals *s, Pass pass, DType type, int lanes)
{
    const int64_t whole = n->v.c / lanes;
    if (pass != PASS_APPLY && pass != PASS_BWD_APPLY) {
        memset(s->first, 0, sizeof s->first);
        memset(s->second, 0, sizeof s->second);
    }
    for (int64_t block = 0; block < whole; block++) run_block(n, t, s, block, pass, type, lanes);
    if (whole < n->v.cb) run_block(n, t, s, whole, pass, type, (int)(n->v.c - whole * lanes));
}

static void average(const Norm *n, Sums sums, int positions, float *out)
{
    for (int p = 0; p < positions; p++) {
        double sum = 0;
        for (int l = 0; l < CPU_LANES; l++) sum += (double)sums[p][l];
        out[p] = (float)(sum / (double)n->v.c);
    }
}

CPU_INLINE void run_tile(const Norm *n, Tile *t, double *gradients, DType type, int lanes)
{
    Totals s = { .gradients = gradients };
    float var[POSITIONS];
    run_pass(n, t, &s, PASS_SUM, type, lanes);
    average(n, s.first, t->positions, t->mean);
    run_pass(n, t, &s, PASS_SQUARES, type, lanes);
    average(n, s.first, t->positions, var);
    for (int p = 0; p < t->positions; p++)
        t->inv_std[p] = (float)(1 / sqrt((double)var[p] + n->eps));
    if (!t->dy) {
        run_pass(n, t, &s, PASS_APPLY, type, lanes);
        return;
    }
    run_pass(n, t, &s, PASS_BWD_SUMS, type, lanes);
    average(n, s.first, t->positions, t->mean_g);
    average(n, s.second, t->positions, t->mean_product);
    run_pass(n, t, &s, PASS_BWD_APPLY, type, lanes);
}

CPU_CLONES static void run_any_tile(const Norm *n, Tile *t, double *gradients)
{
    if (n->v.type == DTYPE_BF16) run_tile(n, t, gradients, DTYPE_BF16, CPU_LANES);
    else if (n->v.b == CPU_LANES) run_tile(n, t, gradients, DTYPE_F32, CPU_LANES);
    else if (n->v.b == CPU_HALF_LANES) run_tile(n, t, gradients, DTYPE_F32, CPU_HALF_LANES);
    else run_tile(n, t, gradients, DTYPE_F32, 1);
}

/* Tiles [first, last) of all images'. */
static void run_tiles(const Norm *n, int64_t first, int64_t last, double *gradients)
{
    const DType type = n->v.type;
    for (int64_t i = first; i < last; i++) {
        const int64_t position = i % n->tiles * POSITIONS, left = n->v.hw - position,
                      at = i / n->tiles * n->v.image + position * n->v.step;
        Tile t = { .x = cpu_lanes_at(n->x, at, type),
                   .dy = n->dy ? cpu_lanes_at(n->dy, at, type) : NULL,
                   .y = cpu_lanes_at_out(n->y, at, type),
                   .positions = left < POSITIONS ? (int)left : POSITIONS };
        run_any_tile(n, &t, gradients);
    }
}

/* ---- the ops ---- */

static int64_t tiles_of(const CpuView *v)
{
    return (v->hw + POSITIONS - 1) / POSITIONS;
}

static int parts_of(const CpuView *v)
{
    const int64_t tiles = v->n * tiles_of(v);
    return tiles < PARTS ? (int)tiles : PARTS;
}

static Status layernorm_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_IN_X];
    TRY(cpu_require_decided(x, op));
    cpu_decide_plain(&op->in[LAYERNORM_IN_GAMMA]);
    cpu_decide_plain(&op->in[LAYERNORM_IN_BETA]);
    return cpu_decide_like(&op->out[LAYERNORM_OUT_Y], x, op);
}

static void layernorm_run(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_IN_X];
    const LayerNormAttr *attr = op->attr;
    Norm n = { .v = view_of(x),
               .eps = (double)attr->eps,
               .gamma = op->in[LAYERNORM_IN_GAMMA].data,
               .beta = op->in[LAYERNORM_IN_BETA].data,
               .x = x->data,
               .y = op->out[LAYERNORM_OUT_Y].data };
    const int parts = parts_of(&n.v), threads = cpu_team(op, n.v.n * n.v.cb * n.v.hw * n.v.b);
    n.tiles = tiles_of(&n.v);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(n.v.n * n.tiles, part, parts, &first, &last);
        run_tiles(&n, first, last, NULL);
    }
}

static Status layernorm_bwd_prepare(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_BWD_IN_X];
    TRY(cpu_require_decided(x, op));
    const CpuView v = view_of(x);
    op->workspace_bytes = 0;
    TRY(batchnorm_decide_operand(op, &op->in[LAYERNORM_BWD_IN_DY], x));
    op->workspace_bytes += (size_t)(parts_of(&v) * 2 * v.cb * v.b) * sizeof(double);
    cpu_decide_plain(&op->in[LAYERNORM_BWD_IN_GAMMA]);
    cpu_decide_plain(&op->out[LAYERNORM_BWD_OUT_DGAMMA]);
    cpu_decide_plain(&op->out[LAYERNORM_BWD_OUT_DBETA]);
    return cpu_decide_like(&op->out[LAYERNORM_BWD_OUT_DX], x, op);
}

static void add_parts(const OpInstance *op, const Norm *n, int parts)
{
    const int64_t padded = n->v.cb * n->v.b;
    for (int k = 0; k < 2; k++) {
        float *out = op->out[k ? LAYERNORM_BWD_OUT_DBETA : LAYERNORM_BWD_OUT_DGAMMA].data;
        for (int64_t c = 0; c < n->v.c; c++) {
            double sum = op->accumulate ? (double)out[c] : 0;
            for (int part = 0; part < parts; part++) sum += n->sums[(part * 2 + k) * padded + c];
            out[c] = (float)sum;
        }
    }
}

static void layernorm_bwd_run(OpInstance *op)
{
    const OpTensor *x = &op->in[LAYERNORM_BWD_IN_X];
    const LayerNormAttr *attr = op->attr;
    void *workspace = op->workspace;
    const void *dy = batchnorm_read_operand(&op->in[LAYERNORM_BWD_IN_DY], x, &workspace);
    Norm n = { .v = view_of(x),
               .eps = (double)attr->eps,
               .gamma = op->in[LAYERNORM_BWD_IN_GAMMA].data,
               .beta = op->in[LAYERNORM_BWD_IN_GAMMA].data, /* not read */
               .x = x->data,
               .dy = dy,
               .y = op->out[LAYERNORM_BWD_OUT_DX].data,
               .sums = workspace };
    const int64_t each = 2 * n.v.cb * n.v.b;
    const int parts = parts_of(&n.v), threads = cpu_team(op, n.v.n * n.v.cb * n.v.hw * n.v.b);
    n.tiles = tiles_of(&n.v);
    memset(n.sums, 0, (size_t)(parts * each) * sizeof *n.sums);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(n.v.n * n.tiles, part, parts, &first, &last);
        run_tiles(&n, first, last, n.sums + part * each);
    }
    add_parts(op, &n, parts);
}

CPU_LOOPS(cpu_layernorm, "layernorm", layernorm_prepare, layernorm_run);
CPU_LOOPS(cpu_layernorm_bwd, "layernorm", layernorm_bwd_prepare, layernorm_bwd_run);
