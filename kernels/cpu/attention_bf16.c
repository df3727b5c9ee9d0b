/* attention_bf16.c - heads of attention by products of bf16: see attention.c. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

enum { MAX_LENGTH = 1024 }; /* 12 MB of scores for each thread */

/* Where the rows of image n of a tensor have a head's first channel. */
static uint16_t *rows_at(const CpuView *v, const OpTensor *t, int64_t n, int64_t channel)
{
    ASSERT(v->rows && v->type == DTYPE_BF16);
    return (uint16_t *)t->data + cpu_view_at(v, n, channel, 0);
}

static void pull(const AttentionCall *c, const OpTensor *t, int64_t n, int64_t channel,
                 uint16_t *to)
{
    const CpuView v = cpu_view(t);
    const uint16_t *from = rows_at(&v, t, n, channel);
    for (int64_t i = 0; i < v.hw; i++, to += c->z.width, from += v.step)
        memcpy(to, from, (size_t)c->z.width * sizeof *to);
}

static void push(const AttentionCall *c, const OpTensor *t, int64_t n, int64_t channel,
                 const uint16_t *from)
{
    const CpuView v = cpu_view(t);
    uint16_t *to = rows_at(&v, t, n, channel);
    for (int64_t i = 0; i < v.hw; i++, to += v.step, from += c->z.width)
        memcpy(to, from, (size_t)c->z.width * sizeof *to);
}

static Status run_product(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s,
                          AttentionProduct kind, const void *left, const void *right, void *out)
{
    const AttentionState *state = op->state;
    return cpu_head_product_run(&state->products[kind], c->stream, s->thread, left, right, out,
                                s->narrow.product);
}

Status cpu_attention_forward_bf16(const OpInstance *op, const AttentionCall *c,
                                  const AttentionScratch *s, int64_t n, int64_t head)
{
    const int64_t l = c->z.length;
    uint16_t *const *part = s->narrow.part;
    float *lse = cpu_attention_lse(c, &op->out[ATTENTION_OUT_LSE], n, head);
    for (int i = 0; i < ATTENTION_PARTS; i++)
        pull(c, &op->in[ATTENTION_IN_QKV], n, attention_channel(&c->z, i, head), part[i]);
    TRY(run_product(op, c, s, PRODUCT_SCORES, part[0], part[1], s->scores));
    for (int64_t i = 0; i < l; i++) {
        cpu_attention_soften(c, n, head, i, s->scores + i * l, lse);
        cpu_lanes_narrow(s->narrow.weights + i * l, s->scores + i * l, l);
    }
    TRY(run_product(op, c, s, PRODUCT_Y, s->narrow.weights, part[2], s->narrow.out));
    push(c, &op->out[ATTENTION_OUT_Y], n, head * c->z.width, s->narrow.out);
    return OK;
}

static void soften_bwd_rows(const OpInstance *op, const AttentionCall *c, const AttentionScratch *s,
                            int64_t n, int64_t head)
{
    const int64_t l = c->z.length, d = c->z.width;
    const OpTensor *t = &op->in[ATTENTION_BWD_IN_Y];
    const CpuView v = cpu_view(t);
    const uint16_t *y = rows_at(&v, t, n, head * d);
    const float *lse = cpu_attention_lse(c, &op->in[ATTENTION_BWD_IN_LSE], n, head);
    for (int64_t i = 0; i < l; i++) {
        cpu_attention_soften_bwd(c, s, n, head, i, i, lse[i], s->narrow.dy + i * d, y + i * v.step,
                                 DTYPE_BF16);
        cpu_lanes_narrow(s->narrow.weights + i * l, s->scores + i * l, l);
        cpu_lanes_narrow(s->narrow.slopes + i * l, s->slopes + i * l, l);
    }
}

Status cpu_attention_backward_bf16(const OpInstance *op, const AttentionCall *c,
                                   const AttentionScratch *s, int64_t n, int64_t head)
{
    uint16_t *const *part = s->narrow.part, *dy = s->narrow.dy;
    for (int i = 0; i < ATTENTION_PARTS; i++)
        pull(c, &op->in[ATTENTION_BWD_IN_QKV], n, attention_channel(&c->z, i, head), part[i]);
    pull(c, &op->in[ATTENTION_BWD_IN_DY], n, head * c->z.width, dy);
    TRY(run_product(op, c, s, PRODUCT_SCORES, part[0], part[1], s->scores));
    TRY(run_product(op, c, s, PRODUCT_SLOPES, dy, part[2], s->slopes));
    soften_bwd_rows(op, c, s, n, head);
    const struct {
        AttentionProduct kind;
        const uint16_t *left, *right;
    } gradients[ATTENTION_PARTS] = { { PRODUCT_DQ, s->narrow.slopes, part[1] },
                                     { PRODUCT_DK, s->narrow.slopes, part[0] },
                                     { PRODUCT_DV, s->narrow.weights, dy } };
    for (int i = 0; i < ATTENTION_PARTS; i++) {
        TRY(run_product(op, c, s, gradients[i].kind, gradients[i].left, gradients[i].right,
                        s->narrow.out));
        push(c, &op->out[ATTENTION_BWD_OUT_DQKV], n, attention_channel(&c->z, i, head),
             s->narrow.out);
    }
    return OK;
}

Status cpu_attention_make_products(OpInstance *op, const AttentionSizes *z)
{
    const int64_t l = z->length, d = z->width;
    const HeadMatrix part = { l, d, false, DTYPE_BF16 }, part_t = { d, l, true, DTYPE_BF16 },
                     weights = { l, l, false, DTYPE_BF16 }, weights_t = { l, l, true, DTYPE_BF16 },
                     scores = { l, l, false, DTYPE_F32 };
    const HeadMatrix of[PRODUCT_COUNT][HEAD_MATRICES] = {
        [PRODUCT_SCORES] = { part, part_t, scores }, [PRODUCT_Y] = { weights, part, part },
        [PRODUCT_SLOPES] = { part, part_t, scores }, [PRODUCT_DV] = { weights_t, part, part },
        [PRODUCT_DK] = { weights_t, part, part },    [PRODUCT_DQ] = { weights, part, part },
    };
    AttentionState *s = op->state;
    s->narrow = l <= MAX_LENGTH;
    for (int kind = 0; kind < PRODUCT_COUNT && s->narrow; kind++) {
        HeadProduct *p = &s->products[kind];
        if (kind != PRODUCT_SCORES && (kind >= PRODUCT_SLOPES) != s->backward) continue;
        TRY(cpu_head_product_make(cpu_backend_of(op), p, of[kind], &s->narrow));
        if (p->scratch_bytes > s->scratch_bytes) s->scratch_bytes = p->scratch_bytes;
    }
    return OK;
}
