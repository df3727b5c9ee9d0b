/* loss_scale.c - the dynamic loss scale on the device: nobody waits for its verdict, the update
 * reads it there. */
#include "kernels/cuda/loss_scale.h"
#include "kernels/cuda/cuda.h"

static Status finite_check_run(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[FINITE_CHECK_IN_X];
    return CUDA_STATUS(cuda_launch_loss_scale_check_finite(
        x->data, (int64_t)(x->bytes / sizeof(float)), op->in[FINITE_CHECK_IN_LOSS_SCALE].data,
        cuda_backend(op)->sm_count, stream->stream));
}

static Status loss_scale_run(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(
        cuda_launch_loss_scale(op->attr, op->in[LOSS_SCALE_IN_STATE].data, stream->stream));
}

CUDA_UNBOUND(cuda_finite_check, "finite_check:flat", cuda_prepare_plain, finite_check_run);
CUDA_UNBOUND(cuda_loss_scale, "loss_scale:one thread", cuda_prepare_plain, loss_scale_run);
