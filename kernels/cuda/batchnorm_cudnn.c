/* batchnorm_cudnn.c - training batch norm and its gradient by cuDNN's norm graphs (norm_plan.h),
 * with two small kernels of ours around them: the running statistics behind forward; before
 * backward, where there is a residual, its gradient dz, which is then all that the graph is given
 * of dy, dy2 and y.
 *
 * Only what norm_choice.c lets through comes here. dz is rounded to the type of the tensors before
 * it is summed. dx lies apart from dy unless the graph does not read dy. */
#include "kernels/cuda/batchnorm_cudnn.h"
#include "base/mem.h"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/cudnn/norm_plan.h"

enum { VECTOR_BYTES = 16 };

typedef struct ForwardState {
    BnState base;
    NormPlan *plan;
    BnRunning running;
    size_t plan_at; /* in the workspace; before it: the statistics, if nobody wants them saved */
} ForwardState;

typedef struct BackwardState {
    BnState base;
    NormPlan *plan;
    BnGradientOfZ dz; /* dz NULL: not formed here */
    int64_t channels;
} BackwardState;

static void decide(const OpInstance *op, OpTensor *t)
{
    const CudaBackend *b = cuda_backend(op);
    if (t->desc.rank == 4) cuda_decide_activation(b, t);
    else if (t->desc.rank != 0) cuda_decide(b, t, CUDA_VECTOR, DTYPE_F32);
}

static void decide_all(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++) decide(op, &op->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) decide(op, &op->out[i]);
}

static NormShape shape_of(const OpInstance *op, const OpTensor *x, ActKind act)
{
    const CudaView v = cuda_view(cuda_backend(op), x);
    return (NormShape){ .n = v.n, .c = v.cp, .h = v.h, .w = v.w, .io = v.dtype, .act = act };
}

/* Row number index of [2][channels]. */
static float *row(const OpTensor *statistics, int64_t channels, int index)
{
    return (float *)statistics->data + index * channels;
}

/* ---- forward ---- */

static Status prepare_forward(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    CudaBackend *b = cuda_backend(op);
    ForwardState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->base.by = &batchnorm_cudnn;
    decide_all(op);
    NormShape shape = shape_of(op, &op->in[BN_IN_X], attr->act);
    shape.residual = op->in[BN_IN_RESIDUAL].desc.rank != 0;
    shape.eps = attr->eps;
    TRY(norm_plan_create(&s->plan, b, NORM_FORWARD, &shape));
    s->running = (BnRunning){ .c = (int)shape.c,
                              .cp = (int)shape.c,
                              .eps = attr->eps,
                              .momentum = attr->momentum,
                              .count = (double)(shape.n * shape.h * shape.w) };
    const size_t align = b->base.v->alignment, statistics = 2 * (size_t)shape.c * sizeof(float);
    if (op->out[BN_OUT_SAVED].desc.rank == 0) s->plan_at = (statistics + align - 1) / align * align;
    op->workspace_bytes = s->plan_at + norm_plan_workspace(s->plan);
    op->implementation = norm_plan_name(s->plan);
    return OK;
}

static Status bind_forward(OpInstance *op)
{
    ForwardState *s = op->state;
    const OpTensor *in = op->in, *saved = &op->out[BN_OUT_SAVED];
    float *statistics = saved->desc.rank != 0 ? saved->data : op->workspace;
    void *const operands[NORM_OPERAND_COUNT] = {
        [NORM_OP_X] = in[BN_IN_X].data,
        [NORM_OP_Y] = op->out[BN_OUT_Y].data,
        [NORM_OP_MEAN] = statistics,
        [NORM_OP_INV_STD] = statistics + s->running.cp,
        [NORM_OP_GAMMA] = in[BN_IN_GAMMA].data,
        [NORM_OP_BETA] = in[BN_IN_BETA].data,
        [NORM_OP_RESIDUAL] = in[BN_IN_RESIDUAL].data,
    };
    s->running.statistics = statistics;
    s->running.running_mean = in[BN_IN_RUNNING_MEAN].data;
    s->running.running_var = in[BN_IN_RUNNING_VAR].data;
    return norm_plan_bind(s->plan, operands, cuda_workspace(op, s->plan_at));
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    const ForwardState *s = op->state;
    TRY(norm_plan_run(s->plan, stream->stream));
    return CUDA_STATUS(cuda_launch_batchnorm_cudnn_running(&s->running, stream->stream));
}

static void release_forward(OpInstance *op)
{
    ForwardState *s = op->state;
    norm_plan_destroy(s->plan);
}

/* ---- backward ---- */

static Status prepare_backward(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    const bool residual = op->out[BN_BWD_OUT_DRESIDUAL].desc.rank != 0;
    BackwardState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->base.by = &batchnorm_cudnn_bwd;
    decide_all(op);
    const NormShape shape = shape_of(op, &op->in[BN_BWD_IN_X], residual ? ACT_NONE : attr->act);
    TRY(norm_plan_create(&s->plan, cuda_backend(op), NORM_BWD, &shape));
    s->channels = shape.c;
    s->dz = (BnGradientOfZ){ .dtype = shape.io,
                             .vectors = (int64_t)op->in[BN_BWD_IN_X].bytes / VECTOR_BYTES };
    if (!residual) op->no_alias = 1u << BN_BWD_OUT_DX;
    op->workspace_bytes = norm_plan_workspace(s->plan);
    op->implementation = norm_plan_name(s->plan);
    return OK;
}

static Status bind_backward(OpInstance *op)
{
    BackwardState *s = op->state;
    const BatchNormAttr *attr = op->attr;
    const OpTensor *in = op->in, *out = op->out, *saved = &in[BN_BWD_IN_SAVED];
    BnGradientOfZ *k = &s->dz;
    k->dy = in[BN_BWD_IN_DY].data;
    k->dy2 = in[BN_BWD_IN_DY2].data;
    k->y = attr->act == ACT_RELU ? in[BN_BWD_IN_Y].data : NULL;
    k->dz = out[BN_BWD_OUT_DRESIDUAL].data;
    void *const operands[NORM_OPERAND_COUNT] = {
        [NORM_OP_X] = in[BN_BWD_IN_X].data,
        [NORM_OP_DY] = k->dz ? k->dz : in[BN_BWD_IN_DY].data,
        [NORM_OP_DX] = out[BN_BWD_OUT_DX].data,
        [NORM_OP_MEAN] = row(saved, s->channels, 0),
        [NORM_OP_INV_STD] = row(saved, s->channels, 1),
        [NORM_OP_GAMMA] = in[BN_BWD_IN_GAMMA].data,
        [NORM_OP_BETA] = in[BN_BWD_IN_BETA].data,
        [NORM_OP_DGAMMA] = out[BN_BWD_OUT_DGAMMA].data,
        [NORM_OP_DBETA] = out[BN_BWD_OUT_DBETA].data,
    };
    return norm_plan_bind(s->plan, operands, op->workspace);
}

static Status run_backward(OpInstance *op, Stream *stream)
{
    const BackwardState *s = op->state;
    if (s->dz.dz) TRY_CUDA(cuda_launch_batchnorm_cudnn_gradient_of_z(&s->dz, stream->stream));
    return norm_plan_run(s->plan, stream->stream);
}

static void release_backward(OpInstance *op)
{
    BackwardState *s = op->state;
    norm_plan_destroy(s->plan);
}

const OpImpl batchnorm_cudnn = { prepare_forward, bind_forward, run_forward, release_forward };
const OpImpl batchnorm_cudnn_bwd = { prepare_backward, bind_backward, run_backward,
                                     release_backward };
