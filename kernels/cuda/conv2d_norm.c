/* conv2d_norm.c - convolutions with parts of the batch norms beside them, on the CUDA backend:
 * tensors of the op to operands of the plan (conv_norm_plan.h). Weights and their gradient as in
 * conv2d.c.
 *
 * WORKSPACE is the weights or their gradient in the compute type; then, for an accumulating data
 * gradient, dgamma and dbeta of this run; then what the plan wants. */
#include "base/mem.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/conv2d.h"
#include "kernels/cuda/cudnn/conv_norm_plan.h"
#include "kernels/cuda/staging.h"
#include <string.h>

typedef struct NormState {
    Staged dw; /* gradient of w */
    ConvNormPlan *plan;
    int64_t weights, channels;  /* elements; channels of x, padding included */
    size_t vectors_at, plan_at; /* in the workspace */
    bool convert;               /* w has no compute copy */
} NormState;

static void decide_vectors(OpInstance *op, OpTensor *t, DType dtype)
{
    if (t->desc.rank != 0) cuda_decide(cuda_backend(op), t, CUDA_VECTOR, dtype);
}

static Status prepare_conv2d_norm(OpInstance *op, ConvNormPass pass, ConvPrologue prologue,
                                  OpTensor *x, OpTensor *w, OpTensor *y)
{
    CudaBackend *b = cuda_backend(op);
    NormState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    TRY(conv2d_decide(b, op->attr, x, w, y));
    const ConvShape shape = conv2d_shape(b, op->attr, x, w, y);
    TRY(conv_norm_plan_create(&s->plan, b, pass, prologue, &shape));
    s->weights = conv2d_weights(&shape);
    s->channels = shape.c;
    s->vectors_at = s->plan_at = conv2d_weights_bytes(b, &shape);
    op->workspace_bytes = s->plan_at + conv_norm_plan_workspace(s->plan);
    op->implementation = conv_norm_plan_name(s->plan);
    return OK;
}

/* Vector number index of a tensor of several. */
static void *vector(const OpTensor *t, int64_t channels, int index)
{
    return t->desc.rank == 0
               ? NULL
               : (char *)t->data + (size_t)(index * channels) * dtype_bytes(t->layout->dtype);
}

/* The weights that the plan reads, which it does not write to. */
static void *weights_for(OpInstance *op, const OpTensor *w)
{
    NormState *s = op->state;
    const void *copy = cuda_compute_copy(cuda_backend(op), w);
    void *data = op->workspace;
    s->convert = copy == NULL;
    if (copy) memcpy(&data, &copy, sizeof data);
    return data;
}

static Status convert_weights(OpInstance *op, const OpTensor *w, Stream *stream)
{
    const NormState *s = op->state;
    if (!s->convert) return OK;
    return CUDA_STATUS(cuda_launch_cast(w->data, DTYPE_F32, op->workspace,
                                        cuda_backend(op)->compute, s->weights, stream->stream));
}

static void release_conv2d_norm(OpInstance *op)
{
    NormState *s = op->state;
    if (!s) return;
    conv_norm_plan_destroy(s->plan);
    staging_release(&s->dw);
}

/* ---- forward ---- */

static ConvPrologue prologue_of(const OpInstance *op)
{
    if (op->in[CONV_STATS_IN_AFFINE].desc.rank == 0) return CONV_PLAIN;
    if (op->in[CONV_STATS_IN_RESIDUAL].desc.rank == 0) return CONV_AFFINE;
    return op->in[CONV_STATS_IN_RESIDUAL_AFFINE].desc.rank == 0 ? CONV_RESIDUAL : CONV_DUAL;
}

static Status prepare_stats(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *residual = &op->in[CONV_STATS_IN_RESIDUAL], *z = &op->out[CONV_STATS_OUT_Z];
    decide_vectors(op, &op->in[CONV_STATS_IN_AFFINE], b->compute);
    decide_vectors(op, &op->in[CONV_STATS_IN_RESIDUAL_AFFINE], b->compute);
    decide_vectors(op, &op->out[CONV_STATS_OUT_SUMS], DTYPE_F32);
    if (residual->desc.rank != 0) cuda_decide_activation(b, residual);
    if (z->desc.rank != 0) cuda_decide_activation(b, z);
    return prepare_conv2d_norm(op, CONV_NORM_STATS, prologue_of(op), &op->in[CONV_STATS_IN_X],
                               &op->in[CONV_STATS_IN_W], &op->out[CONV_STATS_OUT_Y]);
}

static Status bind_stats(OpInstance *op)
{
    const NormState *s = op->state;
    const OpTensor *in = op->in, *out = op->out;
    const int64_t filters = cuda_view(cuda_backend(op), &out[CONV_STATS_OUT_Y]).cp;
    void *const operands[CONV_OPERAND_COUNT] = {
        [CONV_OP_X] = in[CONV_STATS_IN_X].data,
        [CONV_OP_W] = weights_for(op, &in[CONV_STATS_IN_W]),
        [CONV_OP_Y] = out[CONV_STATS_OUT_Y].data,
        [CONV_OP_SUM] = vector(&out[CONV_STATS_OUT_SUMS], filters, 0),
        [CONV_OP_SQUARE] = vector(&out[CONV_STATS_OUT_SUMS], filters, 1),
        [CONV_OP_SCALE] = vector(&in[CONV_STATS_IN_AFFINE], s->channels, 0),
        [CONV_OP_SHIFT] = vector(&in[CONV_STATS_IN_AFFINE], s->channels, 1),
        [CONV_OP_RESIDUAL] = in[CONV_STATS_IN_RESIDUAL].data,
        [CONV_OP_RESIDUAL_SCALE] = vector(&in[CONV_STATS_IN_RESIDUAL_AFFINE], s->channels, 0),
        [CONV_OP_RESIDUAL_SHIFT] = vector(&in[CONV_STATS_IN_RESIDUAL_AFFINE], s->channels, 1),
        [CONV_OP_Z] = out[CONV_STATS_OUT_Z].data,
    };
    return conv_norm_plan_bind(s->plan, operands, cuda_workspace(op, s->plan_at));
}

static Status run_stats(OpInstance *op, Stream *stream)
{
    const NormState *s = op->state;
    TRY(convert_weights(op, &op->in[CONV_STATS_IN_W], stream));
    return conv_norm_plan_run(s->plan, stream->stream);
}

/* ---- gradient of x ---- */

/* Slots of a norm at the end of the convolution: of its vectors, and of what dz does to them. */
static const struct NormSlots {
    ConvOperand mean; /* the first of its operands */
    int gamma, saved, dgamma, coefficients;
} norms[] = {
    { CONV_OP_MEAN, CONV_BWD_DATA_NORM_IN_GAMMA, CONV_BWD_DATA_NORM_IN_SAVED,
      CONV_BWD_DATA_NORM_OUT_DGAMMA, CONV_BWD_DATA_NORM_OUT_COEFFICIENTS },
    { CONV_OP_RESIDUAL_MEAN, CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA,
      CONV_BWD_DATA_NORM_IN_RESIDUAL_SAVED, CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA,
      CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS },
};

static ConvPrologue end_of(const OpInstance *op)
{
    if (op->in[CONV_BWD_DATA_NORM_IN_RESIDUAL].desc.rank == 0) return CONV_PLAIN;
    return op->in[CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA].desc.rank == 0 ? CONV_RESIDUAL : CONV_DUAL;
}

static int norms_of(const OpInstance *op)
{
    return end_of(op) == CONV_DUAL ? 2 : 1;
}

static Status prepare_bwd_data(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *in = op->in, *out = op->out;
    for (int k = 0; k < norms_of(op); k++) {
        for (int i = norms[k].gamma; i <= norms[k].saved; i++)
            decide_vectors(op, &in[i], DTYPE_F32);
        for (int i = norms[k].dgamma; i <= norms[k].coefficients; i++)
            decide_vectors(op, &out[i], DTYPE_F32);
    }
    cuda_decide_activation(b, &out[CONV_BWD_DATA_NORM_OUT_DZ]);
    if (end_of(op) != CONV_PLAIN) {
        cuda_decide_activation(b, &in[CONV_BWD_DATA_NORM_IN_DY2]);
        cuda_decide_activation(b, &in[CONV_BWD_DATA_NORM_IN_RESIDUAL]);
    }
    TRY(prepare_conv2d_norm(op, CONV_NORM_BWD_DATA, end_of(op), &in[CONV_BWD_DATA_NORM_IN_X],
                            &in[CONV_BWD_DATA_NORM_IN_W], &in[CONV_BWD_DATA_NORM_IN_DY]));
    NormState *s = op->state;
    const size_t align = b->base.v->alignment,
                 vectors = 2 * (size_t)(norms_of(op) * s->channels) * sizeof(float);
    if (op->accumulate) s->plan_at += (vectors + align - 1) / align * align;
    op->workspace_bytes = s->plan_at + conv_norm_plan_workspace(s->plan);
    return OK;
}

/* dgamma (index 0) or dbeta (1) of this run alone, of norm k. */
static void *own_gradient(const OpInstance *op, int k, int index)
{
    const NormState *s = op->state;
    if (!op->accumulate) return op->out[norms[k].dgamma + index].data;
    /* cuDNN's sums overwrite: run_bwd_data() adds them to what is there */
    const int64_t at = (2 * k + index) * s->channels;
    return cuda_workspace(op, s->vectors_at + (size_t)at * sizeof(float));
}

static void list_norm(const OpInstance *op, int k, void **operands)
{
    const NormState *s = op->state;
    const OpTensor *vectors = &op->in[norms[k].gamma], *saved = &op->in[norms[k].saved],
                   *coefficients = &op->out[norms[k].coefficients];
    void **of = &operands[norms[k].mean - CONV_OP_MEAN];
    of[CONV_OP_MEAN] = vector(saved, s->channels, 0);
    of[CONV_OP_INV_STD] = vector(saved, s->channels, 1);
    of[CONV_OP_GAMMA] = vectors[0].data;
    of[CONV_OP_BETA] = vectors[1].data;
    of[CONV_OP_DGAMMA] = own_gradient(op, k, 0);
    of[CONV_OP_DBETA] = own_gradient(op, k, 1);
    of[CONV_OP_BY_DZ] = vector(coefficients, s->channels, 0);
    of[CONV_OP_BY_X] = vector(coefficients, s->channels, 1);
    of[CONV_OP_CONSTANT] = vector(coefficients, s->channels, 2);
}

static Status bind_bwd_data(OpInstance *op)
{
    const NormState *s = op->state;
    const OpTensor *in = op->in;
    void *operands[CONV_OPERAND_COUNT] = {
        [CONV_OP_X] = in[CONV_BWD_DATA_NORM_IN_X].data,
        [CONV_OP_W] = weights_for(op, &in[CONV_BWD_DATA_NORM_IN_W]),
        [CONV_OP_Y] = in[CONV_BWD_DATA_NORM_IN_DY].data,
        [CONV_OP_DY2] = in[CONV_BWD_DATA_NORM_IN_DY2].data,
        [CONV_OP_RESIDUAL] = in[CONV_BWD_DATA_NORM_IN_RESIDUAL].data,
        [CONV_OP_Z] = op->out[CONV_BWD_DATA_NORM_OUT_DZ].data,
    };
    for (int k = 0; k < norms_of(op); k++) list_norm(op, k, operands);
    return conv_norm_plan_bind(s->plan, operands, cuda_workspace(op, s->plan_at));
}

static Status run_bwd_data(OpInstance *op, Stream *stream)
{
    const NormState *s = op->state;
    TRY(convert_weights(op, &op->in[CONV_BWD_DATA_NORM_IN_W], stream));
    TRY(conv_norm_plan_run(s->plan, stream->stream));
    for (int i = 0; op->accumulate && i < 2 * norms_of(op); i++)
        TRY_CUDA(cuda_launch_cast_add(own_gradient(op, i / 2, i % 2), DTYPE_F32,
                                      op->out[norms[i / 2].dgamma + i % 2].data, s->channels,
                                      stream->stream));
    return OK;
}

/* ---- gradient of w ---- */

static Status prepare_bwd_weights(OpInstance *op)
{
    decide_vectors(op, &op->in[CONV_BWD_WEIGHTS_NORM_IN_AFFINE], cuda_backend(op)->compute);
    TRY(prepare_conv2d_norm(
        op, CONV_NORM_BWD_WEIGHTS, CONV_AFFINE, &op->in[CONV_BWD_WEIGHTS_NORM_IN_X],
        &op->out[CONV_BWD_WEIGHTS_NORM_OUT_DW], &op->in[CONV_BWD_WEIGHTS_NORM_IN_DY]));
    NormState *s = op->state;
    if (s->plan_at) s->dw = (Staged){ .count = s->weights, .bytes = s->plan_at };
    return OK;
}

static Status bind_bwd_weights(OpInstance *op)
{
    const NormState *s = op->state;
    const OpTensor *affine = &op->in[CONV_BWD_WEIGHTS_NORM_IN_AFFINE];
    void *const operands[CONV_OPERAND_COUNT] = {
        [CONV_OP_X] = op->in[CONV_BWD_WEIGHTS_NORM_IN_X].data,
        [CONV_OP_W] = staging_address(op, &s->dw),
        [CONV_OP_Y] = op->in[CONV_BWD_WEIGHTS_NORM_IN_DY].data,
        [CONV_OP_SCALE] = vector(affine, s->channels, 0),
        [CONV_OP_SHIFT] = vector(affine, s->channels, 1),
    };
    return conv_norm_plan_bind(s->plan, operands, cuda_workspace(op, s->plan_at));
}

static Status run_bwd_weights(OpInstance *op, Stream *stream)
{
    const NormState *s = op->state;
    TRY(conv_norm_plan_run(s->plan, stream->stream));
    return staging_run(op, &s->dw, stream->stream);
}

const OpImpl cuda_conv2d_stats = { prepare_stats, bind_stats, run_stats, release_conv2d_norm };
const OpImpl cuda_conv2d_bwd_data_norm = { prepare_bwd_data, bind_bwd_data, run_bwd_data,
                                           release_conv2d_norm };
const OpImpl cuda_conv2d_bwd_weights_norm = { prepare_bwd_weights, bind_bwd_weights,
                                              run_bwd_weights, release_conv2d_norm };
