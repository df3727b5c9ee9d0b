/* attention.c - multi-head attention and its gradient, one head of one image at a time by one
 * thread.
 *
 * IN F32, and in bf16 where that is no faster: queries, keys and values of a head are brought into
 * matrices [L,d] of f32 in the thread's part of the workspace, from whatever layout they lie in: d
 * of them go into each of the products, so that costs little. The softmax is made for a block of
 * queries at a time, whose rows lie in the cache until they are used; no other part of it exists.
 * Backward makes it again from lse. Products are oneDNN's sgemm.
 *
 * IN BF16 (attention_bf16.c) such matrices are of bf16, and products of bf16 (head_product.h).
 * Scores and their gradients are f32, of all queries at once; the softmax, and what comes back
 * through it, are rounded to be factors of the next product, as cuDNN has them.
 *
 * Results do not depend on the number of threads: each head is one thread's, and inside a team
 * oneDNN's products are one thread's too. */
#include "kernels/cpu/attention.h"
#include "base/mem.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { QUERIES = 128 }; /* in a block, at most */

static int64_t block_of(const AttentionSizes *z)
{
    const int64_t blocks = (z->length + QUERIES - 1) / QUERIES;
    return (z->length + blocks - 1) / blocks;
}

/* The next `bytes` of a thread's part of the workspace, which begins at base; without base they are
 * counted alone. */
static void *take(char *base, size_t *at, size_t bytes)
{
    char *here = base ? base + *at : NULL;
    *at += (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    return here;
}

static AttentionScratch lay_out(const AttentionState *state, const AttentionSizes *z, char *base,
                                size_t *at)
{
    const size_t matrix = (size_t)(z->length * z->width) * sizeof(float),
                 square = (size_t)(z->length * z->length), row = (size_t)z->length * sizeof(float),
                 block = row * (size_t)(state->narrow ? z->length : block_of(z));
    AttentionScratch s = { .thread = 0 };
    s.scores = take(base, at, block);
    if (state->backward) s.slopes = take(base, at, block);
    s.factors = take(base, at, row);
    if (state->narrow) {
        for (int i = 0; i < ATTENTION_PARTS; i++) s.narrow.part[i] = take(base, at, matrix / 2);
        s.narrow.dy = take(base, at, matrix / 2);
        s.narrow.out = take(base, at, matrix / 2);
        s.narrow.weights = take(base, at, square * sizeof *s.narrow.weights);
        if (state->backward) s.narrow.slopes = take(base, at, square * sizeof *s.narrow.slopes);
        s.narrow.product = take(base, at, state->scratch_bytes);
        return s;
    }
    s.y = take(base, at, matrix);
    for (int i = 0; i < ATTENTION_PARTS; i++) {
        s.part[i] = take(base, at, matrix);
        s.dpart[i] = take(base, at, matrix);
    }
    return s;
}

static size_t scratch_bytes(const AttentionState *state, const AttentionSizes *z)
{
    size_t bytes = 0;
    lay_out(state, z, NULL, &bytes);
    return bytes;
}

static AttentionScratch scratch_at(const OpInstance *op, const AttentionSizes *z, int thread)
{
    size_t at = 0;
    char *base = (char *)op->workspace + (size_t)thread * scratch_bytes(op->state, z);
    AttentionScratch s = lay_out(op->state, z, base, &at);
    s.thread = thread;
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

static void gather_parts(const AttentionCall *c, const AttentionScratch *s, const OpTensor *qkv,
                         int64_t n, int64_t head)
{
    for (int i = 0; i < ATTENTION_PARTS; i++)
        gather(s->part[i], qkv, n, attention_channel(&c->z, i, head), c->z.width);
}

/* ---- a head in f32 ---- */

/* Both of rows that lie one after the other: c [m,n] = a b + beta c, where a is [m,k] or is
 * transposed, and so b. */
typedef struct Product {
    char transpose_a, transpose_b;
    int64_t m, n, k;
    float beta;
} Product;

static Status multiply(const Product *p, const float *a, const float *b, float *c)
{
    TRY_DNNL(dnnl_sgemm(p->transpose_a, p->transpose_b, p->m, p->n, p->k, 1, a,
                        p->transpose_a == 'N' ? p->k : p->m, b, p->transpose_b == 'N' ? p->n : p->k,
                        p->beta, c, p->n));
    return OK;
}

/* rows of a times the transpose of b: [rows,L] of two [.,d] */
static Status multiply_widths(const AttentionCall *c, int64_t rows, const float *a, const float *b,
                              float *out)
{
    const Product p = { 'N', 'T', rows, c->z.length, c->z.width, 0 };
    return multiply(&p, a, b, out);
}

/* [rows,d] = a [rows,L] b [L,d] */
static Status multiply_rows(const AttentionCall *c, int64_t rows, const float *a, const float *b,
                            float *out)
{
    const Product p = { 'N', 'N', rows, c->z.width, c->z.length, 0 };
    return multiply(&p, a, b, out);
}

/* out [L,d] = a^T [L,rows] b [rows,d], added to what earlier blocks left */
static Status multiply_add(const AttentionCall *c, int64_t rows, bool first, const float *a,
                           const float *b, float *out)
{
    const Product p = { 'T', 'N', c->z.length, c->z.width, rows, first ? 0.0f : 1.0f };
    return multiply(&p, a, b, out);
}

static Status forward_head(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s,
                           int64_t n, int64_t head)
{
    const AttentionSizes *z = &c->z;
    float *lse = cpu_attention_lse(c, &op->out[ATTENTION_OUT_LSE], n, head);
    gather_parts(c, s, &op->in[ATTENTION_IN_QKV], n, head);
    for (int64_t first = 0, rows; first < z->length; first += rows) {
        rows = z->length - first < c->block ? z->length - first : c->block;
        const int64_t at = first * z->width;
        TRY(multiply_widths(c, rows, s->part[0] + at, s->part[1], s->scores));
        for (int64_t i = 0; i < rows; i++)
            cpu_attention_soften(c, n, head, first + i, s->scores + i * z->length, lse);
        TRY(multiply_rows(c, rows, s->scores, s->part[2], s->y + at));
    }
    scatter(&op->out[ATTENTION_OUT_Y], s->y, n, head * z->width, z->width);
    return OK;
}

/* dq holds y until its own values, which come last. */
static Status backward_block(const OpInstance *op, const AttentionCall *c,
                             const AttentionScratch *s, int64_t n, int64_t head, int64_t first,
                             int64_t rows)
{
    const AttentionSizes *z = &c->z;
    const int64_t at = first * z->width;
    const float *lse = cpu_attention_lse(c, &op->in[ATTENTION_BWD_IN_LSE], n, head);
    float *dy = s->y + at, *dq = s->dpart[0] + at;
    TRY(multiply_widths(c, rows, s->part[0] + at, s->part[1], s->scores));
    TRY(multiply_widths(c, rows, dy, s->part[2], s->slopes));
    for (int64_t i = 0; i < rows; i++)
        cpu_attention_soften_bwd(c, s, n, head, first + i, i, lse[first + i], dy + i * z->width,
                                 dq + i * z->width, DTYPE_F32);
    TRY(multiply_add(c, rows, first == 0, s->scores, dy, s->dpart[2]));
    TRY(multiply_add(c, rows, first == 0, s->slopes, s->part[0] + at, s->dpart[1]));
    return multiply_rows(c, rows, s->slopes, s->part[1], dq);
}

static Status backward_head(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s,
                            int64_t n, int64_t head)
{
    const AttentionSizes *z = &c->z;
    gather_parts(c, s, &op->in[ATTENTION_BWD_IN_QKV], n, head);
    gather(s->y, &op->in[ATTENTION_BWD_IN_DY], n, head * z->width, z->width);
    gather(s->dpart[0], &op->in[ATTENTION_BWD_IN_Y], n, head * z->width, z->width);
    for (int64_t first = 0, rows; first < z->length; first += rows) {
        rows = z->length - first < c->block ? z->length - first : c->block;
        TRY(backward_block(op, c, s, n, head, first, rows));
    }
    for (int i = 0; i < ATTENTION_PARTS; i++)
        scatter(&op->out[ATTENTION_BWD_OUT_DQKV], s->dpart[i], n, attention_channel(z, i, head),
                z->width);
    return OK;
}

/* ---- the two ops ---- */

typedef Status RunHead(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s,
                       int64_t n, int64_t head);

static Status run_heads(const OpInstance *op, Stream *stream, int qkv, int scalars, RunHead *run)
{
    const AttentionAttr *a = op->attr;
    AttentionCall c = { .z = attention_sizes(a, &op->in[qkv].desc),
                        .drops = a->drop.rate > 0,
                        .stream = stream };
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
        const AttentionScratch s = scratch_at(op, &c.z, t);
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

static Status take_workspace(OpInstance *op, int qkv, bool backward)
{
    const AttentionSizes z = attention_sizes(op->attr, &op->in[qkv].desc);
    AttentionState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->backward = backward;
    TRY(cpu_attention_make_products(op, &z));
    op->implementation = s->narrow ? "products of heads in bf16" : "sgemm of heads";
    op->workspace_bytes = (size_t)cpu_backend_of(op)->threads * scratch_bytes(s, &z);
    return OK;
}

static Status prepare_attention(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    cpu_view_decide(b, &op->in[ATTENTION_IN_QKV]);
    cpu_view_decide(b, &op->out[ATTENTION_OUT_Y]);
    if (op->out[ATTENTION_OUT_LSE].desc.rank) cpu_decide_plain(&op->out[ATTENTION_OUT_LSE]);
    if (op->in[ATTENTION_IN_SCALARS].desc.rank) cpu_decide_plain(&op->in[ATTENTION_IN_SCALARS]);
    return take_workspace(op, ATTENTION_IN_QKV, false);
}

static Status prepare_bwd(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    for (int i = ATTENTION_BWD_IN_DY; i <= ATTENTION_BWD_IN_Y; i++) cpu_view_decide(b, &op->in[i]);
    for (int i = ATTENTION_BWD_IN_LSE; i <= ATTENTION_BWD_IN_SCALARS; i++)
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);
    cpu_view_decide(b, &op->out[ATTENTION_BWD_OUT_DQKV]);
    return take_workspace(op, ATTENTION_BWD_IN_QKV, true);
}

static Status run_attention(OpInstance *op, Stream *stream)
{
    const AttentionState *s = op->state;
    return run_heads(op, stream, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS,
                     s->narrow ? cpu_attention_forward_bf16 : forward_head);
}

static Status run_attention_bwd(OpInstance *op, Stream *stream)
{
    const AttentionState *s = op->state;
    return run_heads(op, stream, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS,
                     s->narrow ? cpu_attention_backward_bf16 : backward_head);
}

static void release_attention(OpInstance *op)
{
    AttentionState *s = op->state;
    for (int i = 0; s && i < PRODUCT_COUNT; i++) cpu_head_product_free(&s->products[i]);
}

const OpImpl cpu_attention = { prepare_attention, cpu_bind_nothing, run_attention,
                               release_attention };
const OpImpl cpu_attention_bwd = { prepare_bwd, cpu_bind_nothing, run_attention_bwd,
                                   release_attention };
