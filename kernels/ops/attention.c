/* attention.c - multi-head attention and its gradient: shapes and work. */
#include "kernels/ops/attention.h"
#include "kernels/ops/infer.h"
#include <stdio.h>

#define MAX_DRAWS (INT64_C(1) << 34) /* four to a counter of 32 bits */

static Status check_drop(const OpSlots *s, const AttentionSizes *z, int scalars)
{
    const DropAttr *d = &((const AttentionAttr *)s->attr)->drop;
    if (!(d->rate >= 0 && d->rate < 1) || d->layer >> 24 || d->per_image)
        return fail(ERR_INTERNAL, "%s: dropout of %g, layer %u, is invalid", op_name(s->kind),
                    (double)d->rate, d->layer);
    if (d->rate == 0) return OK;
    if (z->heads * z->length * (z->length + 3) > MAX_DRAWS)
        return fail(ERR_USAGE, "%s: %lld positions are too many for dropout", op_name(s->kind),
                    (long long)z->length);
    return infer_need_dims(s, scalars, 1, (const int64_t[]){ SCALAR_COUNT });
}

static Status check_starts(const OpSlots *s, const TensorDesc *qkv, int starts)
{
    const AttentionAttr *a = s->attr;
    const int64_t *d = qkv->dims;
    if (!s->in[starts] && a->longest == 0) return OK;
    TRY(infer_need(s, starts, DTYPE_I32, 1));
    if (d[0] == 1 && s->in[starts]->dims[0] >= 2 && a->longest >= 1) return OK;
    return fail(ERR_INTERNAL, "%s: %lld starts of sequences of at most %d positions in %lld images",
                op_name(s->kind), (long long)s->in[starts]->dims[0], a->longest, (long long)d[0]);
}

/* Checks what both directions have; gives the shapes of y and lse. */
static Status check(const OpSlots *s, int qkv, int scalars, int starts, TensorDesc *y,
                    TensorDesc *lse)
{
    const AttentionAttr *a = s->attr;
    TRY(infer_need(s, qkv, DTYPE_F32, 4));
    const TensorDesc *x = s->in[qkv];
    const int64_t *d = x->dims;
    if (a->heads < 1) return fail(ERR_INTERNAL, "%s: %d heads", op_name(s->kind), a->heads);
    TRY(check_starts(s, x, starts));
    const AttentionSizes z = attention_sizes(a, x, s->in[starts]);
    if (z.width < 1 || d[1] != 3 * a->heads * z.width || z.width % 8 != 0 ||
        z.width > ATTENTION_MAX_WIDTH)
        return fail(ERR_INTERNAL,
                    "%s: %lld channels for %d heads: queries, keys and values of a head must have "
                    "a multiple of 8 channels, at most %d",
                    op_name(s->kind), (long long)d[1], a->heads, ATTENTION_MAX_WIDTH);
    TRY(check_drop(s, &z, scalars));
    *y = tensor_desc(DTYPE_F32, 4, (const int64_t[]){ d[0], d[1] / 3, d[2], d[3] });
    *lse = tensor_desc(DTYPE_F32, 3,
                       (const int64_t[]){ d[0], z.packed ? z.positions : z.heads,
                                          z.packed ? z.heads : z.positions });
    return OK;
}

static Status infer_forward(const OpSlots *s)
{
    TensorDesc y, lse;
    TRY(check(s, ATTENTION_IN_QKV, ATTENTION_IN_SCALARS, ATTENTION_IN_STARTS, &y, &lse));
    TRY(infer_output_like(s, ATTENTION_OUT_Y, &y));
    return infer_output_like(s, ATTENTION_OUT_LSE, &lse);
}

static Status infer_backward(const OpSlots *s)
{
    TensorDesc y, lse;
    TRY(check(s, ATTENTION_BWD_IN_QKV, ATTENTION_BWD_IN_SCALARS, ATTENTION_BWD_IN_STARTS, &y,
              &lse));
    TRY(infer_need_like(s, ATTENTION_BWD_IN_DY, &y));
    TRY(infer_need_like(s, ATTENTION_BWD_IN_Y, &y));
    TRY(infer_need_like(s, ATTENTION_BWD_IN_LSE, &lse));
    return infer_output_like(s, ATTENTION_BWD_OUT_DQKV, s->in[ATTENTION_BWD_IN_QKV]);
}

/* Of one product: of a matrix [L,d] with one [d,L], or of [L,L] with [L,d]. With starts as if
 * every position were of one of the longest sequences. */
static double product(const void *attr, const TensorDesc *qkv, const TensorDesc *starts)
{
    const AttentionSizes z = attention_sizes(attr, qkv, starts);
    const int64_t rows = qkv->dims[0] * z.positions * z.heads;
    return 2.0 * (double)rows * (double)(z.length * z.width);
}

static double flops_forward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)out;
    return 2 * product(attr, in[ATTENTION_IN_QKV], in[ATTENTION_IN_STARTS]);
}

/* The scores again, and four gradients. */
static double flops_backward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)out;
    return 5 * product(attr, in[ATTENTION_BWD_IN_QKV], in[ATTENTION_BWD_IN_STARTS]);
}

static void print_attention(const void *attr, char *out, size_t bytes)
{
    const AttentionAttr *a = attr;
    int n = snprintf(out, bytes, "%d heads", a->heads);
    if (a->longest > 0) n += snprintf(out + n, bytes - (size_t)n, " within %d", a->longest);
    if (a->drop.rate > 0) snprintf(out + n, bytes - (size_t)n, ", drops %g", (double)a->drop.rate);
}

const OpDef op_row_attention = {
    .attr_bytes = sizeof(AttentionAttr),
    .in_names = { "qkv", "scalars?", "starts?" },
    .out_names = { "y", "lse?" },
    .infer = infer_forward,
    .flops = flops_forward,
    .print = print_attention,
};

const OpDef op_row_attention_bwd = {
    .attr_bytes = sizeof(AttentionAttr),
    .in_names = { "dy", "qkv", "y", "lse", "scalars?", "starts?" },
    .out_names = { "dqkv" },
    .infer = infer_backward,
    .flops = flops_backward,
    .print = print_attention,
};
