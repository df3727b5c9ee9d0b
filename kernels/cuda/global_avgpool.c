/* global_avgpool.c - the mean over the image, N,C,H,W -> N,C, and its gradient on the device. dy
 * may be f32 rows. */
#include "kernels/cuda/global_avgpool.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include <inttypes.h>

/* x: x or dx, decided */
static Status make_shape(OpInstance *op, const OpTensor *x)
{
    const CudaView v = cuda_view(cuda_backend(op), x);
    AvgpoolShape *k = op->state = mem_calloc(1, sizeof *k);
    if (!k) return ERR_MEMORY;
    *k = (AvgpoolShape){ .dtype = v.dtype, .n = (int)v.n, .share = 1.0f / (float)(v.h * v.w) };
    /* one block for all the rows of an image: as if there were one multiprocessor with one block */
    if (!row_grid_make(&k->grid, v.h * v.w, v.vectors, 1, 1) || v.n > INT32_MAX / 2)
        return fail(ERR_USAGE,
                    "average over %" PRId64 "x%" PRId64 " pixels of %" PRId64
                    " channels: too large",
                    v.h, v.w, v.c);
    return OK;
}

static Status prepare_global_avgpool(OpInstance *op)
{
    cuda_decide_activation(cuda_backend(op), &op->in[GLOBAL_AVGPOOL_IN_X]);
    cuda_decide_activation(cuda_backend(op), &op->out[GLOBAL_AVGPOOL_OUT_Y]);
    return make_shape(op, &op->in[GLOBAL_AVGPOOL_IN_X]);
}

static Status prepare_bwd(OpInstance *op)
{
    OpTensor *dy = &op->in[GLOBAL_AVGPOOL_BWD_IN_DY];
    if (!dy->bytes) cuda_decide_activation(cuda_backend(op), dy);
    cuda_decide_activation(cuda_backend(op), &op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
    return make_shape(op, &op->out[GLOBAL_AVGPOOL_BWD_OUT_DX]);
}

static Status run_global_avgpool(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_global_avgpool(op->state, op->in[GLOBAL_AVGPOOL_IN_X].data,
                                                  op->out[GLOBAL_AVGPOOL_OUT_Y].data,
                                                  stream->stream));
}

static Status run_global_avgpool_bwd(OpInstance *op, Stream *stream)
{
    const OpTensor *dy = &op->in[GLOBAL_AVGPOOL_BWD_IN_DY];
    return CUDA_STATUS(cuda_launch_global_avgpool_bwd(op->state, dy->data, dy->layout->dtype,
                                                      op->out[GLOBAL_AVGPOOL_BWD_OUT_DX].data,
                                                      stream->stream));
}

CUDA_UNBOUND(cuda_global_avgpool, "avgpool_nhwc", prepare_global_avgpool, run_global_avgpool);
CUDA_UNBOUND(cuda_global_avgpool_bwd, "avgpool_nhwc", prepare_bwd, run_global_avgpool_bwd);
