/* softmax_xent.c - the loss on the device. See softmax_xent.cu.
 *
 * Logits are read in the type they have: f32 from a linear layer. Their gradient is of the compute
 * type, which is what the gradients of that layer read. */
#include "kernels/cuda/softmax_xent.h"
#include "kernels/cuda/cuda.h"

static Status softmax_xent_prepare(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *logits = &op->in[XENT_IN_LOGITS], *dlogits = &op->out[XENT_OUT_DLOGITS];
    if (logits->bytes == 0) cuda_decide(b, logits, CUDA_ROWS, DTYPE_F32);
    if (logits->desc.dims[1] > INT32_MAX / 2)
        return fail(ERR_INTERNAL, "softmax_xent: %lld classes are too many",
                    (long long)logits->desc.dims[1]);
    OpTensor *teacher = &op->in[XENT_IN_TEACHER];
    if (teacher->desc.rank != 0 && teacher->bytes == 0)
        cuda_decide(b, teacher, CUDA_ROWS, DTYPE_F32);
    for (int i = XENT_IN_LABELS; i <= XENT_IN_TARGETS; i++)
        if (op->in[i].desc.rank != 0) cuda_decide_plain(&op->in[i]);
    cuda_decide_plain(&op->out[XENT_OUT_STATS]);
    if (dlogits->desc.rank != 0 && dlogits->bytes == 0) cuda_decide_activation(b, dlogits);
    op->workspace_bytes = (size_t)logits->desc.dims[0] * STATS_COUNT * sizeof(double);
    return OK;
}

static Status softmax_xent_run(OpInstance *op, Stream *stream)
{
    const XentAttr *attr = op->attr;
    const OpTensor *logits = &op->in[XENT_IN_LOGITS], *dlogits = &op->out[XENT_OUT_DLOGITS];
    CudaView v = cuda_view(cuda_backend(op), logits);
    const int views = op_input_views(attr->views);
    const OpTensor *teacher = &op->in[XENT_IN_TEACHER];
    const CudaView its = teacher->data ? cuda_view(cuda_backend(op), teacher) : v;
    const XentPass pass = { .rows = v.rows / views,
                            .views = views,
                            .c = (int)v.c,
                            .cp = (int)v.cp,
                            .logits_type = v.dtype,
                            .dlogits_type = dlogits->layout ? dlogits->layout->dtype : v.dtype,
                            .attr = *attr,
                            .class_weights = op->in[XENT_IN_CLASS_WEIGHTS].data,
                            .teacher = teacher->data,
                            .teacher_type = its.dtype,
                            .teacher_cp = (int)its.cp,
                            .smoothing = attr->label_smoothing,
                            .even = (double)attr->label_smoothing / (double)v.c,
                            .logits = logits->data,
                            .labels = op->in[XENT_IN_LABELS].data,
                            .targets = op->in[XENT_IN_TARGETS].data,
                            .scalars = op->in[XENT_IN_SCALARS].data,
                            .loss_scale = op->in[XENT_IN_LOSS_SCALE].data,
                            .mix = op->in[XENT_IN_MIX].data,
                            .dlogits = dlogits->data,
                            .row_stats = op->workspace,
                            .stats = op->out[XENT_OUT_STATS].data };
    return CUDA_STATUS(cuda_launch_softmax_xent(&pass, stream->stream));
}

CUDA_UNBOUND(cuda_softmax_xent, "softmax_xent:warp rows", softmax_xent_prepare, softmax_xent_run);
