/* drop.c - y = x f + residual and dx = dy f, with f from kernels/drop.h: one factor an image, in
 * whatever layout that lies, or one for each element, which are drawn for some channels of some
 * positions at a time. Images, or positions, are shared out to the team. */
#include "kernels/cpu/draws.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct DropRun {
    const OpTensor *x, *residual, *y; /* residual: NULL where there is none; y is of x's type */
    const int32_t *where;             /* NULL: an image is a sequence */
    DropAddress address;
} DropRun;

CPU_CLONES static void multiply(float *y, const float *x, const float *none, int64_t count,
                                float factor)
{
    (void)none;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

CPU_CLONES static void multiply_add(float *y, const float *x, const float *residual, int64_t count,
                                    float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor + residual[i];
}

enum { DROP_ROWS = 8, DROP_CHANNELS = 256 };
typedef struct Factors {
    float of[DROP_ROWS][DROP_CHANNELS];
} Factors;

/* Of `rows` positions, `step` elements apart, `run` elements that lie side by side. */
CPU_INLINE void drop_lanes(void *y, const void *x, const void *residual, const float *f,
                           int64_t rows, int64_t step, int64_t run, DType type, DType residual_type)
{
    for (int64_t r = 0; r < rows; r++, f += DROP_CHANNELS)
        if (residual)
#pragma omp simd
            for (int64_t i = 0; i < run; i++)
                cpu_lanes_store(y, r * step + i,
                                cpu_lanes_load(x, r * step + i, type) * f[i] +
                                    cpu_lanes_load(residual, r * step + i, residual_type),
                                type);
        else
#pragma omp simd
            for (int64_t i = 0; i < run; i++)
                cpu_lanes_store(y, r * step + i, cpu_lanes_load(x, r * step + i, type) * f[i],
                                type);
}

CPU_CLONES static void drop_block(const DropRun *r, int64_t at, const float *f, int64_t rows,
                                  int64_t step, int64_t run)
{
    const DType type = cpu_layout_type(r->x),
                other = r->residual ? cpu_layout_type(r->residual) : type;
    const void *x = cpu_lanes_at(r->x->data, at, type),
               *residual = r->residual ? cpu_lanes_at(r->residual->data, at, other) : NULL;
    void *y = cpu_lanes_at_out(r->y->data, at, type);
    if (type == DTYPE_BF16) drop_lanes(y, x, residual, f, rows, step, run, DTYPE_BF16, other);
    else if (other == DTYPE_BF16) drop_lanes(y, x, residual, f, rows, step, run, DTYPE_F32, other);
    else if (run == CPU_HALF_LANES)
        drop_lanes(y, x, residual, f, rows, step, CPU_HALF_LANES, DTYPE_F32, DTYPE_F32);
    else drop_lanes(y, x, residual, f, rows, step, run, DTYPE_F32, DTYPE_F32);
}

/* Of channels [first, first + count) of image n's positions [p, p + rows); what fills the last
 * block up, padded, gets zeros. */
static void draw_factors(const DropRun *r, const CpuView *v, int64_t n, int64_t p, int64_t rows,
                         int64_t first, int64_t count, int64_t padded, Factors *out)
{
    for (int64_t i = 0; i < rows; i++) {
        const int32_t *where = r->where ? r->where + 2 * (p + i) : NULL;
        float *f = out->of[i];
        if (where && where[0] < 0) {
            memset(f, 0, (size_t)padded * sizeof *f);
            continue;
        }
        cpu_draws_factors(&r->address, where ? where[0] : n,
                          (where ? where[1] : p + i) * v->c + first, count, f);
        memset(f + count, 0, (size_t)(padded - count) * sizeof *f);
    }
}

/* Positions [p, p + rows) of image n, at most DROP_ROWS. */
static void drop_elements(const DropRun *r, const CpuView *v, int64_t n, int64_t p, int64_t rows)
{
    const bool packed = v->rows || v->hw == 1; /* a position's channels lie side by side */
    const int64_t channels = v->rows ? v->c : v->cb * v->b;
    for (int64_t c = 0, padded; c < channels; c += padded) {
        Factors f;
        padded = channels - c < DROP_CHANNELS ? channels - c : DROP_CHANNELS;
        const int64_t count = v->c - c < padded ? v->c - c : padded, run = packed ? padded : v->b;
        draw_factors(r, v, n, p, rows, c, count, padded, &f);
        for (int64_t i = 0; i < padded; i += run)
            drop_block(r, cpu_view_at(v, n, c + i, p), f.of[0] + i, rows, v->step, run);
    }
}

static void drop_image(const DropRun *r, int64_t n, int64_t each)
{
    float factors[4];
    drop_factors(&r->address, n, 0, factors);
    cpu_pointwise_range(r->residual ? multiply_add : multiply, r->y, r->x, r->residual, n * each,
                        (n + 1) * each, factors[0]);
}

static void run_drop(const OpInstance *op, DropRun *r, const float *scalars)
{
    const DropAttr *attr = op->attr;
    const CpuView v = cpu_view(r->x);
    const int64_t tiles = attr->per_image ? 1 : (v.hw + DROP_ROWS - 1) / DROP_ROWS;
    const int threads = cpu_team(op, v.n * v.image);
    r->address = drop_address(
        attr, drop_word((double)scalars[SCALAR_STEP_LOW], (double)scalars[SCALAR_STEP_HIGH]),
        drop_word((double)scalars[SCALAR_PLACE_LOW], (double)scalars[SCALAR_PLACE_HIGH]));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * tiles; i++) {
        const int64_t p = i % tiles * DROP_ROWS, left = v.hw - p;
        if (attr->per_image) drop_image(r, i, v.image);
        else drop_elements(r, &v, i / tiles, p, left < DROP_ROWS ? left : DROP_ROWS);
    }
}

static Status drop_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->in[DROP_IN_SCALARS]);
    if (op->in[DROP_IN_WHERE].desc.rank != 0) cpu_decide_plain(&op->in[DROP_IN_WHERE]);
    if (op->in[DROP_IN_RESIDUAL].desc.rank != 0)
        TRY(cpu_decide_beside(&op->in[DROP_IN_RESIDUAL], &op->in[DROP_IN_X], op));
    return cpu_decide_like(&op->out[DROP_OUT_Y], &op->in[DROP_IN_X], op);
}

static void drop_run(OpInstance *op)
{
    const OpTensor *residual = &op->in[DROP_IN_RESIDUAL];
    DropRun r = { .x = &op->in[DROP_IN_X],
                  .residual = residual->desc.rank != 0 ? residual : NULL,
                  .y = &op->out[DROP_OUT_Y],
                  .where = op->in[DROP_IN_WHERE].data };
    run_drop(op, &r, op->in[DROP_IN_SCALARS].data);
}

static Status drop_bwd_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->in[DROP_BWD_IN_SCALARS]);
    if (op->in[DROP_BWD_IN_WHERE].desc.rank != 0) cpu_decide_plain(&op->in[DROP_BWD_IN_WHERE]);
    return cpu_decide_like(&op->out[DROP_BWD_OUT_DX], &op->in[DROP_BWD_IN_DY], op);
}

static void drop_bwd_run(OpInstance *op)
{
    DropRun r = { .x = &op->in[DROP_BWD_IN_DY],
                  .y = &op->out[DROP_BWD_OUT_DX],
                  .where = op->in[DROP_BWD_IN_WHERE].data };
    run_drop(op, &r, op->in[DROP_BWD_IN_SCALARS].data);
}

CPU_LOOPS(cpu_drop, "elementwise", drop_prepare, drop_run);
CPU_LOOPS(cpu_drop_bwd, "elementwise", drop_bwd_prepare, drop_bwd_run);
