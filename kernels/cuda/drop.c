/* drop.c - dropout and stochastic depth on the device: which tensors, of which type. All lie as x
 * does; a residual of another type is cast into the workspace first. */
#include "kernels/cuda/drop.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda.h"

/* x decides where it is undecided; residual and y follow it. */
static Status prepare_all(OpInstance *op, OpTensor *x, OpTensor *scalars, OpTensor *residual,
                          OpTensor *where, OpTensor *y)
{
    const CudaBackend *b = cuda_backend(op);
    if (!x->bytes) cuda_decide_activation(b, x);
    const CudaFormat format = x->desc.rank == 4 ? CUDA_NHWC : CUDA_ROWS;
    op->workspace_bytes = 0;
    cuda_decide_plain(scalars);
    if (where->desc.rank != 0) cuda_decide_plain(where);
    if (residual && residual->desc.rank != 0) {
        if (!residual->bytes) cuda_decide(b, residual, format, x->layout->dtype);
        if (residual->layout->dtype != x->layout->dtype) op->workspace_bytes = x->bytes;
    }
    cuda_decide(b, y, format, x->layout->dtype);
    return OK;
}

static Status prepare_drop(OpInstance *op)
{
    return prepare_all(op, &op->in[DROP_IN_X], &op->in[DROP_IN_SCALARS], &op->in[DROP_IN_RESIDUAL],
                       &op->in[DROP_IN_WHERE], &op->out[DROP_OUT_Y]);
}

static Status prepare_bwd(OpInstance *op)
{
    return prepare_all(op, &op->in[DROP_BWD_IN_DY], &op->in[DROP_BWD_IN_SCALARS], NULL,
                       &op->in[DROP_BWD_IN_WHERE], &op->out[DROP_BWD_OUT_DX]);
}

static Status launch_drop(OpInstance *op, const OpTensor *x, const float *scalars,
                          const void *residual, const int32_t *where, void *y, Stream *stream)
{
    const CudaView v = cuda_view(cuda_backend(op), x);
    const DropPass p = { .attr = *(const DropAttr *)op->attr,
                         .dtype = v.dtype,
                         .images = v.n,
                         .vectors = v.vectors,
                         .positions = v.h * v.w,
                         .channels = v.c,
                         .scalars = scalars,
                         .where = where,
                         .x = x->data,
                         .residual = residual,
                         .y = y };
    return CUDA_STATUS(cuda_launch_drop(&p, stream->stream));
}

static Status run_drop(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[DROP_IN_X], *residual = &op->in[DROP_IN_RESIDUAL];
    const void *rest = residual->data;
    if (op->workspace_bytes) {
        const CudaView v = cuda_view(cuda_backend(op), residual);
        rest = op->workspace;
        TRY_CUDA(cuda_launch_cast(residual->data, v.dtype, op->workspace, x->layout->dtype,
                                  v.rows * v.cp, stream->stream));
    }
    return launch_drop(op, x, op->in[DROP_IN_SCALARS].data, rest, op->in[DROP_IN_WHERE].data,
                       op->out[DROP_OUT_Y].data, stream);
}

static Status run_drop_bwd(OpInstance *op, Stream *stream)
{
    return launch_drop(op, &op->in[DROP_BWD_IN_DY], op->in[DROP_BWD_IN_SCALARS].data, NULL,
                       op->in[DROP_BWD_IN_WHERE].data, op->out[DROP_BWD_OUT_DX].data, stream);
}

CUDA_UNBOUND(cuda_drop, "drop", prepare_drop, run_drop);
CUDA_UNBOUND(cuda_drop_bwd, "drop", prepare_bwd, run_drop_bwd);
