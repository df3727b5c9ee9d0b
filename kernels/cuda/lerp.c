/* lerp.c - averaged copies of weights on the device: a recorded step reads there how far they move,
 * and where x are the parameters, their compute copies are written in the same pass. */
#include "kernels/cuda/lerp.h"
#include "kernels/cuda/cuda.h"

static Status lerp_run(OpInstance *op, Stream *stream)
{
    const CudaBackend *b = cuda_backend(op);
    const LerpAttr *attr = op->attr;
    const OpTensor *x = &op->in[LERP_IN_X];
    LerpPass pass = { .attr = *attr,
                      .average = op->in[LERP_IN_AVERAGE].data,
                      .x = x->data,
                      .scalars = op->in[LERP_IN_SCALARS].data,
                      .loss_scale = op->in[LERP_IN_LOSS_SCALE].data,
                      .copy_type = b->compute,
                      .count = x->desc.dims[0] };
    if (attr->mode != LERP_FOLLOW) pass.copies = cuda_param_copies(b, x);
    return CUDA_STATUS(cuda_launch_lerp(&pass, stream->stream));
}

CUDA_UNBOUND(cuda_lerp, "lerp:flat", cuda_prepare_plain, lerp_run);
