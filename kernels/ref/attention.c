/* attention.c - y = drop(softmax(q k^T / sqrt(d))) v of each image and head, and its gradient, a
 * row of the softmax at a time. */
#include "kernels/ops/attention.h"
#include "kernels/drop.h"
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Heads {
    AttentionSizes z;
    const double *qkv;
    double scale, rate;
    DropAddress drop;
} Heads;

static Heads heads_of(const OpInstance *op, int qkv, int scalars)
{
    const AttentionAttr *a = op->attr;
    Heads h = { .z = attention_sizes(a, &op->in[qkv].desc), .qkv = ref_in(op, qkv) };
    h.scale = 1 / sqrt((double)h.z.width);
    h.rate = (double)a->drop.rate;
    if (h.rate == 0) return h;
    const double *s = ref_in(op, scalars);
    h.drop = drop_address(&a->drop, drop_word(s[SCALAR_STEP_LOW], s[SCALAR_STEP_HIGH]),
                          drop_word(s[SCALAR_PLACE_LOW], s[SCALAR_PLACE_HIGH]));
    return h;
}

/* Where channel i of a part of qkv lies, of one position. */
static int64_t at(const Heads *h, int64_t n, int64_t head, int part, int64_t position, int64_t i)
{
    const int64_t channels = 3 * h->z.heads * h->z.width;
    return (n * channels + attention_channel(&h->z, part, head) + i) * h->z.length + position;
}

static int64_t at_y(const Heads *h, int64_t n, int64_t head, int64_t position, int64_t i)
{
    return ((n * h->z.heads + head) * h->z.width + i) * h->z.length + position;
}

static double score(const Heads *h, int64_t n, int64_t head, int64_t query, int64_t key)
{
    double sum = 0;
    for (int64_t i = 0; i < h->z.width; i++)
        sum += h->qkv[at(h, n, head, 0, query, i)] * h->qkv[at(h, n, head, 1, key, i)];
    return sum * h->scale;
}

/* What the drop makes of one element of the softmax. */
static double kept(const Heads *h, int64_t n, int64_t head, int64_t query, int64_t key)
{
    const int64_t blocks = (h->z.length + 3) / 4;
    float factors[4];
    if (h->rate == 0) return 1;
    drop_factors(&h->drop, n, (uint32_t)((head * h->z.length + query) * blocks + key / 4), factors);
    return (double)factors[key % 4];
}

/* NaN where a score is. */
static double log_sum_exp(const Heads *h, int64_t n, int64_t head, int64_t query)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < h->z.length; j++) most = fmax(most, score(h, n, head, query, j));
    for (int64_t j = 0; j < h->z.length; j++) sum += exp(score(h, n, head, query, j) - most);
    return most + log(sum);
}

static void forward_row(OpInstance *op, const Heads *h, int64_t n, int64_t head, int64_t query)
{
    const double lse = log_sum_exp(h, n, head, query);
    double *y = ref_out(op, ATTENTION_OUT_Y);
    for (int64_t i = 0; i < h->z.width; i++) y[at_y(h, n, head, query, i)] = 0;
    for (int64_t j = 0; j < h->z.length; j++) {
        const double p = exp(score(h, n, head, query, j) - lse) * kept(h, n, head, query, j);
        for (int64_t i = 0; i < h->z.width; i++)
            y[at_y(h, n, head, query, i)] += p * h->qkv[at(h, n, head, 2, j, i)];
    }
    if (ref_has_out(op, ATTENTION_OUT_LSE))
        ref_out(op, ATTENTION_OUT_LSE)[(n * h->z.heads + head) * h->z.length + query] = lse;
}

/* What one row of the softmax gives all keys, values and its query. */
static void backward_row(OpInstance *op, const Heads *h, int64_t n, int64_t head, int64_t query)
{
    const double *dy = ref_in(op, ATTENTION_BWD_IN_DY), *y = ref_in(op, ATTENTION_BWD_IN_Y);
    const double lse =
        ref_in(op, ATTENTION_BWD_IN_LSE)[(n * h->z.heads + head) * h->z.length + query];
    double *out = ref_out(op, ATTENTION_BWD_OUT_DQKV), inner = 0;
    for (int64_t i = 0; i < h->z.width; i++)
        inner += dy[at_y(h, n, head, query, i)] * y[at_y(h, n, head, query, i)];
    for (int64_t j = 0; j < h->z.length; j++) {
        const double p = exp(score(h, n, head, query, j) - lse), f = kept(h, n, head, query, j);
        double dp = 0;
        for (int64_t i = 0; i < h->z.width; i++) {
            const double d = dy[at_y(h, n, head, query, i)];
            dp += d * h->qkv[at(h, n, head, 2, j, i)];
            out[at(h, n, head, 2, j, i)] += p * f * d;
        }
        const double ds = p * (f * dp - inner) * h->scale;
        for (int64_t i = 0; i < h->z.width; i++) {
            const int64_t q = at(h, n, head, 0, query, i), k = at(h, n, head, 1, j, i);
            out[q] += ds * h->qkv[k];
            out[k] += ds * h->qkv[q];
        }
    }
}

static void all_rows(OpInstance *op, const Heads *h,
                     void (*row)(OpInstance *, const Heads *, int64_t, int64_t, int64_t))
{
    for (int64_t n = 0; n < h->z.n; n++)
        for (int64_t head = 0; head < h->z.heads; head++)
            for (int64_t query = 0; query < h->z.length; query++) row(op, h, n, head, query);
}

static void run_forward(OpInstance *op)
{
    const Heads h = heads_of(op, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS);
    all_rows(op, &h, forward_row);
}

static void run_backward(OpInstance *op)
{
    const Heads h = heads_of(op, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS);
    const int64_t count = tensor_elements(&op->out[ATTENTION_BWD_OUT_DQKV].desc);
    for (int64_t i = 0; i < count; i++) ref_out(op, ATTENTION_BWD_OUT_DQKV)[i] = 0;
    all_rows(op, &h, backward_row);
}

REF_LOOPS(ref_attention, run_forward);
REF_LOOPS(ref_attention_bwd, run_backward);
