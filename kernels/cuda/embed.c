/* embed.c - words to a canvas on the device, and the gradients of the tables. Tables lie as the
 * weights of a linear layer do, since a head may multiply by the words'. */
#include "kernels/cuda/embed.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/linear.h"

static void decide_table(const OpInstance *op, OpTensor *t)
{
    if (t->desc.rank) cuda_decide(cuda_backend(op), t, CUDA_MATRIX, DTYPE_F32);
}

static void decide_indices(OpInstance *op, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (op->in[i].desc.rank) cuda_decide_plain(&op->in[i]);
}

static EmbedPass make_pass(const OpInstance *op, const OpTensor *canvas)
{
    const CudaView v = cuda_view(cuda_backend(op), canvas);
    return (EmbedPass){ .dtype = v.dtype,
                        .places = v.rows,
                        .cp = v.cp,
                        .vectors = v.vectors,
                        .offset = ((const EmbedAttr *)op->attr)->offset,
                        .adds = op->accumulate };
}

static Status prepare_embed(OpInstance *op)
{
    for (int i = EMBED_IN_WORDS; i <= EMBED_IN_SEGMENTS; i++) decide_table(op, &op->in[i]);
    decide_indices(op, EMBED_IN_IDS, EMBED_IN_SEGMENT_IDS);
    cuda_decide_activation(cuda_backend(op), &op->out[EMBED_OUT_Y]);
    return OK;
}

static Status run_embed(OpInstance *op, Stream *stream)
{
    const OpTensor *y = &op->out[EMBED_OUT_Y];
    EmbedPass p = make_pass(op, y);
    p.ids = op->in[EMBED_IN_IDS].data;
    p.where = op->in[EMBED_IN_WHERE].data;
    p.segment_ids = op->in[EMBED_IN_SEGMENT_IDS].data;
    return CUDA_STATUS(cuda_launch_embed(&p, op->in[EMBED_IN_WORDS].data,
                                         op->in[EMBED_IN_POSITIONS].data,
                                         op->in[EMBED_IN_SEGMENTS].data, y->data, stream->stream));
}

static int64_t segment_parts(int64_t places)
{
    return (places + EMBED_PART_PLACES - 1) / EMBED_PART_PLACES;
}

static Status prepare_bwd(OpInstance *op)
{
    OpTensor *dy = &op->in[EMBED_BWD_IN_DY];
    cuda_decide_activation(cuda_backend(op), dy);
    decide_indices(op, EMBED_BWD_IN_IDS, EMBED_BWD_IN_SEGMENT_IDS);
    decide_table(op, &op->in[EMBED_BWD_IN_SO_FAR]);
    for (int i = 0; i <= EMBED_BWD_OUT_DSEGMENTS; i++) decide_table(op, &op->out[i]);
    if (op->out[EMBED_BWD_OUT_DSEGMENTS].desc.rank)
        op->workspace_bytes =
            (size_t)segment_parts(dy->desc.dims[2]) * op->out[EMBED_BWD_OUT_DSEGMENTS].bytes;
    return OK;
}

static Status run_embed_bwd(OpInstance *op, Stream *stream)
{
    const CudaBackend *b = cuda_backend(op);
    const OpTensor *dy = &op->in[EMBED_BWD_IN_DY], *starts = &op->in[EMBED_BWD_IN_STARTS],
                   *so_far = &op->in[EMBED_BWD_IN_SO_FAR], *dwords = &op->out[EMBED_BWD_OUT_DWORDS],
                   *dpositions = &op->out[EMBED_BWD_OUT_DPOSITIONS],
                   *dsegments = &op->out[EMBED_BWD_OUT_DSEGMENTS];
    const bool has_segments = dsegments->desc.rank > 0, tied = so_far->desc.rank > 0;
    EmbedPass p = make_pass(op, dy);
    p.ids = op->in[EMBED_BWD_IN_IDS].data;
    p.order = op->in[EMBED_BWD_IN_ORDER].data;
    p.starts = starts->data;
    p.segment_ids = op->in[EMBED_BWD_IN_SEGMENT_IDS].data;
    p.sequences = starts->desc.dims[0] - 1;
    p.position_rows = cuda_padded(b, dpositions->desc.dims[0]);
    p.segment_rows = has_segments ? cuda_padded(b, dsegments->desc.dims[0]) : 0;
    const EmbedSums to = { .words = tied ? so_far->data : dwords->data,
                           .adds_words = tied || op->accumulate,
                           .positions = dpositions->data,
                           .segments = has_segments ? op->workspace : NULL };
    if (to.words && !to.adds_words)
        TRY_CUDA(cudaMemsetAsync(dwords->data, 0, dwords->bytes, stream->stream));
    TRY_CUDA(cuda_launch_embed_bwd(&p, dy->data, &to, stream->stream));
    if (!has_segments) return OK;
    return CUDA_STATUS(cuda_launch_linear_bias_gradient(
        op->workspace, DTYPE_F32, dsegments->data, segment_parts(p.places), p.segment_rows * p.cp,
        op->accumulate, stream->stream));
}

CUDA_UNBOUND(cuda_embed, "embed", prepare_embed, run_embed);
CUDA_UNBOUND(cuda_embed_bwd, "embed", prepare_bwd, run_embed_bwd);
