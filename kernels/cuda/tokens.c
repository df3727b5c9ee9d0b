/* tokens.c - images to sequences and back on the device: which tensors, of which type. Positions
 * and the class token are plain. */
#include "kernels/cuda/tokens.h"
#include "kernels/cuda/cuda.h"

static void decide_tokens(OpInstance *op, OpTensor *images, OpTensor *sequences,
                          OpTensor *positions, OpTensor *first)
{
    const CudaBackend *b = cuda_backend(op);
    cuda_decide_activation(b, images);
    cuda_decide_activation(b, sequences);
    cuda_decide_plain(positions);
    if (first->desc.rank) cuda_decide_plain(first);
}

static TokensPass make_pass(const OpInstance *op, const OpTensor *images, const OpTensor *sequences)
{
    const CudaView v = cuda_view(cuda_backend(op), sequences);
    return (TokensPass){ .dtype = v.dtype,
                         .n = v.n,
                         .length = v.h * v.w,
                         .pixels = images->desc.dims[2] * images->desc.dims[3],
                         .c = (int)v.c,
                         .vectors = (int)v.vectors,
                         .accumulate = op->accumulate };
}

static Status prepare_tokens(OpInstance *op)
{
    decide_tokens(op, &op->in[TOKENS_IN_X], &op->out[TOKENS_OUT_Y], &op->in[TOKENS_IN_POSITIONS],
                  &op->in[TOKENS_IN_CLASS]);
    return OK;
}

static Status run_tokens(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[TOKENS_IN_X], *y = &op->out[TOKENS_OUT_Y];
    TokensPass p = make_pass(op, x, y);
    p.positions = op->in[TOKENS_IN_POSITIONS].data;
    p.class_token = op->in[TOKENS_IN_CLASS].data;
    return CUDA_STATUS(cuda_launch_tokens(&p, x->data, y->data, stream->stream));
}

static Status prepare_bwd(OpInstance *op)
{
    decide_tokens(op, &op->out[TOKENS_BWD_OUT_DX], &op->in[TOKENS_BWD_IN_DY],
                  &op->out[TOKENS_BWD_OUT_DPOSITIONS], &op->out[TOKENS_BWD_OUT_DCLASS]);
    return OK;
}

static Status run_tokens_bwd(OpInstance *op, Stream *stream)
{
    const OpTensor *dy = &op->in[TOKENS_BWD_IN_DY], *dx = &op->out[TOKENS_BWD_OUT_DX];
    TokensPass p = make_pass(op, dx, dy);
    p.dpositions = op->out[TOKENS_BWD_OUT_DPOSITIONS].data;
    p.dclass = op->out[TOKENS_BWD_OUT_DCLASS].data;
    return CUDA_STATUS(cuda_launch_tokens_bwd(&p, dy->data, dx->data, stream->stream));
}

CUDA_UNBOUND(cuda_tokens, "tokens", prepare_tokens, run_tokens);
CUDA_UNBOUND(cuda_tokens_bwd, "tokens", prepare_bwd, run_tokens_bwd);
