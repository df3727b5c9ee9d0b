/* tokens.c - images to sequences, and the gradients: shapes and work. */
#include "kernels/ops/infer.h"

/* The shapes of y, positions and class token for x [N,C,H,W]. */
static void shapes(const TensorDesc *x, int64_t extra, TensorDesc *y, TensorDesc *positions,
                   TensorDesc *first)
{
    const int64_t *d = x->dims, length = d[2] * d[3] + extra;
    *y = tensor_desc(DTYPE_F32, 4, (const int64_t[]){ d[0], d[1], length, 1 });
    *positions = tensor_desc(DTYPE_F32, 3, (const int64_t[]){ 1, length, d[1] });
    *first = tensor_desc(DTYPE_F32, 3, (const int64_t[]){ 1, 1, d[1] });
}

static Status infer_forward(const OpSlots *s)
{
    TensorDesc y, positions, first;
    TRY(infer_need(s, TOKENS_IN_X, DTYPE_F32, 4));
    shapes(s->in[TOKENS_IN_X], s->in[TOKENS_IN_CLASS] != NULL, &y, &positions, &first);
    TRY(infer_need_like(s, TOKENS_IN_POSITIONS, &positions));
    if (s->in[TOKENS_IN_CLASS]) TRY(infer_need_like(s, TOKENS_IN_CLASS, &first));
    return infer_output_like(s, TOKENS_OUT_Y, &y);
}

static Status infer_backward(const OpSlots *s)
{
    TensorDesc dy, positions, first;
    TRY(infer_preset(s, TOKENS_BWD_OUT_DX, 4));
    shapes(&s->out[TOKENS_BWD_OUT_DX], s->wanted[TOKENS_BWD_OUT_DCLASS], &dy, &positions, &first);
    TRY(infer_need_like(s, TOKENS_BWD_IN_DY, &dy));
    TRY(infer_output_like(s, TOKENS_BWD_OUT_DPOSITIONS, &positions));
    return infer_output_like(s, TOKENS_BWD_OUT_DCLASS, &first);
}

const OpDef op_row_tokens = {
    .in_names = { "x", "positions", "class?" },
    .out_names = { "y" },
    .infer = infer_forward,
    .work = { 1, TOKENS_IN_X },
};

const OpDef op_row_tokens_bwd = {
    .in_names = { "dy" },
    .out_names = { "dx", "dpositions", "dclass?" },
    .infer = infer_backward,
    .work = { 1, TOKENS_BWD_IN_DY },
};
