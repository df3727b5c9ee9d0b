/* test_cuda_layout.c - what the CUDA backend decides without a device: where elements lie, how
 * types are rounded, what a described device can compute in, which of our errors one of CUDA's
 * is. */
#include "kernels/cuda/properties.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static CudaBackend backend_of(DType compute)
{
    return (CudaBackend){ .compute = compute, .pad = 16 / (int)dtype_bytes(compute) };
}

static TensorDesc desc_of(DType dtype, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return tensor_desc(dtype, rank, (int64_t[]){ a, b, c, d });
}

/* ---- layouts ---- */

TEST(every_format_has_every_type)
{
    for (int f = 0; f < CUDA_FORMAT_COUNT; f++)
        for (int t = 0; t < DTYPE_COUNT; t++) {
            const Layout *layout = cuda_layout((CudaFormat)f, (DType)t);
            REQUIRE(layout != NULL);
            CHECK_INT(layout->format, f);
            CHECK_INT(layout->dtype, t);
        }
}

TEST(channels_are_padded_to_16_bytes)
{
    CudaBackend f32 = backend_of(DTYPE_F32), bf16 = backend_of(DTYPE_BF16);
    CHECK_INT(cuda_padded(&f32, 1), 4);
    CHECK_INT(cuda_padded(&f32, 4), 4);
    CHECK_INT(cuda_padded(&f32, 5), 8);
    CHECK_INT(cuda_padded(&bf16, 3), 8);
    CHECK_INT(cuda_padded(&bf16, 8), 8);
    CHECK_INT(cuda_padded(&bf16, 1001), 1008);
}

TEST(bytes_of_every_format)
{
    static const struct Row {
        CudaFormat format;
        DType dtype;
        int rank;
        int64_t dims[4], elements_pad_4, elements_pad_8;
    } rows[] = {
        { CUDA_NHWC, DTYPE_F32, 4, { 2, 3, 5, 7 }, 2 * 35 * 4, 2 * 35 * 8 },
        { CUDA_NHWC, DTYPE_F16, 4, { 2, 12, 5, 7 }, 2 * 35 * 12, 2 * 35 * 16 },
        { CUDA_NHWC, DTYPE_U8, 4, { 1, 5, 2, 2 }, 4 * 8, 4 * 8 },
        { CUDA_ROWS, DTYPE_BF16, 2, { 3, 10, 0, 0 }, 3 * 12, 3 * 16 },
        { CUDA_ROWS, DTYPE_F32, 2, { 3, 1000, 0, 0 }, 3000, 3000 },
        { CUDA_KRSC, DTYPE_F32, 4, { 10, 3, 3, 2 }, 12 * 6 * 4, 16 * 6 * 8 },
        { CUDA_KRSC_GROUPED, DTYPE_F32, 4, { 16, 2, 3, 3 }, 16 * 9 * 2, 16 * 9 * 2 },
        { CUDA_MATRIX, DTYPE_F32, 2, { 10, 6, 0, 0 }, 12 * 8, 16 * 8 },
        { CUDA_VECTOR, DTYPE_F32, 1, { 10, 0, 0, 0 }, 12, 16 },
        { CUDA_VECTOR, DTYPE_F32, 2, { 2, 10, 0, 0 }, 24, 32 },
    };
    CudaBackend pad_4 = backend_of(DTYPE_F32), pad_8 = backend_of(DTYPE_F16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct Row *r = &rows[i];
        TensorDesc desc = tensor_desc(DTYPE_F32, r->rank, r->dims);
        const Layout *layout = cuda_layout(r->format, r->dtype);
        int64_t element = (int64_t)dtype_bytes(r->dtype);
        CHECK_INT(cuda_layout_bytes(&pad_4, &desc, layout), r->elements_pad_4 * element);
        CHECK_INT(cuda_layout_bytes(&pad_8, &desc, layout), r->elements_pad_8 * element);
    }
    TensorDesc plain = desc_of(DTYPE_U8, 4, 2, 5, 7, 3);
    CHECK_INT(cuda_layout_bytes(&pad_8, &plain, NULL), 2 * 5 * 7 * 3);
}

TEST(elements_lie_where_the_header_says)
{
    CudaBackend b = backend_of(DTYPE_BF16);
    TensorDesc image = desc_of(DTYPE_F32, 4, 2, 3, 5, 7),
               filter = desc_of(DTYPE_F32, 4, 10, 3, 2, 3);
    TensorDesc grouped = desc_of(DTYPE_F32, 4, 16, 2, 3, 3),
               saved = desc_of(DTYPE_F32, 2, 2, 10, 0, 0);
    CudaStrides s = cuda_strides(&b, &image, CUDA_NHWC); /* [2][5][7][8] */
    CHECK(s.strides[0] == 280 && s.strides[1] == 1 && s.strides[2] == 56 && s.strides[3] == 8 &&
          s.elements == 560);
    s = cuda_strides(&b, &filter, CUDA_KRSC); /* [16][2][3][8] */
    CHECK(s.strides[0] == 48 && s.strides[1] == 1 && s.strides[2] == 24 && s.strides[3] == 8 &&
          s.elements == 768);
    s = cuda_strides(&b, &grouped, CUDA_KRSC_GROUPED); /* [16][3][3][2] */
    CHECK(s.strides[0] == 18 && s.strides[1] == 1 && s.strides[2] == 6 && s.strides[3] == 2 &&
          s.elements == 288);
    s = cuda_strides(&b, &saved, CUDA_VECTOR); /* [2][16] */
    CHECK(s.strides[0] == 16 && s.strides[1] == 1 && s.elements == 32 && s.dims[2] == 1 &&
          s.dims[3] == 1);
}

TEST(undecided_tensors_are_decided)
{
    CudaBackend b = backend_of(DTYPE_F16);
    OpTensor image = { .desc = desc_of(DTYPE_F32, 4, 2, 3, 5, 7) };
    cuda_decide_activation(&b, &image);
    CHECK(image.layout == cuda_layout(CUDA_NHWC, DTYPE_F16));
    CHECK_INT(image.bytes, 2 * 35 * 8 * 2);
    cuda_decide_activation(&b, &image); /* again: the same answer is accepted */
    OpTensor row = { .desc = desc_of(DTYPE_F32, 2, 4, 10, 0, 0) }, logits = row;
    cuda_decide_activation(&b, &row);
    CHECK(row.layout == cuda_layout(CUDA_ROWS, DTYPE_F16));
    cuda_decide(&b, &logits, CUDA_ROWS, DTYPE_F32);
    CHECK_INT(logits.bytes, 4 * 16 * 4);
    OpTensor labels = { .desc = desc_of(DTYPE_I32, 1, 9, 0, 0, 0) };
    cuda_decide_plain(&labels);
    CHECK(labels.layout == NULL);
    CHECK_INT(labels.bytes, 36);
    CudaView v = cuda_view(&b, &image);
    CHECK(v.n == 2 && v.h == 5 && v.w == 7 && v.c == 3 && v.cp == 8 && v.rows == 70 &&
          v.dtype == DTYPE_F16);
    v = cuda_view(&b, &logits);
    CHECK(v.n == 4 && v.h == 1 && v.w == 1 && v.c == 10 && v.cp == 16 && v.rows == 4 &&
          v.dtype == DTYPE_F32);
}

TEST(compute_copies_lie_at_their_parameters_index)
{
    static float slab[1024], elsewhere[64];
    static uint16_t copies[1024];
    CudaBackend b = backend_of(DTYPE_BF16);
    OpTensor inside = { .data = slab + 256, .bytes = 64 * sizeof(float) },
             outside = { .data = elsewhere, .bytes = 256 };
    CHECK(cuda_compute_copy(&b, &inside) == NULL); /* nothing is attached */
    b.param_slab = (char *)slab;
    b.param_bytes = sizeof slab;
    b.param_copies = (char *)copies;
    CHECK(cuda_compute_copy(&b, &inside) == copies + 256);
    CHECK(cuda_compute_copy(&b, &outside) == NULL);
    inside.data = slab + 960;
    CHECK(cuda_compute_copy(&b, &inside) == copies + 960); /* the last ones */
    b.compute = DTYPE_F32;
    CHECK(cuda_compute_copy(&b, &outside) == elsewhere);
}

/* ---- bf16 and f16 ---- */

typedef struct HalfType {
    uint16_t (*from_float)(float);
    float (*to_float)(uint16_t);
    uint16_t infinity;
} HalfType;
static const HalfType half_types[] = { { float_to_bf16, float_from_bf16, 0x7f80 },
                                       { float_to_f16, float_from_f16, 0x7c00 } };

TEST(half_types_come_back_bit_for_bit)
{
    for (int t = 0; t < 2; t++) {
        const HalfType *h = &half_types[t];
        int64_t wrong = 0;
        for (int bits = 0; bits < 0x10000; bits++) {
            float wide = h->to_float((uint16_t)bits);
            bool nan = (bits & 0x7fff) > h->infinity;
            uint16_t quiet = (uint16_t)(h->infinity == 0x7c00 ? 0x200 : 0x40),
                     want = (uint16_t)bits;
            if (nan) want |= quiet;
            wrong += h->from_float(wide) != want || !!isnan(wide) != nan;
        }
        CHECK_INT(wrong, 0);
    }
}

/* Against the definition: between neighbours, rounding changes over exactly at the middle, and the
 * middle goes to the even one. */
TEST(half_types_round_to_nearest_even)
{
    for (int t = 0; t < 2; t++) {
        const HalfType *h = &half_types[t];
        int64_t wrong = 0;
        for (int bits = 0; bits < h->infinity - 1; bits++) {
            uint16_t low = (uint16_t)bits, high = (uint16_t)(bits + 1);
            float middle = (float)(((double)h->to_float(low) + (double)h->to_float(high)) / 2);
            uint16_t even = low & 1 ? high : low;
            wrong += h->from_float(middle) != even || h->from_float(-middle) != (even | 0x8000);
            wrong += h->from_float(nextafterf(middle, -1.0f)) != low;
            wrong += h->from_float(nextafterf(middle, INFINITY)) != high;
        }
        CHECK_INT(wrong, 0);
    }
}

TEST(half_types_at_their_ends)
{
    CHECK_INT(float_to_f16(65504.0f), 0x7bff);
    CHECK_INT(float_to_f16(65519.996f), 0x7bff);
    CHECK_INT(float_to_f16(65520.0f), 0x7c00);
    CHECK_INT(float_to_f16(-1e30f), 0xfc00);
    CHECK_INT(float_to_f16(-0.0f), 0x8000);
    CHECK_INT(float_to_f16(5.9604645e-8f), 1); /* 2^-24 */
    CHECK_INT(float_to_f16(2.9802322e-8f), 0); /* 2^-25: a tie, to even */
    CHECK_INT(float_to_f16(2.9802326e-8f), 1);
    CHECK_INT(float_to_f16(-1e-40f), 0x8000);
    CHECK_INT(float_to_bf16(3.3895314e38f), 0x7f7f); /* the largest */
    CHECK_INT(float_to_bf16(3.4028235e38f), 0x7f80); /* FLT_MAX rounds up */
    CHECK_INT(float_to_bf16(-INFINITY), 0xff80);
    CHECK_INT(float_to_bf16(float_from_bits(1)), 0); /* the smallest subnormal */
    CHECK_INT(float_to_bf16(float_from_bits(0x7f800001)), 0x7fc0);
    CHECK_INT(float_to_f16(float_from_bits(0xff800001)), 0xfe00);
}

/* ---- devices by description ---- */

#define H200                                                                                       \
    "{\"deviceVer\": 900, \"multiProcessorCount\": 132, \"totalGlobalMem\": 150754820096, "        \
    "\"deviceName\": \"NVIDIA H200\"}"
#define T4                                                                                         \
    "{\"deviceVer\": 750, \"multiProcessorCount\": 40, \"totalGlobalMem\": 15843721216, "          \
    "\"deviceName\": \"Tesla T4\"}"

TEST(a_described_device)
{
    CudaBackend b = { 0 };
    REQUIRE_OK(cuda_properties_of_text(&b, H200));
    CHECK(b.deviceless);
    CHECK_STR(b.device_name, "NVIDIA H200");
    CHECK_INT(b.compute_capability, 90);
    CHECK_INT(b.sm_count, 132);
    CHECK_INT(b.memory_bytes, 150754820096);
}

TEST(a_bad_description_names_the_field)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "{\"deviceVer\": 900", "device properties" },
        { "[]", "deviceName" },
        { "{\"deviceName\": \"x\"}", "deviceVer" },
        { "{\"deviceName\": \"x\", \"deviceVer\": \"900\"}", "deviceVer" },
        { "{\"deviceName\": \"x\", \"deviceVer\": 900, \"multiProcessorCount\": 0}",
          "multiProcessorCount" },
        { "{\"deviceName\": \"x\", \"deviceVer\": 900, \"multiProcessorCount\": 1.5}",
          "multiProcessorCount" },
        { "{\"deviceName\": \"x\", \"deviceVer\": 900, \"multiProcessorCount\": 1}",
          "totalGlobalMem" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CudaBackend b = { 0 };
        CHECK_STATUS(cuda_properties_of_text(&b, rows[i].text), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].says);
    }
}

TEST(precisions_of_a_device)
{
    CudaBackend h200 = { 0 }, t4 = { 0 };
    REQUIRE_OK(cuda_properties_of_text(&h200, H200));
    REQUIRE_OK(cuda_properties_of_text(&t4, T4));
    static const DType types[] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    for (int p = 0; p < PRECISION_COUNT; p++) {
        CHECK_OK(cuda_properties_set_precision(&h200, (Precision)p));
        CHECK_INT(h200.compute, types[p]);
        CHECK_INT(h200.pad, types[p] == DTYPE_F32 ? 4 : 8);
    }
    CHECK_OK(cuda_properties_set_precision(&t4, PRECISION_FP16));
    CHECK_OK(cuda_properties_set_precision(&t4, PRECISION_FP32));
    CHECK_STATUS(cuda_properties_set_precision(&t4, PRECISION_BF16), ERR_ENV);
    CHECK_CONTAINS(status_message(), "Tesla T4");
    CHECK_CONTAINS(status_message(), "bf16");
    CHECK_STATUS(cuda_properties_set_precision(&t4, PRECISION_TF32), ERR_ENV);
    CHECK_CONTAINS(status_message(), "tf32");
}

/* ---- errors ---- */

TEST(errors_say_what_and_why)
{
    CHECK_OK(cuda_status(cudaSuccess, "cudaFree(p)"));
    CHECK_STATUS(cuda_status(cudaErrorMemoryAllocation, "cudaMalloc(&p, bytes)"), ERR_MEMORY);
    CHECK_CONTAINS(status_message(), "cudaMalloc: ");
    CHECK_CONTAINS(status_message(), "cudaErrorMemoryAllocation");
    CHECK_STATUS(cuda_status(cudaErrorNoDevice, "cudaSetDevice"), ERR_ENV);
    CHECK_STATUS(cuda_status(cudaErrorInsufficientDriver, "cudaSetDevice"), ERR_ENV);
    CHECK_STATUS(cuda_status(cudaErrorIllegalAddress, "cudaStreamSynchronize(s)"), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "cudaStreamSynchronize: ");
}
