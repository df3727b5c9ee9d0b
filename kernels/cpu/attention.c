/* attention.c - multi-head attention and its gradient, one head of one sequence at a time by one
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
 * oneDNN's products are one thread's too. Threads take heads as they get to them, since sequences
 * may differ in length. */
#include "kernels/cpu/attention.h"
#include "base/mem.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { QUERIES = 128 }; /* in a block, at most */

static int64_t block_of(int64_t length)
{
    const int64_t blocks = (length + QUERIES - 1) / QUERIES;
    return (length + blocks - 1) / blocks;
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
                 block = row * (size_t)(state->narrow ? z->length : block_of(z->length));
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

/* Channels of the call's sequence, from one on. */
CPU_CLONES static void gather(float *to, const OpTensor *t, const AttentionCall *c, int64_t channel)
{
    const CpuView v = cpu_view(t);
    const int64_t rows = c->at.length, width = c->z.width;
    for (int64_t i = 0, run; i < width; i += run) {
        const int64_t at = cpu_view_at(&v, c->at.image, channel + i, c->at.first);
        const void *from = cpu_lanes_at(t->data, at, v.type);
        run = run_of(&v, channel + i, width - i);
        if (v.type == DTYPE_BF16) gather_run(to + i, from, rows, v.step, width, run, DTYPE_BF16);
        else gather_run(to + i, from, rows, v.step, width, run, DTYPE_F32);
    }
}

/* The lanes past the last channel, on which later kernels rely. */
static void zero_padding(const OpTensor *t, const CpuView *v, const AttentionPlace *place)
{
    const int64_t used = v->c % v->b;
    const size_t bytes = dtype_bytes(v->type);
    if (v->rows || used == 0) return;
    for (int64_t i = 0; i < place->length; i++) {
        const int64_t at = cpu_view_at(v, place->image, v->c, place->first + i);
        memset((char *)t->data + (size_t)at * bytes, 0, (size_t)(v->b - used) * bytes);
    }
}

CPU_CLONES static void scatter(const OpTensor *t, const float *from, const AttentionCall *c,
                               int64_t channel)
{
    const CpuView v = cpu_view(t);
    const int64_t rows = c->at.length, width = c->z.width;
    for (int64_t i = 0, run; i < width; i += run) {
        const int64_t at = cpu_view_at(&v, c->at.image, channel + i, c->at.first);
        void *to = cpu_lanes_at_out(t->data, at, v.type);
        run = run_of(&v, channel + i, width - i);
        if (v.type == DTYPE_BF16) scatter_run(to, from + i, rows, v.step, width, run, DTYPE_BF16);
        else scatter_run(to, from + i, rows, v.step, width, run, DTYPE_F32);
    }
    if (channel + width == v.c) zero_padding(t, &v, &c->at);
}

static void gather_parts(const AttentionCall *c, const AttentionScratch *s, const OpTensor *qkv)
{
    for (int i = 0; i < ATTENTION_PARTS; i++)
        gather(s->part[i], qkv, c, attention_channel(&c->z, i, c->head));
}

/* What lies behind the last sequence. */
static void zero_rest(const OpTensor *t, int64_t first)
{
    const CpuView v = cpu_view(t);
    const size_t bytes = dtype_bytes(v.type);
    const int64_t blocks = v.rows ? 1 : v.cb, each = (v.hw - first) * v.step;
    for (int64_t i = 0; i < blocks; i++)
        memset((char *)t->data + (size_t)(i * v.block_step + first * v.step) * bytes, 0,
               (size_t)each * bytes);
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
    const Product p = { 'N', 'T', rows, c->at.length, c->z.width, 0 };
    return multiply(&p, a, b, out);
}

/* [rows,d] = a [rows,L] b [L,d] */
static Status multiply_rows(const AttentionCall *c, int64_t rows, const float *a, const float *b,
                            float *out)
{
    const Product p = { 'N', 'N', rows, c->z.width, c->at.length, 0 };
    return multiply(&p, a, b, out);
}

/* out [L,d] = a^T [L,rows] b [rows,d], added to what earlier blocks left */
static Status multiply_add(const AttentionCall *c, int64_t rows, bool first, const float *a,
                           const float *b, float *out)
{
    const Product p = { 'T', 'N', c->at.length, c->z.width, rows, first ? 0.0f : 1.0f };
    return multiply(&p, a, b, out);
}

static int64_t rows_from(const AttentionCall *c, int64_t first)
{
    const int64_t left = c->at.length - first;
    return left < c->block ? left : c->block;
}

static Status forward_head(const OpInstance *op, AttentionCall *c, const AttentionScratch *s)
{
    const OpTensor *lse = &op->out[ATTENTION_OUT_LSE];
    gather_parts(c, s, &op->in[ATTENTION_IN_QKV]);
    for (int64_t first = 0, rows; first < c->at.length; first += rows) {
        rows = rows_from(c, first);
        const int64_t at = first * c->z.width;
        TRY(multiply_widths(c, rows, s->part[0] + at, s->part[1], s->scores));
        for (int64_t i = 0; i < rows; i++)
            cpu_attention_soften(c, s, first + i, i, cpu_attention_lse(c, lse, first + i));
        TRY(multiply_rows(c, rows, s->scores, s->part[2], s->y + at));
    }
    scatter(&op->out[ATTENTION_OUT_Y], s->y, c, c->head * c->z.width);
    return OK;
}

/* dq holds y until its own values, which come last. */
static Status backward_block(const OpInstance *op, const AttentionCall *c,
                             const AttentionScratch *s, int64_t first, int64_t rows)
{
    const int64_t width = c->z.width, at = first * width;
    const OpTensor *lse = &op->in[ATTENTION_BWD_IN_LSE];
    float *dy = s->y + at, *dq = s->dpart[0] + at;
    TRY(multiply_widths(c, rows, s->part[0] + at, s->part[1], s->scores));
    TRY(multiply_widths(c, rows, dy, s->part[2], s->slopes));
    for (int64_t i = 0; i < rows; i++)
        cpu_attention_soften_bwd(c, s, first + i, i, *cpu_attention_lse(c, lse, first + i),
                                 dy + i * width, dq + i * width, DTYPE_F32);
    TRY(multiply_add(c, rows, first == 0, s->scores, dy, s->dpart[2]));
    TRY(multiply_add(c, rows, first == 0, s->slopes, s->part[0] + at, s->dpart[1]));
    return multiply_rows(c, rows, s->slopes, s->part[1], dq);
}

static Status backward_head(const OpInstance *op, AttentionCall *c, const AttentionScratch *s)
{
    gather_parts(c, s, &op->in[ATTENTION_BWD_IN_QKV]);
    gather(s->y, &op->in[ATTENTION_BWD_IN_DY], c, c->head * c->z.width);
    gather(s->dpart[0], &op->in[ATTENTION_BWD_IN_Y], c, c->head * c->z.width);
    for (int64_t first = 0, rows; first < c->at.length; first += rows) {
        rows = rows_from(c, first);
        TRY(backward_block(op, c, s, first, rows));
    }
    for (int i = 0; i < ATTENTION_PARTS; i++)
        scatter(&op->out[ATTENTION_BWD_OUT_DQKV], s->dpart[i], c,
                attention_channel(&c->z, i, c->head));
    return OK;
}

/* ---- the two ops ---- */

/* May change what the call says of rows. */
typedef Status RunHead(const OpInstance *op, AttentionCall *c, const AttentionScratch *s);

/* starts: NULL where absent */
static Status run_heads(const OpInstance *op, const AttentionCall *all, const int32_t *starts,
                        RunHead *run)
{
    const int threads = cpu_backend_of(op)->threads;
    const int64_t heads = all->z.n * all->z.heads;
    int64_t next = 0;
    Status status = OK;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        const AttentionScratch s = scratch_at(op, &all->z, t);
        AttentionCall c = *all;
        for (;;) {
            int64_t i;
#pragma omp atomic capture
            i = next++;
            if (i >= heads) break;
            c.n = i / c.z.heads;
            c.head = i % c.z.heads;
            c.at = attention_place(&c.z, starts, c.n);
            if (c.at.length == 0) continue;
            c.block = block_of(c.at.length);
            c.row = c.at.length;
            const Status done = run(op, &c, &s);
            if (done == OK) continue;
#pragma omp atomic write
            status = done;
        }
    }
    return status;
}

static AttentionSizes sizes_of(const OpInstance *op, int qkv, int starts)
{
    return attention_sizes(op->attr, &op->in[qkv].desc, &op->in[starts].desc);
}

/* out: y, or dqkv; lse: what forward writes, or NULL */
static Status run_all(const OpInstance *op, Stream *stream, int qkv, int scalars, int starts_slot,
                      const OpTensor *out, const OpTensor *lse, RunHead *run)
{
    const AttentionAttr *a = op->attr;
    const float *v = op->in[scalars].data;
    const int32_t *starts = op->in[starts_slot].data;
    AttentionCall c = { .z = sizes_of(op, qkv, starts_slot),
                        .drops = a->drop.rate > 0,
                        .stream = stream };
    if (c.drops)
        c.drop = drop_address(&a->drop,
                              drop_word((double)v[SCALAR_STEP_LOW], (double)v[SCALAR_STEP_HIGH]),
                              drop_word((double)v[SCALAR_PLACE_LOW], (double)v[SCALAR_PLACE_HIGH]));
    if (starts) {
        const int64_t end = starts[c.z.n];
        zero_rest(out, end);
        if (lse && lse->data)
            memset((float *)lse->data + end * c.z.heads, 0,
                   (size_t)((c.z.positions - end) * c.z.heads) * sizeof(float));
    }
    return run_heads(op, &c, starts, run);
}

static Status take_workspace(OpInstance *op, int qkv, int starts, bool backward)
{
    const AttentionSizes z = sizes_of(op, qkv, starts);
    AttentionState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->backward = backward;
    TRY(cpu_attention_make_products(op, &z, op->in[starts].desc.rank != 0));
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
    for (int i = ATTENTION_IN_SCALARS; i <= ATTENTION_IN_STARTS; i++)
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);
    return take_workspace(op, ATTENTION_IN_QKV, ATTENTION_IN_STARTS, false);
}

static Status prepare_bwd(OpInstance *op)
{
    CpuBackend *b = cpu_backend_of(op);
    for (int i = ATTENTION_BWD_IN_DY; i <= ATTENTION_BWD_IN_Y; i++) cpu_view_decide(b, &op->in[i]);
    for (int i = ATTENTION_BWD_IN_LSE; i <= ATTENTION_BWD_IN_STARTS; i++)
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);
    cpu_view_decide(b, &op->out[ATTENTION_BWD_OUT_DQKV]);
    return take_workspace(op, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_STARTS, true);
}

static Status run_attention(OpInstance *op, Stream *stream)
{
    const AttentionState *s = op->state;
    return run_all(op, stream, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS, ATTENTION_IN_STARTS,
                   &op->out[ATTENTION_OUT_Y], &op->out[ATTENTION_OUT_LSE],
                   s->narrow ? cpu_attention_forward_bf16 : forward_head);
}

static Status run_attention_bwd(OpInstance *op, Stream *stream)
{
    const AttentionState *s = op->state;
    return run_all(op, stream, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS,
                   ATTENTION_BWD_IN_STARTS, &op->out[ATTENTION_BWD_OUT_DQKV], NULL,
                   s->narrow ? cpu_attention_backward_bf16 : backward_head);
}

static void release_attention(OpInstance *op)
{
    AttentionState *s = op->state;
    for (int i = 0; s && i < ATTENTION_LENGTHS * PRODUCT_COUNT; i++)
        cpu_head_product_free(&s->products[i / PRODUCT_COUNT][i % PRODUCT_COUNT]);
}

const OpImpl cpu_attention = { prepare_attention, cpu_bind_nothing, run_attention,
                               release_attention };
const OpImpl cpu_attention_bwd = { prepare_bwd, cpu_bind_nothing, run_attention_bwd,
                                   release_attention };
