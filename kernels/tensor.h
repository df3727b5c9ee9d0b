/* tensor.h - what a tensor is: element type and logical dims. No storage, no layout.
 *
 * Dims are logical and in the order of the field's papers whatever the memory layout: activations
 * N,C,H,W; convolution weights K,C/G,R,S; linear weights K,C (out, in); vectors C. Images in a
 * batch slot are the exception that data/ fixes: N,H,W,C uint8. */
#ifndef CONVOY_KERNELS_TENSOR_H
#define CONVOY_KERNELS_TENSOR_H
#include "kernels/dtype.h"
#include <stdbool.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 4

typedef struct TensorDesc {
    DType dtype;
    int rank; /* 1..4; 0 = absent or not yet known */
    int64_t dims[TENSOR_MAX_RANK];
} TensorDesc;

/* dims past rank become 1 */
TensorDesc tensor_desc(DType dtype, int rank, const int64_t *dims);
/* product of dims; 1 for rank 0 */
int64_t tensor_elements(const TensorDesc *d);
size_t tensor_plain_bytes(const TensorDesc *d);                   /* row-major, no padding */
bool tensor_same_shape(const TensorDesc *a, const TensorDesc *b); /* rank and dims */
void tensor_format(const TensorDesc *d, char *out, size_t bytes); /* "f32[32,64,56,56]" */
#endif
