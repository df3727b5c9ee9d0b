/* dtype.h - types of elements. */
#ifndef CONVOY_KERNELS_DTYPE_H
#define CONVOY_KERNELS_DTYPE_H
#include <stddef.h>

typedef enum DType {
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_U8,
    DTYPE_I32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I64,
    DTYPE_COUNT
} DType;

size_t dtype_bytes(DType dtype);
const char *dtype_name(DType dtype); /* "f32", "u8", ... */
#endif
