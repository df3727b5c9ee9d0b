/* cudnn_write.c - see cudnn_write.h. What pointwise operations pass on, and their arithmetic, is
 * f32. Tensors are described as cuDNN counts them, N,C,H,W with the strides of N,H,W,C unless they
 * have their own, always with an alignment of 16 bytes: of less, cuDNN's heuristics offer
 * nothing. */
#include "kernels/cuda/cudnn/cudnn_write.h"

/* Ids of tensors between operations: behind those of operands, which count from 1. */
enum { FIRST_BETWEEN = 100 };

static cudnnDataType_t data_type(DType t)
{
    static const cudnnDataType_t types[DTYPE_COUNT] = { [DTYPE_F32] = CUDNN_DATA_FLOAT,
                                                        [DTYPE_BF16] = CUDNN_DATA_BFLOAT16,
                                                        [DTYPE_F16] = CUDNN_DATA_HALF,
                                                        [DTYPE_I32] = CUDNN_DATA_INT32,
                                                        [DTYPE_U8] = CUDNN_DATA_BOOLEAN };
    ASSERT(t != DTYPE_F64 && t != DTYPE_I64);
    return types[t];
}

Status cudnn_write_make_tensor(const CudnnApi *api, const CudnnTensor *t,
                               cudnnBackendDescriptor_t *out)
{
    const int64_t *dims = t->dims;
    const cudnnDataType_t type = data_type(t->type);
    const int64_t packed[4] = { dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1] },
                  *strides = t->strides[0] ? t->strides : packed;
    const int64_t alignment = 16;
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type },
        { CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims },
        { CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides },
        { CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->id },
        { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment },
        { CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &t->between },
        { CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &t->by_value },
        CUDNN_DESCRIPTOR(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, t->offsets),
    };
    return cudnn_api_make(api, out, CUDNN_BACKEND_TENSOR_DESCRIPTOR, attributes, t->offsets ? 8 : 7,
                          "tensor descriptor");
}

CudnnPart cudnn_write_keep(CudnnWriter *w, Status st, CudnnPart part)
{
    ASSERT(w->part_count < CUDNN_WRITER_PARTS);
    if (st != OK) w->status = st;
    else w->parts[w->part_count++] = part;
    return part;
}

CudnnPart cudnn_write_part(CudnnWriter *w, cudnnBackendDescriptorType_t type,
                           const CudnnAttribute *attributes, int count, const char *what)
{
    CudnnPart part = NULL;
    if (w->status != OK) return NULL;
    const Status st = cudnn_api_make(w->api, &part, type, attributes, count, what);
    return cudnn_write_keep(w, st, part);
}

void cudnn_write_step(CudnnWriter *w, cudnnBackendDescriptorType_t type,
                      const CudnnAttribute *attributes, int count, const char *what)
{
    const CudnnPart part = cudnn_write_part(w, type, attributes, count, what);
    ASSERT(w->step_count < CUDNN_WRITER_STEPS);
    if (part) w->steps[w->step_count++] = part;
}

CudnnPart cudnn_write_tensor(CudnnWriter *w, const CudnnTensor *t)
{
    CudnnPart part = NULL;
    if (w->status != OK) return NULL;
    const Status st = cudnn_write_make_tensor(w->api, t, &part);
    return cudnn_write_keep(w, st, part);
}

CudnnPart cudnn_write_between(CudnnWriter *w, DType type)
{
    const int64_t *d = w->between_dims;
    const CudnnTensor t = { .id = FIRST_BETWEEN + w->between++,
                            .type = type,
                            .dims = { d[0], d[1], d[2], d[3] },
                            .between = true };
    return cudnn_write_tensor(w, &t);
}

static CudnnPart pointwise_mode(CudnnWriter *w, cudnnPointwiseMode_t mode, DType type, int64_t axis)
{
    const cudnnDataType_t math = data_type(type);
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode },
        { CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math },
        { CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis },
    };
    return cudnn_write_part(w, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, attributes, axis < 0 ? 2 : 3,
                            "pointwise descriptor");
}

CudnnPart cudnn_write_pointwise_as(CudnnWriter *w, const CudnnPointwise *p)
{
    const CudnnPart how = pointwise_mode(w, p->mode, p->math, p->axis);
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->a),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->choice),
    };
    cudnn_write_step(w, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes,
                     p->choice ? 5
                     : p->b    ? 4
                               : 3,
                     "pointwise operation");
    return p->y;
}

CudnnPart cudnn_write_pointwise(CudnnWriter *w, cudnnPointwiseMode_t mode, CudnnPart a, CudnnPart b,
                                CudnnPart y)
{
    const CudnnPart to = y ? y : cudnn_write_between(w, DTYPE_F32);
    return cudnn_write_pointwise_as(
        w, &(CudnnPointwise){ .mode = mode, .axis = -1, .a = a, .b = b, .y = to });
}

CudnnPart cudnn_write_pointwise_bwd(CudnnWriter *w, cudnnPointwiseMode_t mode, CudnnPart dy,
                                    CudnnPart x, CudnnPart dx)
{
    const CudnnPart how = pointwise_mode(w, mode, DTYPE_F32, -1);
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx),
    };
    cudnn_write_step(w, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes, 4,
                     "pointwise gradient");
    return dx;
}

Status cudnn_write_graph(CudnnWriter *w, cudnnBackendDescriptor_t *graph)
{
    const CudnnAttribute attribute = { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       w->step_count, w->steps };
    Status st = w->status;
    if (st == OK)
        st = cudnn_api_make(w->api, graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &attribute, 1,
                            "graph");
    for (int i = 0; i < w->part_count; i++) cudnn_api_free(w->api, w->parts[i]);
    w->part_count = w->step_count = 0;
    return st;
}
