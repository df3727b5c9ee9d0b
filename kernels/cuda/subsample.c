/* subsample.c - y[n,c,p,q] = x[n,c,p*stride,q*stride] with zero for the channels that y has more,
 * and its gradient, on the device. */
#include "kernels/cuda/subsample.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include <inttypes.h>

/* Both kinds have one input and one output, in slot 0. */
static Status prepare_pair(OpInstance *op, const OpTensor *large, const OpTensor *small)
{
    const SubsampleAttr *a = op->attr;
    cuda_decide_activation(cuda_backend(op), &op->in[0]);
    cuda_decide_activation(cuda_backend(op), &op->out[0]);
    const CudaView l = cuda_view(cuda_backend(op), large), s = cuda_view(cuda_backend(op), small);
    const int64_t most = l.cp > s.cp ? l.cp : s.cp;
    if (l.h * l.w > INT32_MAX / 2 / most || l.n > INT32_MAX / 2)
        return fail(ERR_USAGE,
                    "subsampling of %" PRId64 "x%" PRId64 " pixels of %" PRId64
                    " channels: too large",
                    l.h, l.w, most);
    SubsampleShape *k = op->state = mem_calloc(1, sizeof *k);
    if (!k) return ERR_MEMORY;
    *k = (SubsampleShape){ .n = (int)l.n,
                           .h = (int)l.h,
                           .w = (int)l.w,
                           .p = (int)s.h,
                           .q = (int)s.w,
                           .stride = a->stride,
                           .large_vectors = (int)l.vectors,
                           .small_vectors = (int)s.vectors,
                           .channel_bytes = (int)(l.c * (int64_t)dtype_bytes(l.dtype)) };
    k->by_large_vectors = fast_div_make((uint32_t)k->large_vectors);
    k->by_small_vectors = fast_div_make((uint32_t)k->small_vectors);
    k->by_w = fast_div_make((uint32_t)k->w);
    k->by_q = fast_div_make((uint32_t)k->q);
    k->by_stride = fast_div_make((uint32_t)k->stride);
    return OK;
}

static Status prepare_subsample(OpInstance *op)
{
    return prepare_pair(op, &op->in[SUBSAMPLE_IN_X], &op->out[SUBSAMPLE_OUT_Y]);
}

static Status prepare_bwd(OpInstance *op)
{
    return prepare_pair(op, &op->out[SUBSAMPLE_BWD_OUT_DX], &op->in[SUBSAMPLE_BWD_IN_DY]);
}

static Status run_subsample(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_subsample(op->state, op->in[SUBSAMPLE_IN_X].data,
                                             op->out[SUBSAMPLE_OUT_Y].data, stream->stream));
}

static Status run_subsample_bwd(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_subsample_bwd(op->state, op->in[SUBSAMPLE_BWD_IN_DY].data,
                                                 op->out[SUBSAMPLE_BWD_OUT_DX].data,
                                                 stream->stream));
}

CUDA_UNBOUND(cuda_subsample, "copy_nhwc", prepare_subsample, run_subsample);
CUDA_UNBOUND(cuda_subsample_bwd, "copy_nhwc", prepare_bwd, run_subsample_bwd);
