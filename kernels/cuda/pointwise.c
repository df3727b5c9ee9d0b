/* pointwise.c - activation and its gradient, add, scale: flat passes over tensors that lie alike.
 *
 * Tensors of one elementwise op have one layout; what no earlier node decided becomes an activation
 * where it has the rank of one, and plain otherwise (flat slabs). Padding is computed along: all of
 * these keep zero zero. */
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/cuda.h"

static void decide_first(const CudaBackend *b, OpTensor *t)
{
    if (t->bytes) return;
    if (t->desc.rank == 4 || t->desc.rank == 2) cuda_decide_activation(b, t);
    else cuda_decide_plain(t);
}

static DType type_of(const OpTensor *t)
{
    return t->layout ? t->layout->dtype : t->desc.dtype;
}

static int64_t elements_of(const OpTensor *t)
{
    return (int64_t)(t->bytes / dtype_bytes(type_of(t)));
}

/* The same elements in the same places; of rank 2 tensors one may be f32 and the other of the
 * compute type. */
static Status decide_like(const OpInstance *op, OpTensor *t, const OpTensor *model)
{
    if (t->bytes == 0) {
        t->layout = model->layout;
        t->bytes = model->bytes;
    }
    bool alike = t->layout == model->layout ||
                 (t->layout && model->layout && t->layout->format == CUDA_ROWS &&
                  model->layout->format == CUDA_ROWS);
    if (alike && elements_of(t) == elements_of(model)) return OK;
    return fail(ERR_INTERNAL, "%s: tensors of one elementwise op have different layouts",
                op_name(op->kind));
}

/* The result, which is always of the first input's type. */
static Status decide_result(const OpInstance *op, OpTensor *t, const OpTensor *model)
{
    TRY(decide_like(op, t, model));
    if (type_of(t) == type_of(model)) return OK;
    return fail(ERR_INTERNAL, "%s: the result does not have the type of the first input",
                op_name(op->kind));
}

static Status copy(const OpTensor *from, void *to, cudaStream_t stream)
{
    if (to != from->data)
        TRY_CUDA(cudaMemcpyAsync(to, from->data, from->bytes, cudaMemcpyDeviceToDevice, stream));
    return OK;
}

/* ---- activation ---- */

static Status activation_prepare(OpInstance *op)
{
    decide_first(cuda_backend(op), &op->in[ACTIVATION_IN_X]);
    return decide_result(op, &op->out[ACTIVATION_OUT_Y], &op->in[ACTIVATION_IN_X]);
}

static Status activation_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    const OpTensor *x = &op->in[ACTIVATION_IN_X];
    void *y = op->out[ACTIVATION_OUT_Y].data;
    if (attr->act == ACT_NONE) return copy(x, y, stream->stream);
    return CUDA_STATUS(cuda_launch_pointwise_activation(attr->act, x->data, y, type_of(x),
                                                        elements_of(x), stream->stream));
}

static Status activation_bwd_prepare(OpInstance *op)
{
    OpTensor *y = &op->in[ACTIVATION_BWD_IN_Y];
    decide_first(cuda_backend(op), y);
    TRY(decide_like(op, &op->in[ACTIVATION_BWD_IN_DY], y));
    return decide_result(op, &op->out[ACTIVATION_BWD_OUT_DX], &op->in[ACTIVATION_BWD_IN_DY]);
}

static Status activation_bwd_run(OpInstance *op, Stream *stream)
{
    const ActivationAttr *attr = op->attr;
    const OpTensor *dy = &op->in[ACTIVATION_BWD_IN_DY], *y = &op->in[ACTIVATION_BWD_IN_Y];
    void *dx = op->out[ACTIVATION_BWD_OUT_DX].data;
    if (attr->act == ACT_NONE) return copy(dy, dx, stream->stream);
    return CUDA_STATUS(cuda_launch_pointwise_activation_bwd(
        attr->act, dy->data, y->data, dx, type_of(dy), type_of(y), elements_of(y), stream->stream));
}

/* ---- add, scale ---- */

static Status add_prepare(OpInstance *op)
{
    OpTensor *a = &op->in[ADD_IN_A];
    decide_first(cuda_backend(op), a);
    TRY(decide_like(op, &op->in[ADD_IN_B], a));
    return decide_result(op, &op->out[ADD_OUT_Y], a);
}

static Status add_run(OpInstance *op, Stream *stream)
{
    const OpTensor *a = &op->in[ADD_IN_A], *b = &op->in[ADD_IN_B];
    return CUDA_STATUS(cuda_launch_pointwise_add(a->data, b->data, op->out[ADD_OUT_Y].data,
                                                 type_of(a), type_of(b), elements_of(a),
                                                 stream->stream));
}

static Status scale_prepare(OpInstance *op)
{
    decide_first(cuda_backend(op), &op->in[SCALE_IN_X]);
    return decide_result(op, &op->out[SCALE_OUT_Y], &op->in[SCALE_IN_X]);
}

static Status scale_run(OpInstance *op, Stream *stream)
{
    const ScaleAttr *attr = op->attr;
    const OpTensor *x = &op->in[SCALE_IN_X];
    return CUDA_STATUS(cuda_launch_pointwise_scale(x->data, attr->factor, op->out[SCALE_OUT_Y].data,
                                                   type_of(x), elements_of(x), stream->stream));
}

CUDA_UNBOUND(cuda_activation, "pointwise:flat", activation_prepare, activation_run);
CUDA_UNBOUND(cuda_activation_bwd, "pointwise:flat", activation_bwd_prepare, activation_bwd_run);
CUDA_UNBOUND(cuda_add, "pointwise:flat", add_prepare, add_run);
CUDA_UNBOUND(cuda_scale, "pointwise:flat", scale_prepare, scale_run);
