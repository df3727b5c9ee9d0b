/* The CPU backend's memory: layouts, views, export and import, and a convolution's weights shared
 * by two batch sizes. */
#include "kernels/cpu/steps.h"
#include "kernels/cpu/view.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Backend *backend;
static CpuBackend *cpu;

static const Precision precisions[] = { PRECISION_FP32, PRECISION_BF16 };

static void start_in(Precision precision)
{
    REQUIRE_OK(backend_cpu_create(&backend, &(CpuOptions){ .threads = 2, .precision = precision }));
    cpu = (CpuBackend *)backend;
}

static void start(void)
{
    start_in(PRECISION_FP32);
}

/* As an activation keeps it. */
static double kept(double v)
{
    return cpu->compute == DTYPE_BF16 ? (double)float_from_bf16(float_to_bf16((float)v)) : v;
}

static TensorDesc f32x4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return tensor_desc(DTYPE_F32, 4, (int64_t[]){ a, b, c, d });
}

/* Whole numbers, so that sums are exact in any order; none of them zero, so that padding shows. */
static float *numbers(const TensorDesc *d, int start_at)
{
    int64_t n = tensor_elements(d);
    void *p;
    if (backend->v->alloc(backend, (size_t)n * sizeof(float), &p) != OK) abort();
    for (int64_t i = 0; i < n; i++) ((float *)p)[i] = (float)((i * 7 + start_at) % 5 - 7);
    return p;
}

static void fill(OpTensor *t, int start_at)
{
    float *host = numbers(&t->desc, start_at);
    REQUIRE_OK(backend->v->alloc(backend, t->bytes, &t->data));
    memset(t->data, 0xff, t->bytes);
    CHECK_OK(backend->v->import_tensor(backend, t, host));
    backend->v->free(backend, host);
}

static void run(OpInstance *op)
{
    Stream *stream;
    REQUIRE_OK(backend->v->stream_create(backend, LANE_COMPUTE, &stream));
    if (op->workspace_bytes)
        REQUIRE_OK(backend->v->alloc(backend, op->workspace_bytes, &op->workspace));
    CHECK_OK(backend->v->ops[op->kind]->bind(op));
    CHECK_OK(backend->v->ops[op->kind]->run(op, stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
    backend->v->stream_destroy(backend, stream);
}

/* import, export and import again must give the same bits, padding included. */
static void check_round_trip(OpTensor *t)
{
    size_t plain = tensor_plain_bytes(&t->desc);
    void *again, *out;
    fill(t, 0);
    float *host = numbers(&t->desc, 0);
    REQUIRE_OK(backend->v->alloc(backend, plain, &out));
    REQUIRE_OK(backend->v->alloc(backend, t->bytes, &again));
    CHECK_OK(backend->v->export_tensor(backend, t, out));
    CHECK(memcmp(out, host, plain) == 0);
    OpTensor copy = *t;
    copy.data = again;
    CHECK_OK(backend->v->import_tensor(backend, &copy, out));
    CHECK(memcmp(again, t->data, t->bytes) == 0);
    const float *stored = t->data;
    int64_t zeros = 0;
    const bool halves = t->layout && t->layout->type == DTYPE_BF16;
    if (halves) CHECK_INT(t->bytes * 2, plain); /* rows have no padding */
    for (size_t i = 0; !halves && i < t->bytes / sizeof(float); i++) zeros += stored[i] == 0.0F;
    CHECK_INT(zeros, halves ? 0 : (t->bytes - plain) / sizeof(float));
    backend->v->free(backend, host);
    backend->v->free(backend, out);
    backend->v->free(backend, again);
    backend->v->free(backend, t->data);
}

static void prepare_conv(OpInstance *op, const Conv2dAttr *attr, TensorDesc x, TensorDesc w)
{
    *op = (OpInstance){ .kind = OP_CONV2D, .backend = backend, .attr = attr };
    op->in[CONV_IN_X].desc = x;
    op->in[CONV_IN_W].desc = w;
    REQUIRE_OK(op_infer(OP_CONV2D, attr, (const TensorDesc *[OP_MAX_INPUTS]){ &x, &w },
                        (bool[]){ true }, &op->out[CONV_OUT_Y].desc));
    REQUIRE_OK(backend_prepare_op(op));
}

TEST(activations_are_blocked_from_one_block_on)
{
    start();
    TensorDesc images = f32x4(2, 3, 5, 7), odd = f32x4(2, cpu->block + 4, 5, 7),
               flat = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 4, 64 });
    size_t bytes;
    CHECK(cpu_layout_of_activation(cpu, &images, &bytes) == NULL);
    CHECK_INT(bytes, 2 * 3 * 5 * 7 * 4);
    CHECK(cpu_layout_of_activation(cpu, &flat, &bytes) == NULL);
    const Layout *layout = cpu_layout_of_activation(cpu, &odd, &bytes);
    CHECK(layout != NULL);
    CHECK_INT(bytes, 2 * 2 * cpu->block * 5 * 7 * 4);
    CHECK(cpu_layout_of_activation(cpu, &odd, &bytes) == layout);
    OpTensor t = { .desc = odd };
    cpu_view_decide(cpu, &t);
    CpuView v = cpu_view(&t);
    CHECK_INT(v.b, cpu->block);
    CHECK_INT(v.cb, 2);
    CHECK_INT(v.c, cpu->block + 4);
    CHECK_INT(v.hw, 35);
    OpTensor plain = { .desc = odd };
    cpu_decide_plain(&plain);
    CHECK(plain.layout == NULL);
    CHECK_INT(cpu_view(&plain).b, 1);
    CHECK_INT(cpu_view(&plain).cb, cpu->block + 4);
    OpTensor rows = { .desc = flat };
    cpu_view_decide(cpu, &rows);
    v = cpu_view(&rows);
    CHECK(v.n == 4 && v.c == 64 && v.b == 1 && v.cb == 64 && v.h == 1 && v.w == 1 && v.hw == 1);
    backend_destroy(backend);
}

TEST(blocked_elements_are_where_the_view_says)
{
    start();
    OpTensor t = { .desc = f32x4(2, cpu->block + 4, 3, 2) };
    cpu_view_decide(cpu, &t);
    fill(&t, 3);
    CpuView v = cpu_view(&t);
    float *host = numbers(&t.desc, 3);
    const float *data = t.data;
    int64_t wrong = 0;
    for (int64_t n = 0; n < v.n; n++)
        for (int64_t c = 0; c < v.c; c++)
            for (int64_t i = 0; i < v.hw; i++)
                wrong += data[((n * v.cb + c / v.b) * v.hw + i) * v.b + c % v.b] !=
                         host[(n * v.c + c) * v.hw + i];
    CHECK_INT(wrong, 0);
    backend->v->free(backend, host);
    backend->v->free(backend, t.data);
    backend_destroy(backend);
}

TEST(shares_cover_everything_once)
{
    for (int64_t total = 0; total < 20; total++)
        for (int parts = 1; parts < 7; parts++) {
            int64_t at = 0;
            for (int part = 0; part < parts; part++) {
                int64_t first, last;
                cpu_share(total, part, parts, &first, &last);
                CHECK_INT(first, at);
                CHECK(last >= first && last - first <= total / parts + 1);
                at = last;
            }
            CHECK_INT(at, total);
        }
}

TEST(tensors_survive_export_and_import)
{
    static const struct {
        int64_t x[4], w[4];
        Conv2dAttr attr;
    } rows[] = {
        { { 2, 3, 32, 32 }, { 64, 3, 7, 7 }, { 2, 2, 3, 3, 3, 3, 1 } },
        { { 2, 12, 6, 6 }, { 12, 12, 3, 3 }, { 1, 1, 1, 1, 1, 1, 1 } },
        { { 2, 64, 8, 8 }, { 128, 64, 1, 1 }, { 2, 2, 0, 0, 0, 0, 1 } },
        { { 2, 32, 6, 6 }, { 32, 16, 3, 3 }, { 1, 1, 1, 1, 1, 1, 2 } },
        { { 2, 20, 6, 6 }, { 20, 1, 3, 3 }, { 1, 1, 1, 1, 1, 1, 20 } },
        { { 2, 16, 1, 1 }, { 24, 16, 3, 3 }, { 1, 1, 1, 1, 1, 1, 1 } },
        { { 2, 1, 28, 28 }, { 64, 1, 7, 7 }, { 2, 2, 3, 3, 3, 3, 1 } },
    };
    const size_t count = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < 2 * count; i++) {
        const size_t row = i % count;
        OpInstance op;
        start_in(precisions[i / count]);
        prepare_conv(&op, &rows[row].attr, tensor_desc(DTYPE_F32, 4, rows[row].x),
                     tensor_desc(DTYPE_F32, 4, rows[row].w));
        check_round_trip(&op.in[CONV_IN_X]);
        check_round_trip(&op.in[CONV_IN_W]);
        check_round_trip(&op.out[CONV_OUT_Y]);
        backend_release_op(&op);
        backend_destroy(backend);
    }
}

/* To nearest even, with nothing lost that bf16 has: what was exported once is imported as the same
 * bits. */
TEST(activations_are_rounded_once)
{
    static const uint32_t bits[] = { 0x3f800000,
                                     0x3f808000 /* a tie */,
                                     0x3f818000 /* another */,
                                     0x3f808001,
                                     0x80000000,
                                     0x00010000 /* subnormal */,
                                     0x7f7fffff,
                                     0xff800000,
                                     0x7fc00000 },
                          want[] = { 0x3f800000, 0x3f800000, 0x3f820000, 0x3f810000, 0x80000000,
                                     0x00010000, 0x7f800000, 0xff800000, 0x7fc00000 };
    enum { COUNT = sizeof bits / sizeof bits[0] };
    uint32_t got[COUNT];
    for (int rank = 2; rank <= 4; rank += 2) {
        start_in(PRECISION_BF16);
        OpTensor t = { .desc = tensor_desc(DTYPE_F32, rank, (int64_t[]){ 1, COUNT, 1, 1 }) };
        cpu_view_decide(cpu, &t);
        CHECK_INT(t.bytes, COUNT * 2);
        REQUIRE_OK(backend->v->alloc(backend, t.bytes, &t.data));
        for (int time = 0; time < 2; time++) {
            CHECK_OK(backend->v->import_tensor(backend, &t, time ? got : bits));
            CHECK_OK(backend->v->export_tensor(backend, &t, got));
            CHECK(memcmp(got, want, sizeof want) == 0);
        }
        backend->v->free(backend, t.data);
        backend_destroy(backend);
    }
}

/* Weights and their gradients stay f32, and the primitive that makes these writes them where they
 * belong. */
TEST(bf16_leaves_weights_wide)
{
    start_in(PRECISION_BF16);
    const bool emulated = backend_cpu_bf16() == CPU_BF16_NONE;
    Conv2dAttr attr = { 1, 1, 1, 1, 1, 1, 1 };
    OpInstance op, back = { .kind = OP_CONV2D_BWD_WEIGHTS, .backend = backend, .attr = &attr };
    prepare_conv(&op, &attr, f32x4(2, 32, 8, 8), f32x4(48, 32, 3, 3));
    CHECK(op.in[CONV_IN_X].layout->rows && op.out[CONV_OUT_Y].layout->type == DTYPE_BF16);
    CHECK_INT(op.in[CONV_IN_W].bytes, 48 * 32 * 9 * 4);
    CHECK((strncmp(op.implementation, "emulated ", 9) == 0) == emulated);
    back.in[CONV_BWD_WEIGHTS_IN_X] = op.in[CONV_IN_X];
    back.in[CONV_BWD_WEIGHTS_IN_DY] = op.out[CONV_OUT_Y];
    back.out[CONV_BWD_WEIGHTS_OUT_DW] = op.in[CONV_IN_W];
    CHECK_OK(backend_prepare_op(&back));
    if (!emulated) CHECK_INT(((const CpuSteps *)back.state)->count, 1);
    backend_release_op(&op);
    backend_release_op(&back);
    backend_destroy(backend);
}

/* Weights that one batch size placed are read by another; on a 1x1 image all but the centre tap is
 * padding. */
static void check_two_batches(void)
{
    Conv2dAttr attr = { 1, 1, 1, 1, 1, 1, 1 };
    OpInstance first, second;
    TensorDesc w = f32x4(24, 12, 3, 3);
    prepare_conv(&first, &attr, f32x4(4, 12, 5, 5), w);
    second = (OpInstance){ .kind = OP_CONV2D, .backend = backend, .attr = &attr };
    second.in[CONV_IN_X].desc = f32x4(1, 12, 1, 1);
    second.in[CONV_IN_W] = first.in[CONV_IN_W];
    second.out[CONV_OUT_Y].desc = f32x4(1, 24, 1, 1);
    REQUIRE_OK(backend_prepare_op(&second));
    CHECK(second.in[CONV_IN_W].layout == first.in[CONV_IN_W].layout);
    for (int i = 0; i < 2; i++) fill(&second.in[i], i);
    fill(&second.out[0], 0);
    run(&second);
    float *x = numbers(&second.in[CONV_IN_X].desc, 0), *weights = numbers(&w, 1), y[24];
    CHECK_OK(backend->v->export_tensor(backend, &second.out[0], y));
    for (int k = 0; k < 24; k++) {
        double sum = 0;
        for (int c = 0; c < 12; c++) sum += (double)x[c] * (double)weights[(k * 12 + c) * 9 + 4];
        CHECK_NEAR(y[k], kept(sum), 0);
    }
    backend_release_op(&first);
    backend_release_op(&second);
    backend->v->free(backend, x);
    backend->v->free(backend, weights);
    for (int i = 0; i < 2; i++) backend->v->free(backend, second.in[i].data);
    backend->v->free(backend, second.out[0].data);
    backend->v->free(backend, second.workspace);
    backend_destroy(backend);
}

TEST(weights_placed_by_one_batch_serve_another)
{
    for (int i = 0; i < 2; i++) {
        start_in(precisions[i]);
        check_two_batches();
    }
}

/* The gradient of taps that only see padding is zero, and is added as zero when accumulating. */
TEST(weight_gradient_of_dead_taps)
{
    Conv2dAttr attr = { 1, 1, 1, 1, 1, 1, 1 };
    for (int i = 0; i < 4; i++) {
        const int add = i % 2;
        start_in(precisions[i / 2]);
        OpInstance op = {
            .kind = OP_CONV2D_BWD_WEIGHTS, .backend = backend, .attr = &attr, .accumulate = add != 0
        };
        op.in[CONV_BWD_WEIGHTS_IN_X].desc = f32x4(3, 12, 1, 1);
        op.in[CONV_BWD_WEIGHTS_IN_DY].desc = f32x4(3, 16, 1, 1);
        op.out[CONV_BWD_WEIGHTS_OUT_DW].desc = f32x4(16, 12, 3, 3);
        REQUIRE_OK(backend_prepare_op(&op));
        fill(&op.in[0], 0);
        fill(&op.in[1], 1);
        fill(&op.out[0], 2);
        run(&op);
        float *x = numbers(&op.in[0].desc, 0), *dy = numbers(&op.in[1].desc, 1),
              *before = numbers(&op.out[0].desc, 2), dw[16 * 12 * 9];
        CHECK_OK(backend->v->export_tensor(backend, &op.out[0], dw));
        int wrong = 0;
        for (int e = 0; e < 16 * 12 * 9; e++) {
            int k = e / 108, c = e / 9 % 12;
            double want = add ? (double)before[e] : 0.0;
            for (int n = 0; e % 9 == 4 && n < 3; n++)
                want += (double)x[n * 12 + c] * (double)dy[n * 16 + k];
            wrong += (double)dw[e] != want;
        }
        CHECK_INT(wrong, 0);
        float *owned[] = {
            x, dy, before, op.in[0].data, op.in[1].data, op.out[0].data, op.workspace
        };
        for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++)
            backend->v->free(backend, owned[k]);
        backend_release_op(&op);
        backend_destroy(backend);
    }
}

/* The gradient of data or weights of a prepared convolution. */
static OpInstance gradient_of(const OpInstance *op, bool weights)
{
    OpInstance back = { .kind = weights ? OP_CONV2D_BWD_WEIGHTS : OP_CONV2D_BWD_DATA,
                        .backend = backend,
                        .attr = op->attr };
    back.in[0] = weights ? op->in[CONV_IN_X] : op->out[CONV_OUT_Y];
    back.in[1] = weights ? op->out[CONV_OUT_Y] : op->in[CONV_IN_W];
    back.out[0] = weights ? op->in[CONV_IN_W] : op->in[CONV_IN_X];
    return back;
}

TEST(no_convolution_of_our_networks_falls_back_to_a_reference)
{
    static const int64_t rows[][6] = {
        /* channels, size, filters, window, stride, pad: among them the awkward ones */
        { 3, 224, 64, 7, 2, 3 },  { 1, 28, 64, 7, 2, 3 },   { 64, 7, 128, 1, 2, 0 },
        { 256, 2, 256, 3, 1, 1 }, { 256, 2, 512, 3, 2, 1 }, { 512, 1, 512, 3, 1, 1 },
        { 3, 32, 16, 3, 1, 1 },   { 12, 4, 12, 3, 1, 1 },   { 4, 8, 4, 3, 1, 1 },
    };
    const size_t count = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < 2 * count; i++) {
        const int64_t *r = rows[i % count];
        start_in(precisions[i / count]);
        Conv2dAttr attr = { (int)r[4], (int)r[4], (int)r[5], (int)r[5], (int)r[5], (int)r[5], 1 };
        OpInstance op;
        prepare_conv(&op, &attr, f32x4(2, r[0], r[1], r[1]), f32x4(r[2], r[0], r[3], r[3]));
        CHECK(!strstr(op.implementation, "ref"));
        for (int k = 0; k < 2; k++) {
            OpInstance back = gradient_of(&op, k);
            CHECK_OK(backend_prepare_op(&back));
            CHECK(!strstr(back.implementation, "ref"));
            backend_release_op(&back);
        }
        backend_release_op(&op);
        backend_destroy(backend);
    }
}

typedef struct ProductRow {
    int64_t channels, size, filters, window, stride, pad;
    bool data, weights; /* whether the gradient is a product */
} ProductRow;

/* Which gradients of it are products, of data 1 and of weights 2; or those by AMX alone. */
static int products_of(const ProductRow *row, bool every, bool by_amx)
{
    const CpuOptions o = { .threads = 2,
                           .precision = PRECISION_BF16,
                           .products = every ? CPU_USE_EVERY : CPU_USE_FAST };
    const int s = (int)row->stride, p = (int)row->pad;
    Conv2dAttr attr = { s, s, p, p, p, p, 1 };
    OpInstance op;
    int found = 0;
    if (backend_cpu_create(&backend, &o) != OK) abort();
    cpu = (CpuBackend *)backend;
    prepare_conv(&op, &attr, f32x4(2, row->channels, row->size, row->size),
                 f32x4(row->filters, row->channels, row->window, row->window));
    for (int weights = 0; weights < 2; weights++) {
        OpInstance back = gradient_of(&op, weights);
        CHECK_OK(backend_prepare_op(&back));
        const char *name = back.implementation;
        if (strncmp(name, "matmul ", 7) == 0 && (!by_amx || strstr(name, "amx")))
            found |= 1 << weights;
        backend_release_op(&back);
    }
    backend_release_op(&op);
    backend_destroy(backend);
    return found;
}

TEST(gradients_are_products_where_that_pays)
{
    static const ProductRow rows[] = {
        { 64, 14, 128, 1, 1, 0, false, true },  { 64, 14, 128, 1, 2, 0, true, true },
        { 64, 7, 64, 3, 1, 1, false, true },    { 64, 8, 64, 3, 1, 1, false, false },
        { 64, 28, 128, 3, 2, 1, false, false },
    };
    const CpuBf16 has = backend_cpu_bf16();
    int any = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ProductRow *row = &rows[i];
        const int wanted = has == CPU_BF16_NONE ? 0 : row->data + 2 * row->weights;
        /* of data without a stride: in the place of some of oneDNN's implementations alone */
        const int open = row->window == 1 && row->stride == 1;
        const int amx = products_of(row, true, true);
        CHECK_INT(products_of(row, true, false) | open, wanted | open);
        CHECK_INT(products_of(row, false, false), amx);
        any |= amx;
    }
    CHECK((has == CPU_BF16_AMX) == (any != 0));
}

TEST(ranks_are_told_apart_by_the_library_alone)
{
    start();
    const uint32_t two = backend->v->fingerprint(backend);
    const CpuOptions one = { .threads = 1 };
    backend_destroy(backend);
    REQUIRE_OK(backend_cpu_create(&backend, &one));
    CHECK(two != 0 && backend->v->fingerprint(backend) == two);
    backend_destroy(backend);
}

TEST(describes_itself)
{
    start();
    char text[128];
    backend->v->describe(backend, text, sizeof text);
    CHECK_CONTAINS(text, "oneDNN ");
    CHECK_CONTAINS(text, "2 threads");
    backend_destroy(backend);
}

/* The description names the instruction set from which the other answer comes. */
TEST(bf16_is_what_the_instruction_set_has)
{
    static const char *const sets[CPU_BF16_COUNT] = { [CPU_BF16_EMULATED] = ", AVX-512",
                                                      [CPU_BF16_AVX512] = ", AVX-512 BF16,",
                                                      [CPU_BF16_AMD] = ", AVX-512 BF16,",
                                                      [CPU_BF16_AMX] = ", AMX," };
    char text[128];
    start();
    backend->v->describe(backend, text, sizeof text);
    const CpuBf16 has = backend_cpu_bf16();
    CHECK(strlen(cpu_bf16_names[has]) > 0);
    CHECK((cpu->block == 16) == (has != CPU_BF16_NONE));
    if (sets[has]) CHECK_CONTAINS(text, sets[has]);
    backend_destroy(backend);
}
