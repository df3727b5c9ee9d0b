/* Shapes and element types. */
#include "kernels/tensor.h"
#include "tests/test.h"
#include <string.h>

TEST(counts_elements_and_bytes)
{
    TensorDesc d = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 32, 64, 56, 55 });
    CHECK_INT(tensor_elements(&d), 32LL * 64 * 56 * 55);
    CHECK_INT(tensor_plain_bytes(&d), 4LL * 32 * 64 * 56 * 55);
    TensorDesc absent = { 0 };
    CHECK_INT(tensor_elements(&absent), 1);
}

TEST(counts_past_32_bits)
{
    TensorDesc d = tensor_desc(DTYPE_F64, 2, (int64_t[]){ 1 << 20, 1 << 20 });
    CHECK_INT(tensor_elements(&d), INT64_C(1) << 40);
    CHECK(tensor_plain_bytes(&d) == (size_t)1 << 43);
}

TEST(every_type_has_name_and_size)
{
    static const size_t bytes[DTYPE_COUNT] = {
        [DTYPE_F32] = 4,  [DTYPE_F64] = 8, [DTYPE_U8] = 1, [DTYPE_I32] = 4,
        [DTYPE_BF16] = 2, [DTYPE_F16] = 2, [DTYPE_I64] = 8
    };
    for (int i = 0; i < DTYPE_COUNT; i++) {
        CHECK_INT(dtype_bytes((DType)i), bytes[i]);
        REQUIRE(dtype_name((DType)i));
        for (int k = 0; k < i; k++) CHECK(strcmp(dtype_name((DType)i), dtype_name((DType)k)) != 0);
    }
}

TEST(shape_is_rank_and_dims_but_not_type)
{
    TensorDesc a = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 3, 4 }),
               b = tensor_desc(DTYPE_U8, 2, (int64_t[]){ 3, 4 });
    TensorDesc other = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 4, 3 }),
               longer = tensor_desc(DTYPE_F32, 3, (int64_t[]){ 3, 4, 1 });
    CHECK(tensor_same_shape(&a, &b));
    CHECK(!tensor_same_shape(&a, &other));
    CHECK(!tensor_same_shape(&a, &longer));
}

TEST(format_writes_shapes_and_cuts_at_the_buffer)
{
    char text[64], tiny[6];
    TensorDesc d = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 32, 64, 56, 56 });
    tensor_format(&d, text, sizeof text);
    CHECK_STR(text, "f32[32,64,56,56]");
    tensor_format(&d, tiny, sizeof tiny);
    CHECK_STR(tiny, "f32[3");
}
