/* tensor.c - shapes as data: products of dims, and how a shape is written in messages. */
#include "kernels/tensor.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

TensorDesc tensor_desc(DType dtype, int rank, const int64_t *dims)
{
    TensorDesc d = { dtype, rank, { 1, 1, 1, 1 } };
    for (int i = 0; i < rank && i < TENSOR_MAX_RANK; i++) d.dims[i] = dims[i];
    return d;
}

int64_t tensor_elements(const TensorDesc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) n *= d->dims[i];
    return n;
}

size_t tensor_plain_bytes(const TensorDesc *d)
{
    return (size_t)tensor_elements(d) * dtype_bytes(d->dtype);
}

bool tensor_same_shape(const TensorDesc *a, const TensorDesc *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

void tensor_format(const TensorDesc *d, char *out, size_t bytes)
{
    if (bytes == 0) return;
    size_t used = (size_t)snprintf(out, bytes, "%s[", dtype_name(d->dtype));
    for (int i = 0; i < d->rank && used < bytes; i++)
        used +=
            (size_t)snprintf(out + used, bytes - used, i ? ",%" PRId64 : "%" PRId64, d->dims[i]);
    if (used < bytes) snprintf(out + used, bytes - used, "]");
}
