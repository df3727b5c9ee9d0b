/* muon.c - Muon's direction of one tensor: its momentum, as it lies; then on a plain copy [K, C R
 * S] five times three products, by loops of our own.
 *
 * Every rank makes the direction for itself, so it has to be the same bits on all. An element of a
 * product is added up in the order of its terms, DEPTH of them at a time, each product and each sum
 * rounded: the length of vectors, threads and fused multiply-adds do not change it. */
#include "kernels/ops/muon.h"
#include "base/mem.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/steps.h"
#include <math.h>

enum { DEPTH = 256, ROWS = 6, TEAM_FLOPS = 1 << 16 };
/* Half of what is computed at once: 16 registers hold the sums of all ROWS. */
typedef float Half __attribute__((vector_size(CPU_HALF_LANES * sizeof(float))));

typedef struct MuonState {
    CpuSteps steps; /* first */
    int64_t rows, columns;
    float eps;
    MuonStep numbers[MUON_STEPS];
} MuonState;

typedef struct Matrix { /* element (i, j) at i * row + j * column */
    const float *at;
    int64_t row, column;
} Matrix;

/* y = alpha a b + beta z, y and z row-major [m][n] and z NULL where beta is 0. symmetric: y is; its
 * upper half is copied from the lower. */
typedef struct Product {
    Matrix a, b;
    int64_t m, n, k;
    float alpha, beta;
    const float *z;
    float *y;
    bool symmetric;
} Product;

/* ---- products ---- */

static Matrix rows_of(const float *x, int64_t columns)
{
    return (Matrix){ x, columns, 1 };
}

static Matrix transposed(Matrix x)
{
    return (Matrix){ x.at, x.column, x.row };
}

/* depth rows of b from k on, of CPU_LANES columns from j on; zeros where there are none. */
CPU_INLINE void pack(const Product *p, int64_t k, int64_t j, int depth, float *to)
{
    const int lanes = p->n - j < CPU_LANES ? (int)(p->n - j) : CPU_LANES;
    const float *b = p->b.at + k * p->b.row + j * p->b.column;
    for (int i = 0; i < depth; i++)
        for (int l = 0; l < CPU_LANES; l++)
            to[i * CPU_LANES + l] = l < lanes ? b[i * p->b.row + l * p->b.column] : 0;
}

CPU_INLINE void store_row(const Product *p, int64_t i, int64_t j, bool first, const float *sum)
{
    const int lanes = p->n - j < CPU_LANES ? (int)(p->n - j) : CPU_LANES;
    float *y = p->y + i * p->n + j;
    const float *z = p->z ? p->z + i * p->n + j : NULL;
    for (int l = 0; l < lanes; l++) {
        const float before = !first ? y[l] : z ? p->beta * z[l] : 0;
        y[l] = before + p->alpha * sum[l];
    }
}

/* rows, a constant, of y from (i, j) on: what the terms from k on add. */
CPU_INLINE void multiply_rows(const Product *p, int64_t i, int64_t j, int64_t k, int depth,
                              const Half *packed, int rows)
{
    const float *a = p->a.at + i * p->a.row + k * p->a.column;
    Half low[ROWS], high[ROWS];
    for (int r = 0; r < rows; r++) low[r] = high[r] = (Half){ 0 };
    for (int t = 0; t < depth; t++, a += p->a.column, packed += 2) {
        const Half first = packed[0], second = packed[1];
        for (int r = 0; r < rows; r++) {
            low[r] += a[r * p->a.row] * first;
            high[r] += a[r * p->a.row] * second;
        }
    }
    for (int r = 0; r < rows; r++) {
        const Half sum[2] = { low[r], high[r] };
        store_row(p, i + r, j, k == 0, (const float *)sum);
    }
}

/* Columns of y from j on; of a symmetric one the rows from about there on. */
CPU_CLONES static void multiply_columns(const Product *p, int64_t j)
{
    Half packed[2 * DEPTH];
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        const int depth = p->k - k < DEPTH ? (int)(p->k - k) : DEPTH;
        int64_t i = p->symmetric ? j / ROWS * ROWS : 0;
        pack(p, k, j, depth, (float *)packed);
        for (; i + ROWS <= p->m; i += ROWS) multiply_rows(p, i, j, k, depth, packed, ROWS);
        for (; i < p->m; i++) multiply_rows(p, i, j, k, depth, packed, 1);
    }
}

static void multiply(const Product *p, int threads)
{
    if (p->m * p->n * p->k < TEAM_FLOPS) threads = 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t j = 0; j < p->n; j += CPU_LANES) multiply_columns(p, j);
    for (int64_t i = 0; p->symmetric && i < p->m; i++)
        for (int64_t j = i + 1; j < p->n; j++) p->y[i * p->n + j] = p->y[j * p->n + i];
}

/* ---- the iteration ---- */

/* Squares of f32 are exact in double. */
CPU_CLONES static double sum_of_squares(const float *x, int64_t count)
{
    double lanes[CPU_LANES] = { 0 }, sum = 0;
    for (int64_t i = 0; i + CPU_LANES <= count; i += CPU_LANES) {
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (int64_t i = count / CPU_LANES * CPU_LANES; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < CPU_LANES; l++) sum += lanes[l];
    return sum;
}

enum { ROLE_X, ROLE_Y, ROLE_GRAM, ROLE_FACTOR, ROLE_COUNT };

/* One step from x to y. What X of the rule is, or its transpose: of both the shorter side first. */
static void step(const MuonState *s, const MuonStep *of, const float *x, float *y, float *gram,
                 float *factor, int threads)
{
    const bool wide = s->rows <= s->columns;
    const int64_t side = wide ? s->rows : s->columns, length = s->rows + s->columns - side;
    const Matrix all = rows_of(x, s->columns), across = wide ? all : transposed(all),
                 squares = rows_of(gram, side), by = rows_of(factor, side);
    multiply(&(Product){ across, transposed(across), side, side, length, 1, 0, NULL, gram, true },
             threads);
    multiply(&(Product){ squares, squares, side, side, side, of->c, of->b, gram, factor, true },
             threads);
    multiply(&(Product){ wide ? by : all, wide ? all : by, s->rows, s->columns, side, 1, of->a, x,
                         y, false },
             threads);
}

static Status iterate(const void *cookie, void *const *address, int threads)
{
    const MuonState *s = cookie;
    const int64_t count = s->rows * s->columns;
    float *x = address[ROLE_X], *y = address[ROLE_Y];
    float norm = (float)sqrt(sum_of_squares(x, count));
    if (norm < s->eps) norm = s->eps;
    for (int64_t i = 0; i < count; i++) y[i] = x[i] / norm;
    for (int i = 0; i < MUON_STEPS; i++) { /* an odd number: it ends in x */
        step(s, &s->numbers[i], i % 2 ? x : y, i % 2 ? y : x, address[ROLE_GRAM],
             address[ROLE_FACTOR], threads);
    }
    return OK;
}

/* ---- the op ---- */

static Status place(CpuBackend *b, MuonState *s, int64_t rows, int64_t columns, CpuOperand *out)
{
    const Layout *plain;
    TRY(cpu_layout_plain(b, &plain, 2, (int64_t[]){ rows, columns }));
    *out = cpu_steps_operand_workspace(&s->steps, plain);
    return OK;
}

static Status prepare_muon(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    OpTensor *grad = &op->in[MUON_IN_GRAD];
    const MuonAttr *a = op->attr;
    CpuOperand have = cpu_steps_operand_in(MUON_IN_GRAD, NULL), at[ROLE_COUNT];
    const Layout *plain;
    MuonState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    op->implementation = "loops";
    s->rows = grad->desc.dims[0];
    s->columns = tensor_elements(&grad->desc) / s->rows;
    s->eps = a->eps;
    muon_steps(&grad->desc, s->numbers);
    cpu_decide_plain(grad);
    TRY(cpu_decide_like(&op->in[MUON_IN_MOMENTUM], grad, op));
    for (int i = MUON_IN_LOSS_SCALE; i <= MUON_IN_CLIP; i++)
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);

    const int64_t side = s->rows < s->columns ? s->rows : s->columns;
    TRY(cpu_layout_of_tensor(b, &have.layout, grad));
    plain = have.layout;
    if (grad->layout) TRY(cpu_layout_of_host(b, &plain, grad));
    at[ROLE_X] = have.layout == plain ? have : cpu_steps_operand_workspace(&s->steps, plain);
    TRY(place(b, s, s->rows, s->columns, &at[ROLE_Y]));
    TRY(place(b, s, side, side, &at[ROLE_GRAM]));
    TRY(place(b, s, side, side, &at[ROLE_FACTOR]));
    if (have.layout != plain) TRY(cpu_steps_add_reorder(b, &s->steps, have, at[ROLE_X]));
    cpu_steps_add_call(&s->steps, iterate, s, ROLE_COUNT, at);
    if (have.layout != plain) TRY(cpu_steps_add_reorder(b, &s->steps, at[ROLE_X], have));
    op->workspace_bytes = s->steps.workspace_bytes;
    return OK;
}

CPU_CLONES static void move_momentum(float *g, float *m, int64_t count, float by, float gain,
                                     bool nesterov)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float d = by * g[i], next = m[i] + gain * (d - m[i]);
        m[i] = next;
        g[i] = nesterov ? next + gain * (d - next) : next;
    }
}

static Status run_muon(OpInstance *op, Stream *stream)
{
    const MuonAttr *a = op->attr;
    const float *loss_scale = op->in[MUON_IN_LOSS_SCALE].data, *clip = op->in[MUON_IN_CLIP].data;
    const int64_t count = (int64_t)(op->in[MUON_IN_GRAD].bytes / sizeof(float));
    float *g = op->in[MUON_IN_GRAD].data, *m = op->in[MUON_IN_MOMENTUM].data;
    const int parts = cpu_team(op, count);
    if (loss_scale && loss_scale[LOSS_SCALE_FOUND_INF] != 0) {
        cpu_clear(op, &op->in[MUON_IN_GRAD]);
        return OK;
    }
    float by = loss_scale ? 1.0f / loss_scale[LOSS_SCALE_SCALE] : 1.0f;
    if (clip) by *= clip[CLIP_FACTOR];
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        move_momentum(g + first, m + first, last - first, by, (float)(1 - a->momentum),
                      a->nesterov);
    }
    return cpu_steps_run_op(op, stream);
}

const OpImpl cpu_muon = { prepare_muon, cpu_steps_bind_op, run_muon, cpu_steps_release_op };
