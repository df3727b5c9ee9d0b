/* infer.c - see infer.h. Every message reads "op slot: what is wrong, with the shape". */
#include "kernels/ops/infer.h"

#define SHAPE_TEXT 96

static Status check_equal(OpKind kind, const char *slot, const TensorDesc *got,
                          const TensorDesc *need)
{
    if (got->dtype == need->dtype && tensor_same_shape(got, need)) return OK;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    tensor_format(got, a, sizeof a);
    tensor_format(need, b, sizeof b);
    return fail(ERR_INTERNAL, "%s: %s is %s, expected %s", op_name(kind), slot, a, b);
}

Status infer_need(const OpSlots *s, int slot, DType dtype, int rank)
{
    const OpKind kind = s->kind;
    const char *name = op_def(kind)->in_names[slot];
    const TensorDesc *in = s->in[slot];
    if (!in) return fail(ERR_INTERNAL, "%s: input %s is missing", op_name(kind), name);
    char text[SHAPE_TEXT];
    tensor_format(in, text, sizeof text);
    if (in->dtype != dtype)
        return fail(ERR_INTERNAL, "%s: %s is %s, expected %s", op_name(kind), name, text,
                    dtype_name(dtype));
    if (rank && in->rank != rank)
        return fail(ERR_INTERNAL, "%s: %s is %s, expected rank %d", op_name(kind), name, text,
                    rank);
    for (int i = 0; i < in->rank; i++)
        if (in->dims[i] < 1)
            return fail(ERR_INTERNAL, "%s: %s is %s, which is empty", op_name(kind), name, text);
    return in->rank ? OK : fail(ERR_INTERNAL, "%s: input %s has no shape", op_name(kind), name);
}

Status infer_need_like(const OpSlots *s, int slot, const TensorDesc *like)
{
    TRY(infer_need(s, slot, like->dtype, 0));
    return check_equal(s->kind, op_def(s->kind)->in_names[slot], s->in[slot], like);
}

Status infer_need_dims(const OpSlots *s, int slot, int rank, const int64_t *dims)
{
    TensorDesc need = tensor_desc(DTYPE_F32, rank, dims);
    return infer_need_like(s, slot, &need);
}

Status infer_output_like(const OpSlots *s, int slot, const TensorDesc *like)
{
    TensorDesc *out = &s->out[slot];
    if (out->rank) return check_equal(s->kind, op_def(s->kind)->out_names[slot], out, like);
    if (s->wanted[slot]) *out = *like;
    return OK;
}

Status infer_output(const OpSlots *s, int slot, DType dtype, int rank, const int64_t *dims)
{
    TensorDesc made = tensor_desc(dtype, rank, dims);
    return infer_output_like(s, slot, &made);
}

Status infer_preset(const OpSlots *s, int slot, int rank)
{
    const OpKind kind = s->kind;
    const char *name = op_def(kind)->out_names[slot];
    const TensorDesc *out = &s->out[slot];
    if (!out->rank)
        return fail(ERR_INTERNAL, "%s: the shape of %s must be given by the caller", op_name(kind),
                    name);
    char text[SHAPE_TEXT];
    tensor_format(out, text, sizeof text);
    if (out->dtype != DTYPE_F32)
        return fail(ERR_INTERNAL, "%s: %s is %s, expected f32", op_name(kind), name, text);
    if (rank && out->rank != rank)
        return fail(ERR_INTERNAL, "%s: %s is %s, expected rank %d", op_name(kind), name, text,
                    rank);
    return OK;
}

Status infer_normed_act(OpKind kind, ActKind act, bool residual)
{
    if ((unsigned)act >= ACT_COUNT) return fail(ERR_INTERNAL, "%s: bad activation", op_name(kind));
    const ActDef *def = op_act(act);
    if (!def->normed)
        return fail(ERR_INTERNAL, "%s: a batch norm cannot be fused with %s", op_name(kind),
                    def->name);
    if (residual && !def->by_sign)
        return fail(ERR_INTERNAL, "%s: %s after a residual has no gradient here", op_name(kind),
                    def->name);
    return OK;
}

Status infer_folded_act(OpKind kind, ActKind act)
{
    TRY(infer_normed_act(kind, act, false));
    return op_act(act)->folded ? OK
                               : fail(ERR_INTERNAL, "%s: a convolution cannot be fused with %s",
                                      op_name(kind), op_act(act)->name);
}

int64_t infer_output_size(int64_t size, int64_t pad, int64_t kernel_size, int64_t stride)
{
    return stride < 1 || kernel_size < 1 || size + pad < kernel_size
               ? 0
               : (size + pad - kernel_size) / stride + 1;
}
