/* batchnorm_parts.c - what is left of a batch norm when convolutions beside it do the rest
 * (kernels/op.h). */
#include "kernels/cuda/batchnorm_parts.h"
#include "base/mem.h"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/cuda.h"

enum { COMBINE_BLOCKS_PER_SM = 4 };

static void decide_vectors(const OpInstance *op, OpTensor *t, DType dtype)
{
    if (t->desc.rank != 0) cuda_decide(cuda_backend(op), t, CUDA_VECTOR, dtype);
}

/* ---- sums to statistics ---- */

static Status prepare_finalize(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    const BnFinalizeAttr *attr = op->attr;
    BnFinalize *k = op->state = mem_calloc(1, sizeof *k);
    if (!k) return ERR_MEMORY;
    for (int i = 0; i <= BN_FINALIZE_IN_RUNNING_VAR; i++) decide_vectors(op, &op->in[i], DTYPE_F32);
    decide_vectors(op, &op->out[BN_FINALIZE_OUT_SAVED], DTYPE_F32);
    decide_vectors(op, &op->out[BN_FINALIZE_OUT_AFFINE], b->compute);
    const int64_t c = op->in[BN_FINALIZE_IN_SUMS].desc.dims[1];
    *k = (BnFinalize){ .c = (int)c,
                       .cp = (int)cuda_padded(b, c),
                       .eps = attr->eps,
                       .momentum = attr->momentum,
                       .count = (double)attr->count,
                       .affine_type = b->compute };
    op->implementation = "bn_finalize";
    return OK;
}

static Status bind_finalize(OpInstance *op)
{
    BnFinalize *k = op->state;
    const OpTensor *affine = &op->out[BN_FINALIZE_OUT_AFFINE];
    k->sums = op->in[BN_FINALIZE_IN_SUMS].data;
    k->gamma = op->in[BN_FINALIZE_IN_GAMMA].data;
    k->beta = op->in[BN_FINALIZE_IN_BETA].data;
    k->running_mean = op->in[BN_FINALIZE_IN_RUNNING_MEAN].data;
    k->running_var = op->in[BN_FINALIZE_IN_RUNNING_VAR].data;
    k->saved = op->out[BN_FINALIZE_OUT_SAVED].data;
    k->affine = affine->desc.rank != 0 ? affine->data : NULL;
    return OK;
}

static Status run_finalize(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_batchnorm_parts_finalize(op->state, stream->stream));
}

/* ---- y ---- */

static Status prepare_apply(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    const BatchNormAttr *attr = op->attr;
    BnForward *k = op->state = mem_calloc(1, sizeof *k);
    if (!k) return ERR_MEMORY;
    for (int i = BN_APPLY_IN_GAMMA; i <= BN_APPLY_IN_SAVED; i++)
        decide_vectors(op, &op->in[i], DTYPE_F32);
    cuda_decide_activation(b, &op->in[BN_APPLY_IN_X]);
    if (op->in[BN_APPLY_IN_RESIDUAL].desc.rank != 0)
        cuda_decide_activation(b, &op->in[BN_APPLY_IN_RESIDUAL]);
    cuda_decide_activation(b, &op->out[BN_APPLY_OUT_Y]);
    const CudaView v = cuda_view(b, &op->in[BN_APPLY_IN_X]);
    *k = (BnForward){ .dtype = v.dtype, .c = (int)v.c, .cp = (int)v.cp, .act = attr->act };
    op->implementation = "bn_rows";
    return batchnorm_make_grid(op, &k->grid, &v, BN_FORWARD_BLOCKS);
}

static Status bind_apply(OpInstance *op)
{
    BnForward *k = op->state;
    const OpTensor *saved = &op->in[BN_APPLY_IN_SAVED];
    k->x = op->in[BN_APPLY_IN_X].data;
    k->residual =
        op->in[BN_APPLY_IN_RESIDUAL].desc.rank != 0 ? op->in[BN_APPLY_IN_RESIDUAL].data : NULL;
    k->y = op->out[BN_APPLY_OUT_Y].data;
    k->gamma = op->in[BN_APPLY_IN_GAMMA].data;
    k->beta = op->in[BN_APPLY_IN_BETA].data;
    k->statistics = saved->data; /* only read: the kernel that writes them is another */
    return OK;
}

static Status run_apply(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_batchnorm_apply(op->state, stream->stream));
}

/* ---- dx ---- */

static Status prepare_combine(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    BnCombine *k = op->state = mem_calloc(1, sizeof *k);
    if (!k) return ERR_MEMORY;
    decide_vectors(op, &op->in[BN_BWD_APPLY_IN_COEFFICIENTS], DTYPE_F32);
    cuda_decide_activation(b, &op->in[BN_BWD_APPLY_IN_DZ]);
    cuda_decide_activation(b, &op->in[BN_BWD_APPLY_IN_X]);
    cuda_decide_activation(b, &op->out[BN_BWD_APPLY_OUT_DX]);
    const CudaView v = cuda_view(b, &op->in[BN_BWD_APPLY_IN_X]);
    *k = (BnCombine){ .dtype = v.dtype, .cp = (int)v.cp };
    op->implementation = "bn_combine";
    return batchnorm_make_grid(op, &k->grid, &v, COMBINE_BLOCKS_PER_SM);
}

static Status bind_combine(OpInstance *op)
{
    BnCombine *k = op->state;
    k->dz = op->in[BN_BWD_APPLY_IN_DZ].data;
    k->x = op->in[BN_BWD_APPLY_IN_X].data;
    k->dx = op->out[BN_BWD_APPLY_OUT_DX].data;
    k->coefficients = op->in[BN_BWD_APPLY_IN_COEFFICIENTS].data;
    return OK;
}

static Status run_combine(OpInstance *op, Stream *stream)
{
    return CUDA_STATUS(cuda_launch_batchnorm_parts_combine(op->state, stream->stream));
}

const OpImpl cuda_bn_finalize = { prepare_finalize, bind_finalize, run_finalize, NULL };
const OpImpl cuda_bn_apply = { prepare_apply, bind_apply, run_apply, NULL };
const OpImpl cuda_bn_bwd_apply = { prepare_combine, bind_combine, run_combine, NULL };
