/* dtype.c - a table of element types. */
#include "kernels/dtype.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = { "f32", 4 }, [DTYPE_F64] = { "f64", 8 },   [DTYPE_U8] = { "u8", 1 },
    [DTYPE_I32] = { "i32", 4 }, [DTYPE_BF16] = { "bf16", 2 }, [DTYPE_F16] = { "f16", 2 },
    [DTYPE_I64] = { "i64", 8 },
};

size_t dtype_bytes(DType dtype)
{
    return dtypes[dtype].bytes;
}

const char *dtype_name(DType dtype)
{
    return dtypes[dtype].name;
}
