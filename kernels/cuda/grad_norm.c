/* grad_norm.c - the norm of all gradients on the device: nobody waits for it, the update reads its
 * factor there. */
#include "kernels/cuda/grad_norm.h"
#include "kernels/cuda/cuda.h"

static Status squares_run(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[GRAD_SQUARES_IN_X];
    return CUDA_STATUS(cuda_launch_grad_norm_squares(
        x->data, x->desc.dims[0], op->out[GRAD_SQUARES_OUT_SUMS].data, stream->stream));
}

static Status norm_run(OpInstance *op, Stream *stream)
{
    const OpTensor *sums = &op->in[GRAD_NORM_IN_SUMS];
    return CUDA_STATUS(cuda_launch_grad_norm(op->attr, sums->data, sums->desc.dims[0],
                                             op->in[GRAD_NORM_IN_LOSS_SCALE].data,
                                             op->out[GRAD_NORM_OUT_CLIP].data, stream->stream));
}

CUDA_UNBOUND(cuda_grad_squares, "grad_squares:chunks", cuda_prepare_plain, squares_run);
CUDA_UNBOUND(cuda_grad_norm, "grad_norm:one block", cuda_prepare_plain, norm_run);
