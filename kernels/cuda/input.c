/* input.c - images u8 N,H,W,C to the network's first activation. See input.cu. */
#include "kernels/cuda/input.h"
#include "kernels/cuda/cuda.h"

static Status input_prepare(OpInstance *op)
{
    const TensorDesc *images = &op->in[INPUT_IN_IMAGES].desc;
    if (images->rank != 4 || images->dims[3] > OP_MAX_IMAGE_CHANNELS)
        return fail(ERR_INTERNAL, "input: images must be N,H,W,C with at most %d channels",
                    OP_MAX_IMAGE_CHANNELS);
    for (int i = INPUT_IN_IMAGES; i <= INPUT_IN_MIX; i++)
        if (op->in[i].desc.rank != 0) cuda_decide_plain(&op->in[i]);
    cuda_decide_activation(cuda_backend(op), &op->out[INPUT_OUT_X]);
    return OK;
}

static Status input_run(OpInstance *op, Stream *stream)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->out[INPUT_OUT_X];
    CudaView v = cuda_view(b, x);
    const InputAttr *attr = op->attr;
    const int64_t *images = op->in[INPUT_IN_IMAGES].desc.dims;
    if (attr->views > VIEWS_ONE || op->in[INPUT_IN_ERASE].desc.rank != 0 ||
        op->in[INPUT_IN_MIX].desc.rank != 0) {
        const InputAugment t = { .attr = *attr,
                                 .images = op->in[INPUT_IN_IMAGES].data,
                                 .boxes = op->in[INPUT_IN_ERASE].data,
                                 .mix = op->in[INPUT_IN_MIX].data,
                                 .n = images[0],
                                 .h = (int)images[1],
                                 .w = (int)images[2],
                                 .views = op_input_views(attr->views) };
        TRY_CUDA(cuda_launch_input_augmented(&t, x->data, v.dtype, (int)v.c, (int)v.cp, b->sm_count,
                                             stream->stream));
        return OK;
    }
    return CUDA_STATUS(cuda_launch_input(op->in[INPUT_IN_IMAGES].data, op->attr, x->data, v.dtype,
                                         v.rows, (int)v.c, (int)v.cp, b->sm_count, stream->stream));
}

CUDA_UNBOUND(cuda_input, "input:table", input_prepare, input_run);
