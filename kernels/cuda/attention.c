/* attention.c - multi-head attention and its gradient on the device: which tensors, of which type.
 * All but lse are of the compute type. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda.h"
#include "kernels/ops/attention.h"
#include <inttypes.h>

static Status decide(OpInstance *op, OpTensor *qkv, OpTensor *y, OpTensor *lse, OpTensor *scalars)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionSizes z = attention_sizes(op->attr, &qkv->desc);
    if (z.length > INT32_MAX / 2 || z.n * z.heads * (z.length / 16 + 1) > INT32_MAX)
        return fail(ERR_USAGE,
                    "attention of %" PRId64 " sequences of %" PRId64 " positions: too large", z.n,
                    z.length);
    cuda_decide_activation(b, qkv);
    cuda_decide_activation(b, y);
    if (lse->desc.rank) cuda_decide_plain(lse);
    if (scalars->desc.rank) cuda_decide_plain(scalars);
    op->implementation = "attention_tiles";
    return OK;
}

static AttentionPass make_pass(const OpInstance *op, const OpTensor *qkv, const OpTensor *y,
                               const OpTensor *lse, const OpTensor *scalars)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionAttr *a = op->attr;
    const AttentionSizes z = attention_sizes(a, &qkv->desc);
    return (AttentionPass){ .drop = a->drop,
                            .dtype = b->compute,
                            .n = (int)z.n,
                            .heads = a->heads,
                            .length = (int)z.length,
                            .width = (int)z.width,
                            .qkv_cp = (int)cuda_view(b, qkv).cp,
                            .y_cp = (int)cuda_view(b, y).cp,
                            .scale = z.scale,
                            .scalars = a->drop.rate > 0 ? scalars->data : NULL,
                            .qkv = qkv->data,
                            .lse = lse->data };
}

static Status prepare(OpInstance *op)
{
    return decide(op, &op->in[ATTENTION_IN_QKV], &op->out[ATTENTION_OUT_Y],
                  &op->out[ATTENTION_OUT_LSE], &op->in[ATTENTION_IN_SCALARS]);
}

static Status run(OpInstance *op, Stream *stream)
{
    const OpTensor *y = &op->out[ATTENTION_OUT_Y];
    AttentionPass p = make_pass(op, &op->in[ATTENTION_IN_QKV], y, &op->out[ATTENTION_OUT_LSE],
                                &op->in[ATTENTION_IN_SCALARS]);
    p.y = y->data;
    return CUDA_STATUS(cuda_launch_attention(&p, stream->stream));
}

static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *lse = &op->in[ATTENTION_BWD_IN_LSE];
    TRY(decide(op, &op->in[ATTENTION_BWD_IN_QKV], &op->in[ATTENTION_BWD_IN_Y], lse,
               &op->in[ATTENTION_BWD_IN_SCALARS]));
    cuda_decide_activation(b, &op->in[ATTENTION_BWD_IN_DY]);
    cuda_decide_activation(b, &op->out[ATTENTION_BWD_OUT_DQKV]);
    op->workspace_bytes = lse->bytes;
    return OK;
}

static Status run_bwd(OpInstance *op, Stream *stream)
{
    AttentionPass p = make_pass(op, &op->in[ATTENTION_BWD_IN_QKV], &op->in[ATTENTION_BWD_IN_Y],
                                &op->in[ATTENTION_BWD_IN_LSE], &op->in[ATTENTION_BWD_IN_SCALARS]);
    p.dy = op->in[ATTENTION_BWD_IN_DY].data;
    p.made = op->in[ATTENTION_BWD_IN_Y].data;
    p.dqkv = op->out[ATTENTION_BWD_OUT_DQKV].data;
    p.inner = op->workspace;
    return CUDA_STATUS(cuda_launch_attention(&p, stream->stream));
}

const OpImpl cuda_attention = { prepare, cuda_bind_nothing, run, NULL };
const OpImpl cuda_attention_bwd = { prepare_bwd, cuda_bind_nothing, run_bwd, NULL };
