/* layernorm.c - layer norm on the device: which threads hold a row, and how many blocks. Statistics
 * are found again in backward, so forward keeps none. */
#include "kernels/cuda/layernorm.h"
#include "base/mem.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/linear.h"

enum { BLOCKS_PER_SM = 4, BACKWARD_BLOCKS_PER_SM = 2 };

typedef struct State {
    LayerNormShape shape;
    size_t partials, cast; /* in the workspace */
} State;

/* Lanes that hold `held` vectors each; 0: a block has too few. */
static int lanes_log2_for(int64_t vectors, int held)
{
    int log2 = 0;
    while ((int64_t)held << log2 < vectors) log2++;
    return 1 << log2 <= LAYERNORM_THREADS ? log2 : -1;
}

static Status make_shape(OpInstance *op, const OpTensor *x, int blocks_per_sm)
{
    const CudaBackend *b = cuda_backend(op);
    const CudaView v = cuda_view(b, x);
    const LayerNormAttr *attr = op->attr;
    State *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    const int one = lanes_log2_for(v.vectors, 1),
              more = lanes_log2_for(v.vectors, LAYERNORM_MAX_HELD);
    if (more < 0)
        return fail(ERR_USAGE, "layer norm over %lld channels: on CUDA at most %d are possible",
                    (long long)v.c, LAYERNORM_THREADS * LAYERNORM_MAX_HELD * b->pad);
    /* whatever leaves fewer registers empty */
    const bool holds_one = one >= 0 && 1 << one <= LAYERNORM_MAX_HELD << more;
    LayerNormShape *k = &s->shape;
    *k = (LayerNormShape){ .dtype = v.dtype,
                           .rows = v.rows,
                           .c = (int)v.c,
                           .vectors = (int)v.vectors,
                           .cp = (int)v.cp,
                           .lanes_log2 = holds_one ? one : more,
                           .held = holds_one ? 1 : LAYERNORM_MAX_HELD,
                           .eps = attr->eps };
    const int64_t depth = LAYERNORM_THREADS >> k->lanes_log2, most = (v.rows + depth - 1) / depth,
                  resident = (int64_t)b->sm_count * blocks_per_sm;
    k->blocks = (int)(most < resident ? most : resident);
    return OK;
}

static void decide_if_undecided(const CudaBackend *b, OpTensor *t)
{
    if (!t->bytes) cuda_decide_activation(b, t);
}

/* Lies as x. */
static void decide_like(const CudaBackend *b, OpTensor *t, const OpTensor *x)
{
    cuda_decide(b, t, x->layout->format, x->layout->dtype);
}

static Status prepare_layernorm(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->in[LAYERNORM_IN_X];
    decide_if_undecided(b, x);
    decide_like(b, &op->out[LAYERNORM_OUT_Y], x);
    cuda_decide(b, &op->in[LAYERNORM_IN_GAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->in[LAYERNORM_IN_BETA], CUDA_VECTOR, DTYPE_F32);
    return make_shape(op, x, BLOCKS_PER_SM);
}

/* dy of another type than x, which only rows are, is cast first. */
static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->in[LAYERNORM_BWD_IN_X], *dy = &op->in[LAYERNORM_BWD_IN_DY];
    decide_if_undecided(b, x);
    decide_if_undecided(b, dy);
    decide_like(b, &op->out[LAYERNORM_BWD_OUT_DX], x);
    cuda_decide(b, &op->in[LAYERNORM_BWD_IN_GAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->out[LAYERNORM_BWD_OUT_DGAMMA], CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->out[LAYERNORM_BWD_OUT_DBETA], CUDA_VECTOR, DTYPE_F32);
    TRY(make_shape(op, x, BACKWARD_BLOCKS_PER_SM));
    State *s = op->state;
    op->workspace_bytes = 0;
    s->partials =
        cuda_take_workspace(op, 2 * (size_t)s->shape.blocks * (size_t)s->shape.cp * sizeof(float));
    if (dy->layout->dtype != x->layout->dtype) s->cast = cuda_take_workspace(op, x->bytes);
    return OK;
}

static Status run_layernorm(OpInstance *op, Stream *stream)
{
    const State *s = op->state;
    return CUDA_STATUS(cuda_launch_layernorm(
        &s->shape, op->in[LAYERNORM_IN_X].data, op->in[LAYERNORM_IN_GAMMA].data,
        op->in[LAYERNORM_IN_BETA].data, op->out[LAYERNORM_OUT_Y].data, stream->stream));
}

static Status run_layernorm_bwd(OpInstance *op, Stream *stream)
{
    const State *s = op->state;
    const LayerNormShape *k = &s->shape;
    const OpTensor *dy = &op->in[LAYERNORM_BWD_IN_DY];
    float *partials = cuda_workspace(op, s->partials);
    const void *from = dy->data;
    if (dy->layout->dtype != k->dtype) {
        void *cast = cuda_workspace(op, s->cast);
        TRY_CUDA(cuda_launch_cast(dy->data, dy->layout->dtype, cast, k->dtype, k->rows * k->cp,
                                  stream->stream));
        from = cast;
    }
    TRY_CUDA(cuda_launch_layernorm_bwd(
        k, from, op->in[LAYERNORM_BWD_IN_X].data, op->in[LAYERNORM_BWD_IN_GAMMA].data,
        op->out[LAYERNORM_BWD_OUT_DX].data, partials, stream->stream));
    TRY_CUDA(cuda_launch_linear_bias_gradient(partials, DTYPE_F32,
                                              op->out[LAYERNORM_BWD_OUT_DGAMMA].data, k->blocks,
                                              k->cp, op->accumulate, stream->stream));
    return CUDA_STATUS(cuda_launch_linear_bias_gradient(
        partials + (int64_t)k->blocks * k->cp, DTYPE_F32, op->out[LAYERNORM_BWD_OUT_DBETA].data,
        k->blocks, k->cp, op->accumulate, stream->stream));
}

CUDA_UNBOUND(cuda_layernorm, "layernorm_nhwc", prepare_layernorm, run_layernorm);
CUDA_UNBOUND(cuda_layernorm_bwd, "layernorm_nhwc", prepare_bwd, run_layernorm_bwd);
