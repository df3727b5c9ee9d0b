/* attention.c - y = drop(softmax(q k^T / sqrt(d))) v of each sequence and head, and its gradient, a
 * row of the softmax at a time. */
#include "kernels/ops/attention.h"
#include "kernels/drop.h"
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Heads {
    AttentionSizes z;
    const double *qkv;
    const int32_t *starts;
    double scale, rate;
    DropAddress drop;
    /* the sequence and head at hand */
    int64_t n, head;
    AttentionPlace at;
} Heads;

static Heads heads_of(const OpInstance *op, int qkv, int scalars, int starts)
{
    const AttentionAttr *a = op->attr;
    Heads h = { .z = attention_sizes(a, &op->in[qkv].desc, &op->in[starts].desc),
                .qkv = ref_in(op, qkv),
                .starts = ref_has_in(op, starts) ? op->in[starts].data : NULL };
    h.scale = 1 / sqrt((double)h.z.width);
    h.rate = (double)a->drop.rate;
    if (h.rate == 0) return h;
    const double *s = ref_in(op, scalars);
    h.drop = drop_address(&a->drop, drop_word(s[SCALAR_STEP_LOW], s[SCALAR_STEP_HIGH]),
                          drop_word(s[SCALAR_PLACE_LOW], s[SCALAR_PLACE_HIGH]));
    return h;
}

/* Where a channel lies, of one position of the sequence. */
static int64_t place_of(const Heads *h, int64_t channels, int64_t channel, int64_t position)
{
    return (h->at.image * channels + channel) * h->z.positions + h->at.first + position;
}

/* Of channel i of a part of qkv. */
static int64_t at(const Heads *h, int part, int64_t position, int64_t i)
{
    return place_of(h, 3 * h->z.heads * h->z.width, attention_channel(&h->z, part, h->head) + i,
                    position);
}

static int64_t at_y(const Heads *h, int64_t position, int64_t i)
{
    return place_of(h, h->z.heads * h->z.width, h->head * h->z.width + i, position);
}

static double score(const Heads *h, int64_t query, int64_t key)
{
    double sum = 0;
    for (int64_t i = 0; i < h->z.width; i++)
        sum += h->qkv[at(h, 0, query, i)] * h->qkv[at(h, 1, key, i)];
    return sum * h->scale;
}

/* What the drop makes of one element of the softmax. */
static double kept(const Heads *h, int64_t query, int64_t key)
{
    const int64_t blocks = (h->z.length + 3) / 4;
    float factors[4];
    if (h->rate == 0) return 1;
    drop_factors(&h->drop, h->n, (uint32_t)((h->head * h->z.length + query) * blocks + key / 4),
                 factors);
    return (double)factors[key % 4];
}

/* NaN where a score is. */
static double log_sum_exp(const Heads *h, int64_t query)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < h->at.length; j++) most = fmax(most, score(h, query, j));
    for (int64_t j = 0; j < h->at.length; j++) sum += exp(score(h, query, j) - most);
    return most + log(sum);
}

static void forward_row(OpInstance *op, const Heads *h, int64_t query)
{
    const double lse = log_sum_exp(h, query);
    double *y = ref_out(op, ATTENTION_OUT_Y);
    for (int64_t j = 0; j < h->at.length; j++) {
        const double p = exp(score(h, query, j) - lse) * kept(h, query, j);
        for (int64_t i = 0; i < h->z.width; i++) y[at_y(h, query, i)] += p * h->qkv[at(h, 2, j, i)];
    }
    if (ref_has_out(op, ATTENTION_OUT_LSE))
        ref_out(op, ATTENTION_OUT_LSE)[attention_lse_at(&h->z, &h->at, h->head, query)] = lse;
}

/* What one row of the softmax gives all keys, values and its query. */
static void backward_row(OpInstance *op, const Heads *h, int64_t query)
{
    const double *dy = ref_in(op, ATTENTION_BWD_IN_DY), *y = ref_in(op, ATTENTION_BWD_IN_Y);
    const double lse =
        ref_in(op, ATTENTION_BWD_IN_LSE)[attention_lse_at(&h->z, &h->at, h->head, query)];
    double *out = ref_out(op, ATTENTION_BWD_OUT_DQKV), inner = 0;
    for (int64_t i = 0; i < h->z.width; i++) inner += dy[at_y(h, query, i)] * y[at_y(h, query, i)];
    for (int64_t j = 0; j < h->at.length; j++) {
        const double p = exp(score(h, query, j) - lse), f = kept(h, query, j);
        double dp = 0;
        for (int64_t i = 0; i < h->z.width; i++) {
            const double d = dy[at_y(h, query, i)];
            dp += d * h->qkv[at(h, 2, j, i)];
            out[at(h, 2, j, i)] += p * f * d;
        }
        const double ds = p * (f * dp - inner) * h->scale;
        for (int64_t i = 0; i < h->z.width; i++) {
            const int64_t q = at(h, 0, query, i), k = at(h, 1, j, i);
            out[q] += ds * h->qkv[k];
            out[k] += ds * h->qkv[q];
        }
    }
}

static void all_rows(OpInstance *op, Heads *h, void (*row)(OpInstance *, const Heads *, int64_t))
{
    for (h->n = 0; h->n < h->z.n; h->n++) {
        h->at = attention_place(&h->z, h->starts, h->n);
        for (h->head = 0; h->head < h->z.heads; h->head++)
            for (int64_t query = 0; query < h->at.length; query++) row(op, h, query);
    }
}

static void zero(OpInstance *op, int slot)
{
    if (!ref_has_out(op, slot)) return;
    const int64_t count = tensor_elements(&op->out[slot].desc);
    for (int64_t i = 0; i < count; i++) ref_out(op, slot)[i] = 0;
}

static void run_forward(OpInstance *op)
{
    Heads h = heads_of(op, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS, ATTENTION_IN_STARTS);
    zero(op, ATTENTION_OUT_Y);
    zero(op, ATTENTION_OUT_LSE);
    all_rows(op, &h, forward_row);
}

static void run_backward(OpInstance *op)
{
    Heads h = heads_of(op, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS, ATTENTION_BWD_IN_STARTS);
    zero(op, ATTENTION_BWD_OUT_DQKV);
    all_rows(op, &h, backward_row);
}

REF_LOOPS(ref_attention, run_forward);
REF_LOOPS(ref_attention_bwd, run_backward);
