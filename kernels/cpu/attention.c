/* attention.c - multi-head attention and its gradient, one head of one image at a time by one
 * thread.
 *
 * Queries, keys and values of a head are brought into matrices [L,d] of f32 in the thread's part of
 * the workspace, from whatever layout they lie in: d of them go into each of the products, so that
 * costs little. The softmax is made for a block of queries at a time, whose rows lie in the cache
 * until they are used; no other part of it exists. Backward makes it again from lse. Products are
 * oneDNN's, on f32 in bf16 too: the softmax is not rounded, nor is what comes back through it.
 *
 * Results do not depend on the number of threads: each head is one thread's, and inside a team
 * oneDNN's products are one thread's too. */
#include "kernels/ops/attention.h"
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include "kernels/drop.h"
#include <string.h>

/* A block has at most so many queries; queries, keys, values; matrices in a thread's workspace. */
enum { QUERIES = 128, PARTS = 3, MATRICES = 2 * PARTS + 1 };

typedef struct Call {
    AttentionSizes z;
    int64_t block; /* queries in one, but for the last */
    bool drops;
    DropAddress drop;
} Call;

/* One head's matrices [L,d], and what a block of queries needs; all in the workspace. */
typedef struct Scratch {
    float *part[PARTS], *y, *dpart[PARTS]; /* y: y, or dy */
    float *scores, *slopes;                /* [block,L] */
    float *factors;                        /* [L] */
} Scratch;

static int64_t block_of(const AttentionSizes *z)
{
    const int64_t blocks = (z->length + QUERIES - 1) / QUERIES;
    return (z->length + blocks - 1) / blocks;
}

static int64_t scratch_floats(const AttentionSizes *z)
{
    const int64_t each = MATRICES * z->length * z->width + (2 * block_of(z) + 1) * z->length;
    return (each + 15) / 16 * 16;
}

static Scratch scratch_at(const OpInstance *op, const AttentionSizes *z, int thread)
{
    float *at = (float *)op->workspace + thread * scratch_floats(z);
    const int64_t matrix = z->length * z->width;
    Scratch s = { .y = at + PARTS * matrix };
    for (int i = 0; i < PARTS; i++) {
        s.part[i] = at + i * matrix;
        s.dpart[i] = at + (PARTS + 1 + i) * matrix;
    }
    s.scores = at + MATRICES * matrix;
    s.slopes = s.scores + block_of(z) * z->length;
    s.factors = s.slopes + block_of(z) * z->length;
    return s;
}

/* ---- between tensors and matrices ---- */

CPU_INLINE void gather_run(float *restrict to, const void *from, int64_t rows, int64_t step,
                           int64_t width, int64_t run, DType type)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < run; i++)
            to[r * width + i] = cpu_lanes_load(from, r * step + i, type);
}

CPU_INLINE void scatter_run(void *to, const float *restrict from, int64_t rows, int64_t step,
                            int64_t width, int64_t run, DType type)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < run; i++)
            cpu_lanes_store(to, r * step + i, from[r * width + i], type);
}

/* Channels that lie side by side from one on: a block's, in rows all that are asked for. */
static int64_t run_of(const CpuView *v, int64_t channel, int64_t width)
{
    const int64_t left = v->b - channel % v->b;
    return v->rows || width < left ? width : left;
}

CPU_CLONES static void gather(float *to, const OpTensor *t, int64_t n, int64_t channel,
                              int64_t width)
{
    const CpuView v = cpu_view(t);
    for (int64_t i = 0, run; i < width; i += run) {
        const void *from = cpu_lanes_at(t->data, cpu_view_at(&v, n, channel + i, 0), v.type);
        run = run_of(&v, channel + i, width - i);
        if (v.type == DTYPE_BF16) gather_run(to + i, from, v.hw, v.step, width, run, DTYPE_BF16);
        else gather_run(to + i, from, v.hw, v.step, width, run, DTYPE_F32);
    }
}

/* The lanes past the last channel, on which later kernels rely. */
static void zero_padding(const OpTensor *t, const CpuView *v, int64_t n)
{
    const int64_t used = v->c % v->b;
    const size_t bytes = dtype_bytes(v->type);
    if (v->rows || used == 0) return;
    for (int64_t i = 0; i < v->hw; i++) {
        const int64_t at = n * v->image + (v->cb - 1) * v->block_step + i * v->step + used;
        memset((char *)t->data + (size_t)at * bytes, 0, (size_t)(v->b - used) * bytes);
    }
}

CPU_CLONES static void scatter(const OpTensor *t, const float *from, int64_t n, int64_t channel,
                               int64_t width)
{
    const CpuView v = cpu_view(t);
    for (int64_t i = 0, run; i < width; i += run) {
        void *to = cpu_lanes_at_out(t->data, cpu_view_at(&v, n, channel + i, 0), v.type);
        run = run_of(&v, channel + i, width - i);
        if (v.type == DTYPE_BF16) scatter_run(to, from + i, v.hw, v.step, width, run, DTYPE_BF16);
        else scatter_run(to, from + i, v.hw, v.step, width, run, DTYPE_F32);
    }
    if (channel + width == v.c) zero_padding(t, &v, n);
}

static void gather_parts(const Call *c, const Scratch *s, const OpTensor *qkv, int64_t n,
                         int64_t head)
{
    for (int i = 0; i < PARTS; i++)
        gather(s->part[i], qkv, n, attention_channel(&c->z, i, head), c->z.width);
}

/* ---- rows of the softmax ---- */

/* e^(score - most) in the place of each, and their sum, in an order of its own for all sets of
 * instructions. */
CPU_CLONES static double exponentials(float *row, int64_t count, float *most)
{
    float top[CPU_LANES], sum[CPU_LANES] = { 0 }, m = -INFINITY;
    double total = 0;
    int64_t j = 0;
    for (int l = 0; l < CPU_LANES; l++) top[l] = m;
    for (; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) top[l] = row[j + l] > top[l] ? row[j + l] : top[l];
    for (; j < count; j++) top[0] = row[j] > top[0] ? row[j] : top[0];
    for (int l = 0; l < CPU_LANES; l++) m = top[l] > m ? top[l] : m;
    for (j = 0; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) sum[l] += row[j + l] = cpu_exp(row[j + l] - m);
    for (int l = 0; j + l < count; l++) sum[l] += row[j + l] = cpu_exp(row[j + l] - m);
    for (int l = 0; l < CPU_LANES; l++) total += (double)sum[l];
    *most = m;
    return total;
}

CPU_CLONES static void multiply_row(float *restrict row, int64_t count, float factor)
{
    for (int64_t j = 0; j < count; j++) row[j] *= factor;
}

/* scores: p, which becomes drop(p); slopes: its gradient, which becomes that of the scores. */
CPU_INLINE void slope_of(float *score, float *slope, float kept, float lse, float inner)
{
    const float p = cpu_exp(*score - lse);
    *score = p * kept;
    *slope = p * (*slope * kept - inner);
}

/* f: what the drop keeps of each, or NULL; two loops, as a choice inside one is no vector code. */
CPU_CLONES static void slope_row(float *restrict scores, float *restrict slopes,
                                 const float *restrict f, int64_t count, float lse, float inner)
{
    if (f)
        for (int64_t j = 0; j < count; j++) slope_of(&scores[j], &slopes[j], f[j], lse, inner);
    else
        for (int64_t j = 0; j < count; j++) slope_of(&scores[j], &slopes[j], 1, lse, inner);
}

/* Four at a time of a row's factors go to f, or are multiplied into it. */
static void drop_row(const Call *c, int64_t n, int64_t head, int64_t query, float *f, bool multiply)
{
    const int64_t blocks = (c->z.length + 3) / 4, first = (head * c->z.length + query) * blocks;
    float factors[4];
    for (int64_t j = 0; j < c->z.length; j++) {
        if (j % 4 == 0) drop_factors(&c->drop, n, (uint32_t)(first + j / 4), factors);
        f[j] = multiply ? f[j] * factors[j % 4] : factors[j % 4];
    }
}

/* ---- a head ---- */

/* Both of rows that lie one after the other: c [m,n] = scale a b + beta c, where a is [m,k] or is
 * transposed, and so b. */
typedef struct Product {
    char transpose_a, transpose_b;
    int64_t m, n, k;
    float scale, beta;
} Product;

static Status multiply(const Product *p, const float *a, const float *b, float *c)
{
    TRY_DNNL(dnnl_sgemm(p->transpose_a, p->transpose_b, p->m, p->n, p->k, p->scale, a,
                        p->transpose_a == 'N' ? p->k : p->m, b, p->transpose_b == 'N' ? p->n : p->k,
                        p->beta, c, p->n));
    return OK;
}

/* rows of a times the transpose of b: [rows,L] of two [.,d] */
static Status multiply_widths(const Call *c, int64_t rows, float scale, const float *a,
                              const float *b, float *out)
{
    const Product p = { 'N', 'T', rows, c->z.length, c->z.width, scale, 0 };
    return multiply(&p, a, b, out);
}

/* [rows,d] = scale a [rows,L] b [L,d] */
static Status multiply_rows(const Call *c, int64_t rows, float scale, const float *a,
                            const float *b, float *out)
{
    const Product p = { 'N', 'N', rows, c->z.width, c->z.length, scale, 0 };
    return multiply(&p, a, b, out);
}

/* out [L,d] = scale a^T [L,rows] b [rows,d], added to what earlier blocks left */
static Status multiply_add(const Call *c, int64_t rows, bool first, float scale, const float *a,
                           const float *b, float *out)
{
    const Product p = { 'T', 'N', c->z.length, c->z.width, rows, scale, first ? 0.0f : 1.0f };
    return multiply(&p, a, b, out);
}

static Status forward_head(const OpInstance *op, const Call *c, const Scratch *s, int64_t n,
                           int64_t head)
{
    const AttentionSizes *z = &c->z;
    float *lse = op->out[ATTENTION_OUT_LSE].data;
    gather_parts(c, s, &op->in[ATTENTION_IN_QKV], n, head);
    if (lse) lse += (n * z->heads + head) * z->length;
    for (int64_t first = 0, rows; first < z->length; first += rows) {
        rows = z->length - first < c->block ? z->length - first : c->block;
        const int64_t at = first * z->width;
        TRY(multiply_widths(c, rows, z->scale, s->part[0] + at, s->part[1], s->scores));
        for (int64_t i = 0; i < rows; i++) {
            float *row = s->scores + i * z->length, most;
            const double sum = exponentials(row, z->length, &most);
            if (lse) lse[first + i] = (float)((double)most + log(sum));
            multiply_row(row, z->length, (float)(1 / sum));
            if (c->drops) drop_row(c, n, head, first + i, row, true);
        }
        TRY(multiply_rows(c, rows, 1, s->scores, s->part[2], s->y + at));
    }
    scatter(&op->out[ATTENTION_OUT_Y], s->y, n, head * z->width, z->width);
    return OK;
}

static double inner_product(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* dq holds y until its own values, which come last. */
static Status backward_block(const OpInstance *op, const Call *c, const Scratch *s, int64_t n,
                             int64_t head, int64_t first, int64_t rows)
{
    const AttentionSizes *z = &c->z;
    const int64_t at = first * z->width;
    const float *lse =
        (const float *)op->in[ATTENTION_BWD_IN_LSE].data + (n * z->heads + head) * z->length;
    float *dy = s->y + at, *dq = s->dpart[0] + at, *factors = c->drops ? s->factors : NULL;
    TRY(multiply_widths(c, rows, z->scale, s->part[0] + at, s->part[1], s->scores));
    TRY(multiply_widths(c, rows, 1, dy, s->part[2], s->slopes));
    for (int64_t i = 0; i < rows; i++) {
        const float inner = (float)inner_product(dy + i * z->width, dq + i * z->width, z->width);
        if (factors) drop_row(c, n, head, first + i, factors, false);
        slope_row(s->scores + i * z->length, s->slopes + i * z->length, factors, z->length,
                  lse[first + i], inner);
    }
    TRY(multiply_add(c, rows, first == 0, 1, s->scores, dy, s->dpart[2]));
    TRY(multiply_add(c, rows, first == 0, z->scale, s->slopes, s->part[0] + at, s->dpart[1]));
    return multiply_rows(c, rows, z->scale, s->slopes, s->part[1], dq);
}

static Status backward_head(const OpInstance *op, const Call *c, const Scratch *s, int64_t n,
                            int64_t head)
{
    const AttentionSizes *z = &c->z;
    gather_parts(c, s, &op->in[ATTENTION_BWD_IN_QKV], n, head);
    gather(s->y, &op->in[ATTENTION_BWD_IN_DY], n, head * z->width, z->width);
    gather(s->dpart[0], &op->in[ATTENTION_BWD_IN_Y], n, head * z->width, z->width);
    for (int64_t first = 0, rows; first < z->length; first += rows) {
        rows = z->length - first < c->block ? z->length - first : c->block;
        TRY(backward_block(op, c, s, n, head, first, rows));
    }
    for (int i = 0; i < PARTS; i++)
        scatter(&op->out[ATTENTION_BWD_OUT_DQKV], s->dpart[i], n, attention_channel(z, i, head),
                z->width);
    return OK;
}

/* ---- the two ops ---- */

typedef Status RunHead(const OpInstance *op, const Call *c, const Scratch *s, int64_t n,
                       int64_t head);

static Status run_heads(const OpInstance *op, int qkv, int scalars, RunHead *run)
{
    const AttentionAttr *a = op->attr;
    Call c = { .z = attention_sizes(a, &op->in[qkv].desc), .drops = a->drop.rate > 0 };
    const float *v = op->in[scalars].data;
    const int threads = cpu_backend_of(op)->threads;
    Status status = OK;
    c.block = block_of(&c.z);
    if (c.drops)
        c.drop = drop_address(&a->drop,
                              drop_word((double)v[SCALAR_STEP_LOW], (double)v[SCALAR_STEP_HIGH]),
                              drop_word((double)v[SCALAR_PLACE_LOW], (double)v[SCALAR_PLACE_HIGH]));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        const Scratch s = scratch_at(op, &c.z, t);
        int64_t first, last;
        cpu_share(c.z.n * c.z.heads, t, threads, &first, &last);
        for (int64_t i = first; i < last; i++) {
            const Status done = run(op, &c, &s, i / c.z.heads, i % c.z.heads);
            if (done == OK) continue;
#pragma omp atomic write
            status = done;
        }
    }
    return status;
}

static void take_workspace(OpInstance *op, int qkv)
{
    const AttentionSizes z = attention_sizes(op->attr, &op->in[qkv].desc);
    op->implementation = "sgemm of heads";
    op->workspace_bytes =
        (size_t)(cpu_backend_of(op)->threads * scratch_floats(&z)) * sizeof(float);
}

static Status prepare(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    cpu_view_decide(b, &op->in[ATTENTION_IN_QKV]);
    cpu_view_decide(b, &op->out[ATTENTION_OUT_Y]);
    if (op->out[ATTENTION_OUT_LSE].desc.rank) cpu_decide_plain(&op->out[ATTENTION_OUT_LSE]);
    if (op->in[ATTENTION_IN_SCALARS].desc.rank) cpu_decide_plain(&op->in[ATTENTION_IN_SCALARS]);
    take_workspace(op, ATTENTION_IN_QKV);
    return OK;
}

static Status prepare_bwd(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    for (int i = ATTENTION_BWD_IN_DY; i <= ATTENTION_BWD_IN_Y; i++) cpu_view_decide(b, &op->in[i]);
    for (int i = ATTENTION_BWD_IN_LSE; i <= ATTENTION_BWD_IN_SCALARS; i++)
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);
    cpu_view_decide(b, &op->out[ATTENTION_BWD_OUT_DQKV]);
    take_workspace(op, ATTENTION_BWD_IN_QKV);
    return OK;
}

static Status run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    return run_heads(op, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS, forward_head);
}

static Status run_bwd(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    return run_heads(op, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS, backward_head);
}

const OpImpl cpu_attention = { .prepare = prepare, .bind = cpu_bind_nothing, .run = run };
const OpImpl cpu_attention_bwd = { .prepare = prepare_bwd,
                                   .bind = cpu_bind_nothing,
                                   .run = run_bwd };
