/* test_cuda_conv2d.c - what the op checks do not reach of the CUDA convolutions: compute copies of
 * the weights, other addresses, gradients summed in f32, groups that do not fit. Runs on the test
 * double (EMU=1) and on a GPU; where there is neither, that is said and nothing is tested. */
#include "base/fs.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 2,
    C = 8,
    H = 5,
    K = 16,
    R = 3,
    W_COUNT = K * C * R * R,
    X_COUNT = N * C * H * H,
    Y_COUNT = N * K * H * H
};

static Backend *backend;
static Stream *stream;
static const Conv2dAttr same_size = { 1, 1, 1, 1, 1, 1, 1 };
static const TensorDesc x_desc = { DTYPE_F32, 4, { N, C, H, H } },
                        w_desc = { DTYPE_F32, 4, { K, C, R, R } },
                        y_desc = { DTYPE_F32, 4, { N, K, H, H } };

static bool open_backend(Precision precision)
{
    const CudaOptions o = { .precision = precision };
    if (!cuda_is_there()) return false;
    return test_check_status(backend_cuda_create(&backend, &o), OK, __FILE__, __LINE__,
                             "backend") &&
           test_check_status(backend->v->stream_create(backend, LANE_COMPUTE, &stream), OK,
                             __FILE__, __LINE__, "stream");
}

static void close_backend(void)
{
    backend->v->stream_destroy(backend, stream);
    backend_destroy(backend);
}

static void *alloc(size_t bytes)
{
    void *p = NULL;
    CHECK_OK(backend->v->alloc(backend, bytes, &p));
    return p;
}

/* Values that every compute type holds, different for every seed. */
static void fill(OpTensor *t, int seed)
{
    static float values[X_COUNT + W_COUNT + Y_COUNT];
    const int64_t count = tensor_elements(&t->desc);
    for (int64_t i = 0; i < count; i++) values[i] = (float)((i * 7 + seed * 5) % 13 - 6) / 4;
    CHECK_OK(backend->v->import_tensor(backend, t, values));
}

static void take(const OpTensor *t, float *out)
{
    CHECK_OK(backend->v->export_tensor(backend, t, out));
}

/* Prepares an op and gives its tensors memory of their own; data that is given is kept. */
static void make_op(OpInstance *op)
{
    op->backend = backend;
    op->attr = &same_size;
    REQUIRE_OK(backend_prepare_op(op));
    for (int i = 0; i < 2; i++)
        if (!op->in[i].data) op->in[i].data = alloc(op->in[i].bytes);
    if (!op->out[0].data) op->out[0].data = alloc(op->out[0].bytes);
    op->workspace = alloc(op->workspace_bytes);
}

static void bind_and_run(OpInstance *op)
{
    const OpImpl *impl = backend->v->ops[op->kind];
    CHECK_OK(impl->bind(op));
    CHECK_OK(impl->run(op, stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
}

static OpInstance forward_op(void)
{
    return (OpInstance){ .kind = OP_CONV2D,
                         .in = { { .desc = x_desc }, { .desc = w_desc } },
                         .out = { { .desc = y_desc } } };
}
static OpInstance bwd_data_op(void)
{
    return (OpInstance){ .kind = OP_CONV2D_BWD_DATA,
                         .in = { { .desc = y_desc }, { .desc = w_desc } },
                         .out = { { .desc = x_desc } } };
}
static OpInstance bwd_weights_op(bool accumulate)
{
    return (OpInstance){ .kind = OP_CONV2D_BWD_WEIGHTS,
                         .accumulate = accumulate,
                         .in = { { .desc = x_desc }, { .desc = y_desc } },
                         .out = { { .desc = w_desc } } };
}

/* With weights in an attached slab, what is computed is that of weights elsewhere, and stays so
 * when the slab changes until the copies are told. */
static void check_copies(OpInstance op)
{
    enum { OFFSET = 512, COUNT = X_COUNT > Y_COUNT ? X_COUNT : Y_COUNT };
    static float apart[COUNT], attached[COUNT], stale[COUNT], fresh[COUNT];
    OpInstance other = op;
    make_op(&op);
    fill(&op.in[0], 1);
    fill(&op.in[1], 2);
    bind_and_run(&op);
    take(&op.out[0], apart);

    char *slab = alloc(OFFSET + op.in[1].bytes);
    other.in[1].data = slab + OFFSET;
    make_op(&other);
    fill(&other.in[0], 1);
    fill(&other.in[1], 2);
    CHECK_OK(backend->v->device->params_attach(backend, slab, OFFSET + op.in[1].bytes));
    CHECK_OK(backend->v->device->params_changed(backend, stream));
    bind_and_run(&other);
    take(&other.out[0], attached);
    fill(&other.in[1], 3);
    bind_and_run(&other);
    take(&other.out[0], stale);
    CHECK_OK(backend->v->device->params_changed(backend, stream));
    bind_and_run(&other);
    take(&other.out[0], fresh);
    const size_t bytes = (size_t)tensor_elements(&op.out[0].desc) * sizeof(float);
    const bool halves = ((CudaBackend *)backend)->compute != DTYPE_F32;
    CHECK(memcmp(apart, attached, bytes) == 0);
    CHECK((memcmp(attached, stale, bytes) == 0) == halves); /* in f32 there are no copies */
    CHECK(memcmp(stale, fresh, bytes) != 0 || !halves);
    backend_release_op(&op);
    backend_release_op(&other);
}

TEST(compute_copies_of_weights_are_read)
{
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        if (!open_backend((Precision)precision)) return;
        check_copies(forward_op());
        close_backend();
        if (!open_backend((Precision)precision)) return;
        check_copies(bwd_data_op());
        close_backend();
    }
}

TEST(bound_anew_an_op_uses_the_new_addresses)
{
    static float first[Y_COUNT], again[Y_COUNT], other[Y_COUNT];
    if (!open_backend(PRECISION_BF16)) return;
    OpInstance op = forward_op();
    make_op(&op);
    fill(&op.in[0], 1);
    fill(&op.in[1], 2);
    bind_and_run(&op);
    take(&op.out[0], first);
    void *x = op.in[0].data, *y = op.out[0].data;
    op.in[0].data = alloc(op.in[0].bytes);
    op.out[0].data = alloc(op.out[0].bytes);
    op.workspace = alloc(op.workspace_bytes);
    fill(&op.in[0], 4);
    bind_and_run(&op);
    take(&op.out[0], other);
    op.in[0].data = x;
    op.out[0].data = y;
    bind_and_run(&op);
    take(&op.out[0], again);
    CHECK(memcmp(first, other, sizeof first) != 0);
    CHECK(memcmp(first, again, sizeof first) == 0);
    backend_release_op(&op);
    close_backend();
}

/* What comes out of a convolution in 16 bits is rounded once; sums over micro-batches are f32. */
static void check_sums(Precision precision)
{
    static float one[W_COUNT], sum[W_COUNT];
    if (!open_backend(precision)) return;
    OpInstance set = bwd_weights_op(false), add = bwd_weights_op(true);
    make_op(&set);
    add.out[0].data = set.out[0].data;
    make_op(&add);
    for (int i = 0; i < 2; i++) {
        fill(&set.in[i], i);
        fill(&add.in[i], i);
    }
    bind_and_run(&set);
    take(&set.out[0], one);
    bind_and_run(&add);
    bind_and_run(&add);
    take(&set.out[0], sum);
    for (int i = 0; i < W_COUNT; i++) {
        const float v = one[i];
        const double size = v < 0 ? -(double)v : (double)v;
        if (precision == PRECISION_BF16) CHECK(float_from_bf16(float_to_bf16(v)) == v);
        if (precision == PRECISION_FP16) CHECK(float_from_f16(float_to_f16(v)) == v);
        CHECK_NEAR(sum[i], v + v + v, 1e-5 * (1 + size));
    }
    backend_release_op(&set);
    backend_release_op(&add);
    close_backend();
}

TEST(gradients_of_weights_are_summed_in_f32)
{
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        check_sums((Precision)precision);
}

/* ---- gradients that wait for each other ---- */

enum { ROW = 3 };

/* What each op's dw holds. */
static void take_row(const OpInstance *row, float (*out)[W_COUNT])
{
    for (int i = 0; i < ROW; i++) take(&row[i].out[0], out[i]);
}

static void run_row(OpInstance *row, int from, int to)
{
    for (int i = from; i < to; i++) CHECK_OK(backend->v->ops[row[i].kind]->run(&row[i], stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
}

static void check_row(Precision precision, bool accumulate)
{
    static float start[ROW][W_COUNT], alone[ROW][W_COUNT], got[ROW][W_COUNT];
    const DeviceVTable *d = backend->v->device;
    OpInstance row[ROW], *ops[ROW];
    size_t bytes = 0;
    for (int i = 0; i < ROW; i++) {
        ops[i] = &row[i];
        row[i] = bwd_weights_op(accumulate);
        make_op(&row[i]);
        fill(&row[i].in[0], i);
        fill(&row[i].in[1], 2 * i + 1);
        fill(&row[i].out[0], i + 5);
        CHECK_OK(backend->v->ops[row[i].kind]->bind(&row[i]));
        bytes += d->staging_bytes(&row[i]);
    }
    take_row(row, start);
    run_row(row, 0, ROW);
    take_row(row, alone);
    if (precision == PRECISION_FP32) {
        CHECK_INT(bytes, 0); /* f32 is written as it is */
    } else {
        CHECK(bytes >= ROW * W_COUNT * sizeof(uint16_t));
        void *memory = alloc(bytes);
        CHECK_OK(d->stage(ops, ROW, memory));
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < ROW; i++) fill(&row[i].out[0], i + 5);
            run_row(row, 0, ROW - 1);
            take_row(row, got);
            CHECK(memcmp(got, start, sizeof got) == 0); /* not before the last */
            run_row(row, ROW - 1, ROW);
            take_row(row, got);
            CHECK(memcmp(got, alone, sizeof got) == 0);
        }
        CHECK_OK(d->stage(&ops[1], 1, memory)); /* said anew, it ends a row of its own */
        fill(&row[1].out[0], 6);
        run_row(row, 1, 2);
        take_row(row, got);
        CHECK(memcmp(got[1], alone[1], sizeof got[1]) == 0);
        backend->v->free(backend, memory);
    }
    for (int i = 0; i < ROW; i++) backend_release_op(&row[i]);
}

TEST(staged_gradients_are_converted_by_the_last_of_their_row)
{
    static const Precision precisions[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
    for (int i = 0; i < 6; i++) {
        if (!open_backend(precisions[i / 2])) return;
        check_row(precisions[i / 2], i % 2 != 0);
        close_backend();
    }
}

/* A described device will do. */
TEST(plain_f32_has_more_scratch_than_16_bits)
{
    uint8_t *properties = NULL;
    size_t bytes = 0;
    REQUIRE_OK(fs_read_file("configs/gpus/h200.json", &properties, &bytes));
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        const bool halves = precision == PRECISION_BF16 || precision == PRECISION_FP16;
        CudaOptions o = { .precision = (Precision)precision,
                          .properties = (const char *)properties };
        for (int given = 0; given < 2; given++) {
            Backend *b = NULL;
            o.workspace_limit = given ? (size_t)5 << 20 : 0;
            if (backend_cuda_create(&b, &o) == ERR_ENV) break; /* no cuDNN on this machine */
            REQUIRE(b != NULL);
            CHECK_INT(((CudaBackend *)b)->workspace_limit >> 20, given ? 5 : halves ? 256 : 2048);
            backend_destroy(b);
        }
    }
    mem_free(properties);
}

TEST(groups_that_do_not_fit_are_refused)
{
    if (!open_backend(PRECISION_BF16)) return;
    Conv2dAttr groups = same_size;
    groups.groups = 13;
    OpInstance op = { .kind = OP_CONV2D,
                      .backend = backend,
                      .attr = &groups,
                      .in = { { .desc = { DTYPE_F32, 4, { 1, 13, 6, 6 } } },
                              { .desc = { DTYPE_F32, 4, { 13, 1, 3, 3 } } } },
                      .out = { { .desc = { DTYPE_F32, 4, { 1, 13, 6, 6 } } } } };
    CHECK(backend_prepare_op(&op) != OK);
    CHECK_CONTAINS(status_message(), "13 groups");
    backend_release_op(&op);
    close_backend();
}
