/* pick.c - single places of a canvas as rows, and back, on the device. dy may be f32 rows. */
#include "kernels/cuda/pick.h"
#include "kernels/cuda/cuda.h"

static PickPass make_pass(const OpInstance *op, const OpTensor *canvas)
{
    const CudaView v = cuda_view(cuda_backend(op), canvas);
    return (PickPass){ .dtype = v.dtype,
                       .places = v.rows,
                       .count = ((const PickAttr *)op->attr)->count,
                       .cp = v.cp,
                       .vectors = v.vectors,
                       .rows = op->in[PICK_IN_ROWS].data };
}

static Status prepare_pick(OpInstance *op)
{
    cuda_decide_activation(cuda_backend(op), &op->in[PICK_IN_X]);
    cuda_decide_plain(&op->in[PICK_IN_ROWS]);
    cuda_decide_activation(cuda_backend(op), &op->out[PICK_OUT_Y]);
    return OK;
}

static Status run_pick(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[PICK_IN_X];
    const PickPass p = make_pass(op, x);
    return CUDA_STATUS(cuda_launch_pick(&p, x->data, op->out[PICK_OUT_Y].data, stream->stream));
}

_Static_assert((int)PICK_IN_ROWS == (int)PICK_BWD_IN_ROWS, "make_pass() takes these as one");

static Status prepare_bwd(OpInstance *op)
{
    OpTensor *dy = &op->in[PICK_BWD_IN_DY];
    if (!dy->bytes) cuda_decide_activation(cuda_backend(op), dy);
    cuda_decide_plain(&op->in[PICK_BWD_IN_ROWS]);
    cuda_decide_activation(cuda_backend(op), &op->out[PICK_BWD_OUT_DX]);
    return OK;
}

static Status run_pick_bwd(OpInstance *op, Stream *stream)
{
    const OpTensor *dy = &op->in[PICK_BWD_IN_DY], *dx = &op->out[PICK_BWD_OUT_DX];
    const PickPass p = make_pass(op, dx);
    return CUDA_STATUS(
        cuda_launch_pick_bwd(&p, dy->data, dy->layout->dtype, dx->data, stream->stream));
}

CUDA_UNBOUND(cuda_pick, "pick", prepare_pick, run_pick);
CUDA_UNBOUND(cuda_pick_bwd, "pick", prepare_bwd, run_pick_bwd);
