/* grn.c - global response normalisation on the device: how its kernels are spread over it. */
#include "kernels/cuda/grn.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.h"

enum { BLOCKS_PER_SM = 6, MAX_GRID_Y = 65535 };

typedef struct State {
    GrnShape shape;
    size_t partials, factors, gradients; /* in the workspace */
} State;

/* Enough blocks to fill the device: an image's rows are shared by several where there are few
 * images. */
static Status make_shape(OpInstance *op, const OpTensor *x, int sums)
{
    const CudaBackend *b = cuda_backend(op);
    const CudaView v = cuda_view(b, x);
    const LayerNormAttr *attr = op->attr;
    const int64_t rows = v.h * v.w;
    RowGrid grid; /* of one image's rows in one block */
    State *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    if (v.n > INT32_MAX / 2 || !row_grid_make(&grid, rows, v.vectors, 1, 1))
        return fail(ERR_USAGE, "normalisation over %lldx%lld pixels of %lld channels: too large",
                    (long long)v.h, (long long)v.w, (long long)v.c);
    const int64_t depth = ROWS_THREADS >> grid.lanes_log2,
                  feedable = rows / (depth * ROWS_MIN_PER_THREAD);
    int64_t splits = (int64_t)b->sm_count * BLOCKS_PER_SM / (grid.tiles * v.n);
    if (splits > feedable) splits = feedable;
    if (splits > MAX_GRID_Y) splits = MAX_GRID_Y;
    s->shape = (GrnShape){ .dtype = v.dtype,
                           .n = (int)v.n,
                           .rows = (int)rows,
                           .c = (int)v.c,
                           .vectors = (int)v.vectors,
                           .cp = (int)v.cp,
                           .lanes_log2 = grid.lanes_log2,
                           .tiles = grid.tiles,
                           .splits = splits < 1 ? 1 : (int)splits,
                           .eps = attr->eps };
    const size_t each = (size_t)v.n * (size_t)v.cp * sizeof(float);
    op->workspace_bytes = 0;
    s->partials = cuda_take_workspace(op, (size_t)sums * (size_t)s->shape.splits * each);
    s->factors = cuda_take_workspace(op, GRN_FACTORS * each);
    if (sums > 1) s->gradients = cuda_take_workspace(op, GRN_GRADIENTS * each);
    return OK;
}

static GrnSpace space_of(const OpInstance *op)
{
    const State *s = op->state;
    return (GrnSpace){ .partials = cuda_workspace(op, s->partials),
                       .factors = cuda_workspace(op, s->factors),
                       .gradients = cuda_workspace(op, s->gradients) };
}

static Status prepare_grn(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    cuda_decide_activation(b, &op->in[LAYERNORM_IN_X]);
    cuda_decide_activation(b, &op->out[LAYERNORM_OUT_Y]);
    cuda_decide(b, &op->in[LAYERNORM_IN_GAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->in[LAYERNORM_IN_BETA], CUDA_VECTOR, DTYPE_F32);
    return make_shape(op, &op->in[LAYERNORM_IN_X], 1);
}

static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    cuda_decide_activation(b, &op->in[LAYERNORM_BWD_IN_DY]);
    cuda_decide_activation(b, &op->in[LAYERNORM_BWD_IN_X]);
    cuda_decide_activation(b, &op->out[LAYERNORM_BWD_OUT_DX]);
    cuda_decide(b, &op->in[LAYERNORM_BWD_IN_GAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->out[LAYERNORM_BWD_OUT_DGAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->out[LAYERNORM_BWD_OUT_DBETA], CUDA_VECTOR, DTYPE_F32);
    return make_shape(op, &op->in[LAYERNORM_BWD_IN_X], GRN_SUMS);
}

static Status run_grn(OpInstance *op, Stream *stream)
{
    const State *s = op->state;
    const GrnSpace space = space_of(op);
    return CUDA_STATUS(cuda_launch_grn(
        &s->shape, op->in[LAYERNORM_IN_X].data, op->in[LAYERNORM_IN_GAMMA].data,
        op->in[LAYERNORM_IN_BETA].data, op->out[LAYERNORM_OUT_Y].data, &space, stream->stream));
}

static Status run_grn_bwd(OpInstance *op, Stream *stream)
{
    const State *s = op->state;
    const GrnShape *k = &s->shape;
    const GrnSpace space = space_of(op);
    TRY_CUDA(cuda_launch_grn_bwd(k, op->in[LAYERNORM_BWD_IN_DY].data,
                                 op->in[LAYERNORM_BWD_IN_X].data,
                                 op->in[LAYERNORM_BWD_IN_GAMMA].data,
                                 op->out[LAYERNORM_BWD_OUT_DX].data, &space, stream->stream));
    TRY_CUDA(cuda_launch_linear_bias_gradient(space.gradients, DTYPE_F32,
                                              op->out[LAYERNORM_BWD_OUT_DGAMMA].data, k->n, k->cp,
                                              op->accumulate, stream->stream));
    return CUDA_STATUS(cuda_launch_linear_bias_gradient(
        space.gradients + (int64_t)k->n * k->cp, DTYPE_F32, op->out[LAYERNORM_BWD_OUT_DBETA].data,
        k->n, k->cp, op->accumulate, stream->stream));
}

CUDA_UNBOUND(cuda_grn, "grn_nhwc", prepare_grn, run_grn);
CUDA_UNBOUND(cuda_grn_bwd, "grn_nhwc", prepare_bwd, run_grn_bwd);
