/* attention_bf16.c - heads of attention by products of bf16: see attention.c. oneDNN makes products
 * for one length each, so there are some for few lengths; the rows that a shorter sequence lacks
 * are zeros, in all factors, and add nothing. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { MAX_LENGTH = 1024 }; /* 12 MB of scores for each thread */

/* Where the call's rows of a tensor have a head's first channel. */
static uint16_t *rows_at(const CpuView *v, const OpTensor *t, const AttentionCall *c,
                         int64_t channel)
{
    ASSERT(v->rows && v->type == DTYPE_BF16);
    return (uint16_t *)t->data + cpu_view_at(v, c->at.image, channel, c->at.first);
}

static void pull(const AttentionCall *c, const OpTensor *t, int64_t channel, uint16_t *to)
{
    const CpuView v = cpu_view(t);
    const uint16_t *from = rows_at(&v, t, c, channel);
    for (int64_t i = 0; i < c->at.length; i++, to += c->z.width, from += v.step)
        memcpy(to, from, (size_t)c->z.width * sizeof *to);
    memset(to, 0, (size_t)((c->row - c->at.length) * c->z.width) * sizeof *to);
}

static void push(const AttentionCall *c, const OpTensor *t, int64_t channel, const uint16_t *from)
{
    const CpuView v = cpu_view(t);
    uint16_t *to = rows_at(&v, t, c, channel);
    for (int64_t i = 0; i < c->at.length; i++, to += v.step, from += c->z.width)
        memcpy(to, from, (size_t)c->z.width * sizeof *to);
}

/* Row i of the scores as a factor of the next product. */
static void narrow_row(const AttentionCall *c, uint16_t *to, const float *from, int64_t i)
{
    const int64_t l = c->at.length;
    cpu_lanes_narrow(to + i * c->row, from + i * c->row, l);
    memset(to + i * c->row + l, 0, (size_t)(c->row - l) * sizeof *to);
}

static void zero_last_rows(const AttentionCall *c, uint16_t *to)
{
    memset(to + c->at.length * c->row, 0, (size_t)((c->row - c->at.length) * c->row) * sizeof *to);
}

/* The products for the call's length. */
static const HeadProduct *take_products(const OpInstance *op, AttentionCall *c)
{
    const AttentionState *state = op->state;
    int i = 0;
    while (state->length[i] < c->at.length) i++;
    c->row = state->length[i];
    return state->products[i];
}

static Status run_product(const HeadProduct *products, const AttentionCall *c,
                          const AttentionScratch *s, AttentionProduct kind, const void *left,
                          const void *right, void *out)
{
    return cpu_head_product_run(&products[kind], c->stream, s->thread, left, right, out,
                                s->narrow.product);
}

Status cpu_attention_forward_bf16(const OpInstance *op, AttentionCall *c, const AttentionScratch *s)
{
    const HeadProduct *products = take_products(op, c);
    uint16_t *const *part = s->narrow.part;
    const OpTensor *lse = &op->out[ATTENTION_OUT_LSE];
    for (int i = 0; i < ATTENTION_PARTS; i++)
        pull(c, &op->in[ATTENTION_IN_QKV], attention_channel(&c->z, i, c->head), part[i]);
    TRY(run_product(products, c, s, PRODUCT_SCORES, part[0], part[1], s->scores));
    for (int64_t i = 0; i < c->at.length; i++) {
        cpu_attention_soften(c, s, i, i, cpu_attention_lse(c, lse, i));
        narrow_row(c, s->narrow.weights, s->scores, i);
    }
    zero_last_rows(c, s->narrow.weights);
    TRY(run_product(products, c, s, PRODUCT_Y, s->narrow.weights, part[2], s->narrow.out));
    push(c, &op->out[ATTENTION_OUT_Y], c->head * c->z.width, s->narrow.out);
    return OK;
}

static void soften_bwd_rows(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s)
{
    const int64_t d = c->z.width;
    const OpTensor *t = &op->in[ATTENTION_BWD_IN_Y];
    const CpuView v = cpu_view(t);
    const uint16_t *y = rows_at(&v, t, c, c->head * d);
    const OpTensor *lse = &op->in[ATTENTION_BWD_IN_LSE];
    for (int64_t i = 0; i < c->at.length; i++) {
        cpu_attention_soften_bwd(c, s, i, i, *cpu_attention_lse(c, lse, i), s->narrow.dy + i * d,
                                 y + i * v.step, DTYPE_BF16);
        narrow_row(c, s->narrow.weights, s->scores, i);
        narrow_row(c, s->narrow.slopes, s->slopes, i);
    }
    zero_last_rows(c, s->narrow.weights);
    zero_last_rows(c, s->narrow.slopes);
}

Status cpu_attention_backward_bf16(const OpInstance *op, AttentionCall *c,
                                   const AttentionScratch *s)
{
    const HeadProduct *products = take_products(op, c);
    uint16_t *const *part = s->narrow.part, *dy = s->narrow.dy;
    for (int i = 0; i < ATTENTION_PARTS; i++)
        pull(c, &op->in[ATTENTION_BWD_IN_QKV], attention_channel(&c->z, i, c->head), part[i]);
    pull(c, &op->in[ATTENTION_BWD_IN_DY], c->head * c->z.width, dy);
    TRY(run_product(products, c, s, PRODUCT_SCORES, part[0], part[1], s->scores));
    TRY(run_product(products, c, s, PRODUCT_SLOPES, dy, part[2], s->slopes));
    soften_bwd_rows(op, c, s);
    const struct {
        AttentionProduct kind;
        const uint16_t *left, *right;
    } gradients[ATTENTION_PARTS] = { { PRODUCT_DQ, s->narrow.slopes, part[1] },
                                     { PRODUCT_DK, s->narrow.slopes, part[0] },
                                     { PRODUCT_DV, s->narrow.weights, dy } };
    for (int i = 0; i < ATTENTION_PARTS; i++) {
        TRY(run_product(products, c, s, gradients[i].kind, gradients[i].left, gradients[i].right,
                        s->narrow.out));
        push(c, &op->out[ATTENTION_BWD_OUT_DQKV], attention_channel(&c->z, i, c->head),
             s->narrow.out);
    }
    return OK;
}

/* Those of one length l. */
static Status make_products(OpInstance *op, int64_t l, int64_t d, HeadProduct *products)
{
    const HeadMatrix part = { l, d, false, DTYPE_BF16 }, part_t = { d, l, true, DTYPE_BF16 },
                     weights = { l, l, false, DTYPE_BF16 }, weights_t = { l, l, true, DTYPE_BF16 },
                     scores = { l, l, false, DTYPE_F32 };
    const HeadMatrix of[PRODUCT_COUNT][HEAD_MATRICES] = {
        [PRODUCT_SCORES] = { part, part_t, scores }, [PRODUCT_Y] = { weights, part, part },
        [PRODUCT_SLOPES] = { part, part_t, scores }, [PRODUCT_DV] = { weights_t, part, part },
        [PRODUCT_DK] = { weights_t, part, part },    [PRODUCT_DQ] = { weights, part, part },
    };
    AttentionState *s = op->state;
    for (int kind = 0; kind < PRODUCT_COUNT && s->narrow; kind++) {
        HeadProduct *p = &products[kind];
        if (kind != PRODUCT_SCORES && (kind >= PRODUCT_SLOPES) != s->backward) continue;
        TRY(cpu_head_product_make(cpu_backend_of(op), p, of[kind], &s->narrow));
        if (p->scratch_bytes > s->scratch_bytes) s->scratch_bytes = p->scratch_bytes;
    }
    return OK;
}

Status cpu_attention_make_products(OpInstance *op, const AttentionSizes *z, bool ragged)
{
    const int lengths = ragged ? ATTENTION_LENGTHS : 1;
    AttentionState *s = op->state;
    s->narrow = z->length <= MAX_LENGTH;
    for (int i = 1; i <= lengths && s->narrow; i++) {
        const int64_t l = (z->length * i + lengths - 1) / lengths;
        if (s->lengths > 0 && s->length[s->lengths - 1] == l) continue;
        s->length[s->lengths] = l;
        TRY(make_products(op, l, z->width, s->products[s->lengths++]));
    }
    return OK;
}
