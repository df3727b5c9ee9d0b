/* layout.c - how tensors lie in the CUDA backend's memory: formats as strides over padded channels.
 * Pure functions.
 *
 * One rule for all formats: the channel dim (1, or 0 of a vector) is innermost, the others keep
 * their logical order. Formats differ in what is padded. Filters that are one number each may have
 * any rank. */
#include "kernels/cuda/cuda.h"

#define ALL_TYPES(format)                                                                          \
    {                                                                                              \
        [DTYPE_F32] = { format, DTYPE_F32 }, [DTYPE_F64] = { format, DTYPE_F64 },                  \
        [DTYPE_U8] = { format, DTYPE_U8 }, [DTYPE_I32] = { format, DTYPE_I32 },                    \
        [DTYPE_BF16] = { format, DTYPE_BF16 }, [DTYPE_F16] = { format, DTYPE_F16 },                \
        [DTYPE_I64] = { format, DTYPE_I64 },                                                       \
    }
static const Layout layouts[CUDA_FORMAT_COUNT][DTYPE_COUNT] = {
    [CUDA_NHWC] = ALL_TYPES(CUDA_NHWC),     [CUDA_ROWS] = ALL_TYPES(CUDA_ROWS),
    [CUDA_KRSC] = ALL_TYPES(CUDA_KRSC),     [CUDA_KRSC_GROUPED] = ALL_TYPES(CUDA_KRSC_GROUPED),
    [CUDA_MATRIX] = ALL_TYPES(CUDA_MATRIX), [CUDA_VECTOR] = ALL_TYPES(CUDA_VECTOR),
};

static const struct {
    int min_rank, max_rank;
    bool pads_filters, pads_channels;
} formats[CUDA_FORMAT_COUNT] = {
    [CUDA_NHWC] = { 4, 4, false, true },  [CUDA_ROWS] = { 2, 2, false, true },
    [CUDA_KRSC] = { 2, 4, true, true },   [CUDA_KRSC_GROUPED] = { 1, 4, true, false },
    [CUDA_MATRIX] = { 2, 4, true, true }, [CUDA_VECTOR] = { 1, 2, false, true },
};

const Layout *cuda_layout(CudaFormat format, DType dtype)
{
    ASSERT(format < CUDA_FORMAT_COUNT && dtype < DTYPE_COUNT);
    return &layouts[format][dtype];
}

int64_t cuda_padded(const CudaBackend *b, int64_t channels)
{
    return (channels + b->pad - 1) / b->pad * b->pad;
}

CudaStrides cuda_strides(const CudaBackend *b, const TensorDesc *desc, CudaFormat format)
{
    const int rank = desc->rank, channel = rank > 1 || formats[format].pads_filters ? 1 : 0;
    ASSERT(rank >= formats[format].min_rank && rank <= formats[format].max_rank);
    CudaStrides s = { .dims = { 1, 1, 1, 1 } };
    for (int i = 0; i < rank; i++) s.dims[i] = desc->dims[i];
    s.strides[channel] = 1;
    s.elements = formats[format].pads_channels ? cuda_padded(b, s.dims[channel]) : s.dims[channel];
    for (int i = TENSOR_MAX_RANK - 1; i >= 0; i--) {
        if (i == channel) continue;
        s.strides[i] = s.elements;
        s.elements *=
            i == 0 && formats[format].pads_filters ? cuda_padded(b, s.dims[i]) : s.dims[i];
    }
    return s;
}

size_t cuda_layout_bytes(const CudaBackend *b, const TensorDesc *desc, const Layout *layout)
{
    if (!layout) return tensor_plain_bytes(desc);
    return (size_t)cuda_strides(b, desc, layout->format).elements * dtype_bytes(layout->dtype);
}

static void decide_layout(const CudaBackend *b, OpTensor *t, const Layout *layout)
{
    size_t bytes = cuda_layout_bytes(b, &t->desc, layout);
    ASSERT(!t->bytes || (t->layout == layout && t->bytes == bytes));
    t->layout = layout;
    t->bytes = bytes;
}

void cuda_decide(const CudaBackend *b, OpTensor *t, CudaFormat format, DType dtype)
{
    decide_layout(b, t, cuda_layout(format, dtype));
}

void cuda_decide_activation(const CudaBackend *b, OpTensor *t)
{
    ASSERT(t->desc.rank == 4 || t->desc.rank == 2);
    cuda_decide(b, t, t->desc.rank == 4 ? CUDA_NHWC : CUDA_ROWS, b->compute);
}

void cuda_decide_plain(OpTensor *t)
{
    decide_layout(NULL, t, NULL);
}

Status cuda_prepare_plain(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank != 0) cuda_decide_plain(&op->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank != 0) cuda_decide_plain(&op->out[i]);
    return OK;
}

CudaView cuda_view(const CudaBackend *b, const OpTensor *t)
{
    ASSERT(t->layout && (t->layout->format == CUDA_NHWC || t->layout->format == CUDA_ROWS));
    const int64_t *dims = t->desc.dims;
    CudaView v = { .n = dims[0], .h = 1, .w = 1, .c = dims[1], .dtype = t->layout->dtype };
    if (t->desc.rank == 4) {
        v.h = dims[2];
        v.w = dims[3];
    }
    v.cp = cuda_padded(b, v.c);
    v.rows = v.n * v.h * v.w;
    v.vectors = v.cp * (int64_t)dtype_bytes(v.dtype) / 16;
    return v;
}

const void *cuda_compute_copy(const CudaBackend *b, const OpTensor *t)
{
    const char *data = t->data;
    if (b->compute == DTYPE_F32) return data;
    if (!b->param_copies || data < b->param_slab ||
        data + t->bytes > b->param_slab + b->param_bytes)
        return NULL;
    return b->param_copies +
           (size_t)(data - b->param_slab) / sizeof(float) * dtype_bytes(b->compute);
}

void *cuda_param_copies(const CudaBackend *b, const OpTensor *t)
{
    return b->param_copies ? (void *)(uintptr_t)cuda_compute_copy(b, t) : NULL;
}
