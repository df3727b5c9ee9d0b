/* test_cuda_linear.c - the linear layer of the CUDA backend: exact results over small whole numbers
 * in every precision, images flattened in the order C,H,W, weights with and without compute copies,
 * f32 rows as input, padding. Runs on the test double (EMU=1) and on a GPU; without either,
 * prepare() alone. */
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/lt_gemm.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <string.h>

typedef struct Case {
    int64_t n, c, h, w, k;
} Case;
static const Case cases[] = {
    { 5, 3, 0, 0, 10 },  { 16, 64, 0, 0, 40 }, { 1, 1, 0, 0, 1 }, /* h == 0: rank 2 */
    { 5, 13, 1, 1, 10 }, { 3, 1, 7, 5, 9 },    { 2, 5, 2, 3, 17 }, { 4, 8, 3, 3, 8 },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static Backend *backend;
static Stream *stream;

static bool open_backend(Precision precision)
{
    CudaOptions o = { .precision = precision };
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(&backend, &o));
    if (backend) CHECK_OK(backend->v->stream_create(backend, LANE_COMPUTE, &stream));
    return backend != NULL;
}

static void close_backend(void)
{
    backend->v->stream_destroy(backend, stream);
    backend_destroy(backend);
    backend = NULL;
}

static TensorDesc x_desc(const Case *c)
{
    return tensor_desc(DTYPE_F32, c->h ? 4 : 2, (int64_t[]){ c->n, c->c, c->h, c->w });
}

static int64_t inputs_of(const Case *c)
{
    return c->h ? c->c * c->h * c->w : c->c;
}

static TensorDesc matrix(int64_t rows, int64_t columns)
{
    return tensor_desc(DTYPE_F32, 2, (int64_t[]){ rows, columns });
}

static TensorDesc vector(int64_t count)
{
    return tensor_desc(DTYPE_F32, 1, &count);
}

/* ---- values ---- */

/* -2 .. 2, other ones for each salt. */
static float value(int salt, int64_t i)
{
    uint64_t x = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15U + (uint64_t)salt * 0xD1B54A32D192ED03U;
    x ^= x >> 29;
    return (float)((x * 0xBF58476D1CE4E5B9U >> 40) % 5) - 2;
}

enum { SALT_X, SALT_W, SALT_B, SALT_DY, SALT_OTHER_W };

static float *filled(int salt, const TensorDesc *d)
{
    int64_t count = tensor_elements(d);
    float *v = mem_alloc((size_t)count * sizeof *v);
    for (int64_t i = 0; i < count; i++) v[i] = value(salt, i);
    return v;
}

static void make_input(OpTensor *t, int salt)
{
    float *v = filled(salt, &t->desc);
    if (!t->data) CHECK_OK(backend->v->alloc(backend, t->bytes, &t->data));
    CHECK_OK(backend->v->import_tensor(backend, t, v));
    mem_free(v);
}

/* NaN everywhere, padding too. */
static void make_output(OpTensor *t)
{
    CHECK_OK(backend->v->alloc(backend, t->bytes, &t->data));
    CHECK_INT(cudaMemset(t->data, 0xff, t->bytes), cudaSuccess);
    CHECK_INT(cudaDeviceSynchronize(), cudaSuccess);
}

static void read_bytes(void *out, const OpTensor *t)
{
    OpTensor raw = { .desc = { DTYPE_U8, 1, { (int64_t)t->bytes } },
                     .bytes = t->bytes,
                     .data = t->data };
    CHECK_OK(backend->v->export_tensor(backend, &raw, out));
}

/* Padding is zero: the tensor is, byte for byte, what an import of its values makes. */
static void check_padding(const OpTensor *t, const float *values)
{
    OpTensor same = *t;
    unsigned char *got = mem_alloc(t->bytes), *want = mem_alloc(t->bytes);
    CHECK_OK(backend->v->alloc(backend, t->bytes, &same.data));
    CHECK_OK(backend->v->import_tensor(backend, &same, values));
    read_bytes(got, t);
    read_bytes(want, &same);
    CHECK(memcmp(got, want, t->bytes) == 0);
    backend->v->free(backend, same.data);
    mem_free(got);
    mem_free(want);
}

/* scale: how often the gradient was added. Takes want. */
static void check_output(const OpTensor *t, double *want, double scale)
{
    int64_t count = tensor_elements(&t->desc), differ = 0;
    float *got = mem_calloc((size_t)count, sizeof *got);
    CHECK_OK(backend->v->export_tensor(backend, t, got));
    for (int64_t i = 0; i < count; i++) differ += (double)got[i] != scale * want[i];
    CHECK_INT(differ, 0);
    check_padding(t, got);
    mem_free(got);
    mem_free(want);
}

/* ---- what should come out; x is flattened C,H,W as it lies in plain order ---- */

static double *want_y(const Case *c, int w_salt, bool bias)
{
    int64_t inputs = inputs_of(c);
    double *y = mem_alloc((size_t)(c->n * c->k) * sizeof *y);
    for (int64_t i = 0; i < c->n * c->k; i++) {
        int64_t n = i / c->k, k = i % c->k;
        y[i] = bias ? (double)value(SALT_B, k) : 0;
        for (int64_t j = 0; j < inputs; j++)
            y[i] += (double)value(SALT_X, n * inputs + j) * (double)value(w_salt, k * inputs + j);
    }
    return y;
}

static double *want_dx(const Case *c)
{
    int64_t inputs = inputs_of(c);
    double *dx = mem_calloc((size_t)(c->n * inputs), sizeof *dx);
    for (int64_t i = 0; i < c->n * inputs; i++)
        for (int64_t k = 0; k < c->k; k++)
            dx[i] += (double)value(SALT_DY, i / inputs * c->k + k) *
                     (double)value(SALT_W, k * inputs + i % inputs);
    return dx;
}

static double *want_dw(const Case *c)
{
    int64_t inputs = inputs_of(c);
    double *dw = mem_calloc((size_t)(c->k * inputs), sizeof *dw);
    for (int64_t i = 0; i < c->k * inputs; i++)
        for (int64_t n = 0; n < c->n; n++)
            dw[i] += (double)value(SALT_DY, n * c->k + i / inputs) *
                     (double)value(SALT_X, n * inputs + i % inputs);
    return dw;
}

static double *want_db(const Case *c)
{
    double *db = mem_calloc((size_t)c->k, sizeof *db);
    for (int64_t k = 0; k < c->k; k++)
        for (int64_t n = 0; n < c->n; n++) db[k] += (double)value(SALT_DY, n * c->k + k);
    return db;
}

/* ---- running ---- */

static void run_op(OpInstance *op, int times)
{
    const OpImpl *impl = backend->v->ops[op->kind];
    void *workspace = NULL;
    CHECK_OK(backend->v->alloc(backend, op->workspace_bytes, &workspace));
    CHECK_INT(cudaMemset(workspace, 0xff, op->workspace_bytes), cudaSuccess);
    /* the stream does not wait for the legacy one */
    CHECK_INT(cudaDeviceSynchronize(), cudaSuccess);
    op->workspace = workspace;
    CHECK_OK(impl->bind(op));
    for (int i = 0; i < times; i++) CHECK_OK(impl->run(op, stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
    backend->v->free(backend, workspace);
}

static void free_op(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++) backend->v->free(backend, op->in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) backend->v->free(backend, op->out[i].data);
    backend_release_op(op);
}

/* rows_f32: activations of rank 2 come as f32 rows, as another linear layer leaves them. */
static void decide_input(OpTensor *t, bool rows_f32)
{
    if (rows_f32 && t->desc.rank == 2)
        cuda_decide((const CudaBackend *)backend, t, CUDA_ROWS, DTYPE_F32);
}

static void check_forward(const Case *c, bool rows_f32, bool bias)
{
    OpInstance op = { .kind = OP_LINEAR, .backend = backend };
    op.in[LINEAR_IN_X].desc = x_desc(c);
    op.in[LINEAR_IN_W].desc = matrix(c->k, inputs_of(c));
    if (bias) op.in[LINEAR_IN_B].desc = vector(c->k);
    op.out[LINEAR_OUT_Y].desc = matrix(c->n, c->k);
    decide_input(&op.in[LINEAR_IN_X], rows_f32);
    REQUIRE_OK(backend_prepare_op(&op));
    make_input(&op.in[LINEAR_IN_X], SALT_X);
    make_input(&op.in[LINEAR_IN_W], SALT_W);
    if (bias) make_input(&op.in[LINEAR_IN_B], SALT_B);
    make_output(&op.out[LINEAR_OUT_Y]);
    run_op(&op, 2);
    CHECK_INT(op.out[LINEAR_OUT_Y].layout->dtype, DTYPE_F32);
    check_output(&op.out[LINEAR_OUT_Y], want_y(c, SALT_W, bias), 1);
    free_op(&op);
}

static void check_bwd_data(const Case *c, bool rows_f32)
{
    OpInstance op = { .kind = OP_LINEAR_BWD_DATA, .backend = backend };
    op.in[LINEAR_BWD_DATA_IN_DY].desc = matrix(c->n, c->k);
    op.in[LINEAR_BWD_DATA_IN_W].desc = matrix(c->k, inputs_of(c));
    op.out[LINEAR_BWD_DATA_OUT_DX].desc = x_desc(c);
    decide_input(&op.in[LINEAR_BWD_DATA_IN_DY], rows_f32);
    REQUIRE_OK(backend_prepare_op(&op));
    make_input(&op.in[LINEAR_BWD_DATA_IN_DY], SALT_DY);
    make_input(&op.in[LINEAR_BWD_DATA_IN_W], SALT_W);
    make_output(&op.out[LINEAR_BWD_DATA_OUT_DX]);
    run_op(&op, 2);
    CHECK_INT(op.out[LINEAR_BWD_DATA_OUT_DX].layout->dtype,
              ((const CudaBackend *)backend)->compute);
    check_output(&op.out[LINEAR_BWD_DATA_OUT_DX], want_dx(c), 1);
    free_op(&op);
}

static void check_bwd_weights(const Case *c, bool rows_f32, bool accumulate)
{
    OpInstance op = { .kind = OP_LINEAR_BWD_WEIGHTS, .backend = backend, .accumulate = accumulate };
    OpTensor *dw = &op.out[LINEAR_BWD_WEIGHTS_OUT_DW], *db = &op.out[LINEAR_BWD_WEIGHTS_OUT_DB];
    op.in[LINEAR_BWD_WEIGHTS_IN_X].desc = x_desc(c);
    op.in[LINEAR_BWD_WEIGHTS_IN_DY].desc = matrix(c->n, c->k);
    dw->desc = matrix(c->k, inputs_of(c));
    db->desc = vector(c->k);
    decide_input(&op.in[LINEAR_BWD_WEIGHTS_IN_X], rows_f32);
    decide_input(&op.in[LINEAR_BWD_WEIGHTS_IN_DY], rows_f32);
    REQUIRE_OK(backend_prepare_op(&op));
    make_input(&op.in[LINEAR_BWD_WEIGHTS_IN_X], SALT_X);
    make_input(&op.in[LINEAR_BWD_WEIGHTS_IN_DY], SALT_DY);
    if (accumulate) { /* alloc gives zeros */
        CHECK_OK(backend->v->alloc(backend, dw->bytes, &dw->data));
        CHECK_OK(backend->v->alloc(backend, db->bytes, &db->data));
    } else {
        make_output(dw);
        make_output(db);
    }
    run_op(&op, 3);
    check_output(dw, want_dw(c), accumulate ? 3 : 1);
    check_output(db, want_db(c), accumulate ? 3 : 1);
    free_op(&op);
}

static void check_precision(Precision precision)
{
    if (!open_backend(precision)) return;
    for (int i = 0; i < CASES; i++)
        for (int rows_f32 = 0; rows_f32 < 2; rows_f32++) {
            check_forward(&cases[i], rows_f32, true);
            check_bwd_data(&cases[i], rows_f32);
            check_bwd_weights(&cases[i], rows_f32, false);
            check_bwd_weights(&cases[i], rows_f32, true);
        }
    check_forward(&cases[0], false, false);
    close_backend();
}

TEST(exact_in_fp32)
{
    check_precision(PRECISION_FP32);
}
TEST(exact_in_tf32)
{
    check_precision(PRECISION_TF32);
}
TEST(exact_in_bf16)
{
    check_precision(PRECISION_BF16);
}
TEST(exact_in_fp16)
{
    check_precision(PRECISION_FP16);
}

/* The copy is read, not the weights: it is left behind on purpose. */
TEST(compute_copies_are_read)
{
    if (!open_backend(PRECISION_BF16)) return;
    const Case *c = &cases[1];
    const size_t before = 4096;
    OpInstance op = { .kind = OP_LINEAR, .backend = backend };
    OpTensor *w = &op.in[LINEAR_IN_W];
    void *slab = NULL;
    op.in[LINEAR_IN_X].desc = x_desc(c);
    w->desc = matrix(c->k, inputs_of(c));
    op.out[LINEAR_OUT_Y].desc = matrix(c->n, c->k);
    REQUIRE_OK(backend_prepare_op(&op));
    REQUIRE_OK(backend->v->alloc(backend, before + w->bytes, &slab));
    w->data = (char *)slab + before;
    make_input(&op.in[LINEAR_IN_X], SALT_X);
    make_input(w, SALT_W);
    make_output(&op.out[LINEAR_OUT_Y]);
    CHECK_OK(backend->v->device->params_attach(backend, slab, before + w->bytes));
    CHECK_OK(backend->v->device->params_changed(backend, stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
    make_input(w, SALT_OTHER_W);
    run_op(&op, 1);
    check_output(&op.out[LINEAR_OUT_Y], want_y(c, SALT_W, false), 1);
    w->data = slab;
    free_op(&op);
    close_backend();
}

/* ---- without a device ---- */

static void check_prepare(OpInstance *op, const OpImpl *impl, size_t least_workspace)
{
    CHECK_OK(impl->prepare(op));
    CHECK(op->workspace_bytes >= least_workspace && op->workspace_bytes % 256 == 0);
    CHECK(op->implementation && op->implementation[0]);
    impl->release(op);
    impl->release(op);
}

TEST(prepare_decides_layouts_and_workspace)
{
    CudaBackend b = { .deviceless = true,
                      .precision = PRECISION_BF16,
                      .compute = DTYPE_BF16,
                      .pad = 8,
                      .workspace_limit = (size_t)256 << 20 };
    OpInstance op = { .kind = OP_LINEAR, .backend = &b.base };
    op.in[LINEAR_IN_X].desc = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 64, 1, 28, 28 });
    op.in[LINEAR_IN_W].desc = matrix(10, 784);
    op.in[LINEAR_IN_B].desc = vector(10);
    op.out[LINEAR_OUT_Y].desc = matrix(64, 10);
    check_prepare(&op, &cuda_linear, (size_t)(64 * 784 + 16 * 784) * 2);
    CHECK(op.in[LINEAR_IN_X].layout == cuda_layout(CUDA_NHWC, DTYPE_BF16));
    CHECK(op.in[LINEAR_IN_W].layout == cuda_layout(CUDA_MATRIX, DTYPE_F32));
    CHECK(op.in[LINEAR_IN_B].layout == cuda_layout(CUDA_VECTOR, DTYPE_F32));
    CHECK(op.out[LINEAR_OUT_Y].layout == cuda_layout(CUDA_ROWS, DTYPE_F32));
    CHECK_INT(op.out[LINEAR_OUT_Y].bytes, 64 * 16 * 4);

    OpInstance data = { .kind = OP_LINEAR_BWD_DATA, .backend = &b.base };
    data.in[LINEAR_BWD_DATA_IN_DY].desc = op.out[LINEAR_OUT_Y].desc;
    data.in[LINEAR_BWD_DATA_IN_W] = op.in[LINEAR_IN_W];
    data.out[LINEAR_BWD_DATA_OUT_DX].desc = matrix(64, 784);
    check_prepare(&data, &cuda_linear_bwd_data, 16 * 784 * 2);
    CHECK(data.in[LINEAR_BWD_DATA_IN_DY].layout == cuda_layout(CUDA_ROWS, DTYPE_BF16));
    CHECK(data.out[LINEAR_BWD_DATA_OUT_DX].layout == cuda_layout(CUDA_ROWS, DTYPE_BF16));
}

TEST(a_plan_without_a_device_cannot_run)
{
    CudaBackend b = {
        .deviceless = true, .compute = DTYPE_F32, .pad = 4, .workspace_limit = 1 << 20
    };
    const LtGemm g = {
        .m = 4, .n = 8, .k = 12, .lda = 12, .ldb = 8, .ldd = 8, .ab = DTYPE_F32, .d = DTYPE_F32
    };
    LtGemmPlan *p = NULL;
    float a[48] = { 0 }, m[96] = { 0 }, d[32] = { 0 };
    REQUIRE_OK(lt_gemm_plan_create(&p, &b, &g));
    CHECK(lt_gemm_plan_workspace(p) > 0 && lt_gemm_plan_workspace(p) <= b.workspace_limit);
    CHECK_STATUS(lt_gemm_plan_run(p, NULL, a, m, NULL, d, a), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "without a device");
    lt_gemm_plan_destroy(p);
    lt_gemm_plan_destroy(NULL);
}

TEST(the_library_tells_its_version_or_what_is_missing)
{
    char text[256] = "";
    bool found = lt_gemm_version(text, sizeof text);
    CHECK_CONTAINS(text, found ? "cuBLASLt " : "cuBLASLt cannot be opened: ");
    CHECK(lt_gemm_compiled_version()[0] != '\0');
}
