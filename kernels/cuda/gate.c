/* gate.c - y[n,c,h,w] = x[n,c,h,w] sigmoid(g[n,c]) and its gradient on the device. g may be f32
 * rows; dg lies as g. */
#include "kernels/cuda/gate.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/rows.h"
#include <inttypes.h>

enum { BLOCKS_PER_SM = 6, MAX_GRID_Y = 65535 };

/* Enough blocks to fill the device: an image's rows are shared by several where there are few
 * images. */
static Status make_shape(OpInstance *op, const OpTensor *x, const OpTensor *g)
{
    const CudaBackend *b = cuda_backend(op);
    const CudaView v = cuda_view(b, x);
    const int64_t rows = v.h * v.w;
    GateShape *k = op->state = mem_calloc(1, sizeof *k);
    const GateAttr *attr = op->attr;
    RowGrid grid; /* of one image's rows in one block */
    if (!k) return ERR_MEMORY;
    if (v.n > INT32_MAX / 2 || !row_grid_make(&grid, rows, v.vectors, 1, 1))
        return fail(ERR_USAGE,
                    "gate over %" PRId64 "x%" PRId64 " pixels of %" PRId64 " channels: too large",
                    v.h, v.w, v.c);
    const int64_t depth = ROWS_THREADS >> grid.lanes_log2,
                  feedable = rows / (depth * ROWS_MIN_PER_THREAD);
    int64_t splits = (int64_t)b->sm_count * BLOCKS_PER_SM / (grid.tiles * v.n);
    if (splits > feedable) splits = feedable;
    *k = (GateShape){ .dtype = v.dtype,
                      .g_type = g->layout->dtype,
                      .n = (int)v.n,
                      .rows = (int)rows,
                      .vectors = (int)v.vectors,
                      .cp = (int)v.cp,
                      .hard = attr->hard,
                      .lanes_log2 = grid.lanes_log2,
                      .tiles = grid.tiles,
                      .splits = (int)(splits < 1            ? 1
                                      : splits > MAX_GRID_Y ? MAX_GRID_Y
                                                            : splits) };
    return OK;
}

static Status prepare_gate(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    if (!op->in[GATE_IN_G].bytes) cuda_decide_activation(b, &op->in[GATE_IN_G]);
    cuda_decide_activation(b, &op->in[GATE_IN_X]);
    cuda_decide_activation(b, &op->out[GATE_OUT_Y]);
    return make_shape(op, &op->in[GATE_IN_X], &op->in[GATE_IN_G]);
}

static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *g = &op->in[GATE_BWD_IN_G];
    if (!g->bytes) cuda_decide_activation(b, g);
    cuda_decide_activation(b, &op->in[GATE_BWD_IN_DY]);
    cuda_decide_activation(b, &op->in[GATE_BWD_IN_X]);
    cuda_decide_activation(b, &op->out[GATE_BWD_OUT_DX]);
    cuda_decide(b, &op->out[GATE_BWD_OUT_DG], CUDA_ROWS, g->layout->dtype);
    TRY(make_shape(op, &op->in[GATE_BWD_IN_X], g));
    const GateShape *k = op->state;
    op->workspace_bytes = (size_t)k->n * (size_t)k->splits * (size_t)k->cp * sizeof(float);
    return OK;
}

static Status run_gate(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_gate(op->state, op->in[GATE_IN_X].data, op->in[GATE_IN_G].data,
                                        op->out[GATE_OUT_Y].data, stream->stream));
}

static Status run_gate_bwd(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(
        cuda_launch_gate_bwd(op->state, op->in[GATE_BWD_IN_DY].data, op->in[GATE_BWD_IN_X].data,
                             op->in[GATE_BWD_IN_G].data, op->out[GATE_BWD_OUT_DX].data,
                             op->out[GATE_BWD_OUT_DG].data, op->workspace, stream->stream));
}

CUDA_UNBOUND(cuda_gate, "gate_nhwc", prepare_gate, run_gate);
CUDA_UNBOUND(cuda_gate_bwd, "gate_nhwc", prepare_bwd, run_gate_bwd);
