/* transfer.c - tensors between the layout and type they have on the device and plain host memory:
 * initial values, checkpoints, tests. Rare, so the host does all of it, through a staging copy of
 * the whole tensor. */
#include "kernels/cuda/transfer.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/float_math.h"
#include <string.h>

static float load_float(const char *from, DType type)
{
    float value = 0;
    uint16_t half;
    if (type == DTYPE_F32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&half, from, sizeof half);
    return type == DTYPE_BF16 ? float_from_bf16(half) : float_from_f16(half);
}

static void store(char *to, DType type, float value)
{
    if (type == DTYPE_F32) {
        memcpy(to, &value, sizeof value);
        return;
    }
    uint16_t half = type == DTYPE_BF16 ? float_to_bf16(value) : float_to_f16(value);
    memcpy(to, &half, sizeof half);
}

static bool is_float(DType type)
{
    return type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16;
}

/* One of the two sides of a copy: its elements' type and strides. */
typedef struct Side {
    DType type;
    CudaStrides at;
} Side;

static int64_t offset(const CudaStrides *s, int64_t i0, int64_t i1, int64_t i2)
{
    return i0 * s->strides[0] + i1 * s->strides[1] + i2 * s->strides[2];
}

static void copy_run(char *out, const Side *to, const char *in, const Side *from, int64_t count)
{
    size_t out_bytes = dtype_bytes(to->type), in_bytes = dtype_bytes(from->type);
    size_t out_step = out_bytes * (size_t)to->at.strides[3],
           in_step = in_bytes * (size_t)from->at.strides[3];
    for (int64_t i = 0; i < count; i++, out += out_step, in += in_step)
        if (to->type == from->type) memcpy(out, in, out_bytes);
        else store(out, to->type, load_float(in, from->type));
}

/* All logical elements; what padding holds stays. */
static void copy_elements(char *out, const Side *to, const char *in, const Side *from)
{
    const int64_t *dims = from->at.dims;
    ASSERT(to->type == from->type || (is_float(to->type) && is_float(from->type)));
    for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t j = 0; j < dims[1]; j++)
            for (int64_t k = 0; k < dims[2]; k++)
                copy_run(out + (size_t)offset(&to->at, i, j, k) * dtype_bytes(to->type), to,
                         in + (size_t)offset(&from->at, i, j, k) * dtype_bytes(from->type), from,
                         dims[3]);
}

static Side plain_side(const TensorDesc *desc)
{
    Side side = { .type = desc->dtype, .at = { .dims = { 1, 1, 1, 1 }, .elements = 1 } };
    for (int i = 0; i < desc->rank; i++) side.at.dims[i] = desc->dims[i];
    for (int i = TENSOR_MAX_RANK - 1; i >= 0; i--) {
        side.at.strides[i] = side.at.elements;
        side.at.elements *= side.at.dims[i];
    }
    return side;
}

static Side device_side(const CudaBackend *b, const OpTensor *t)
{
    return (Side){ .type = t->layout->dtype, .at = cuda_strides(b, &t->desc, t->layout->format) };
}

static size_t side_bytes(const Side *side)
{
    return (size_t)side->at.elements * dtype_bytes(side->type);
}

static Status from_device(void *host, const void *device, size_t bytes)
{
    /* our streams do not wait for the default stream, nor it for them */
    TRY_CUDA(cudaDeviceSynchronize());
    return CUDA_STATUS(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

static Status to_device(void *device, const void *host, size_t bytes)
{
    TRY_CUDA(cudaDeviceSynchronize());
    TRY_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    /* pageable memory: the copy may return before its last part has arrived */
    return CUDA_STATUS(cudaDeviceSynchronize());
}

Status cuda_transfer_export(Backend *backend, const OpTensor *t, void *host)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    if (!t->layout) return from_device(host, t->data, tensor_plain_bytes(&t->desc));
    Side plain = plain_side(&t->desc), device = device_side(b, t);
    char *staging = mem_alloc(side_bytes(&device));
    if (!staging) return ERR_MEMORY;
    Status status = from_device(staging, t->data, side_bytes(&device));
    if (status == OK) copy_elements(host, &plain, staging, &device);
    mem_free(staging);
    return status;
}

Status cuda_transfer_import(Backend *backend, const OpTensor *t, const void *host)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    if (!t->layout) return to_device(t->data, host, tensor_plain_bytes(&t->desc));
    Side plain = plain_side(&t->desc), device = device_side(b, t);
    /* zeros: padding on the device must be zero */
    char *staging = mem_calloc(1, side_bytes(&device));
    if (!staging) return ERR_MEMORY;
    copy_elements(staging, &device, host, &plain);
    Status status = to_device(t->data, staging, side_bytes(&device));
    mem_free(staging);
    return status;
}
