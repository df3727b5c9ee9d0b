/* test_winograd.c - which convolutions are Winograd's, how far they are from exact ones beside
 * direct sums, and their bits for any number of threads. Each result against the reference:
 * tests/ops. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/backend.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>

typedef struct Shape {
    int64_t n, c, h, w, k;
} Shape;

enum { FORWARD, DATA, WEIGHTS, DIRECTIONS };
static const OpKind kinds[DIRECTIONS] = { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS };
static const Conv2dAttr same = { 1, 1, 1, 1, 1, 1, 1 };

typedef struct Run { /* x, w and y of one direction; plain */
    Backend *backend;
    OpInstance op;
    OpTensor *at[3];
} Run;

static void prepare(Run *r, Shape s, const Conv2dAttr *attr, int direction, int threads, CpuUse use)
{
    const int64_t h = (s.h + 2 - 3) / attr->stride_h + 1, w = (s.w + 2 - 3) / attr->stride_w + 1;
    const TensorDesc descs[3] = { tensor_desc(DTYPE_F32, 4, (int64_t[]){ s.n, s.c, s.h, s.w }),
                                  tensor_desc(DTYPE_F32, 4,
                                              (int64_t[]){ s.k, s.c / attr->groups, 3, 3 }),
                                  tensor_desc(DTYPE_F32, 4, (int64_t[]){ s.n, s.k, h, w }) };
    OpInstance *op = &r->op;
    OpTensor *const places[DIRECTIONS][3] = {
        { &op->in[CONV_IN_X], &op->in[CONV_IN_W], &op->out[CONV_OUT_Y] },
        { &op->out[CONV_BWD_DATA_OUT_DX], &op->in[CONV_BWD_DATA_IN_W],
          &op->in[CONV_BWD_DATA_IN_DY] },
        { &op->in[CONV_BWD_WEIGHTS_IN_X], &op->out[CONV_BWD_WEIGHTS_OUT_DW],
          &op->in[CONV_BWD_WEIGHTS_IN_DY] }
    };
    *op = (OpInstance){ .kind = kinds[direction], .attr = attr };
    REQUIRE_OK(
        backend_cpu_create(&r->backend, &(CpuOptions){ .threads = threads, .winograd = use }));
    op->backend = r->backend;
    for (int i = 0; i < 3; i++) {
        r->at[i] = places[direction][i];
        r->at[i]->desc = descs[i];
    }
    REQUIRE_OK(backend_prepare_op(op));
}

static void finish(Run *r)
{
    backend_release_op(&r->op);
    backend_destroy(r->backend);
}

/* values[3]: of x, w and y; what the direction makes is overwritten. */
static void compute(Shape s, int direction, int threads, CpuUse use, float *const *values)
{
    Run r;
    Stream *stream;
    static const int made[DIRECTIONS] = { 2, 0, 1 };
    prepare(&r, s, &same, direction, threads, use);
    CHECK((strstr(r.op.implementation, "winograd") != NULL) == (use != CPU_USE_NONE));
    const BackendVTable *v = r.backend->v;
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(v->alloc(r.backend, r.at[i]->bytes, &r.at[i]->data));
        if (i != made[direction]) REQUIRE_OK(v->import_tensor(r.backend, r.at[i], values[i]));
    }
    REQUIRE_OK(v->alloc(r.backend, r.op.workspace_bytes, &r.op.workspace));
    memset(r.op.workspace, 0xff, r.op.workspace_bytes); /* NaN: nothing may rely on zeros */
    REQUIRE_OK(v->stream_create(r.backend, LANE_COMPUTE, &stream));
    CHECK_OK(v->ops[r.op.kind]->bind(&r.op));
    CHECK_OK(v->ops[r.op.kind]->run(&r.op, stream));
    CHECK_OK(v->export_tensor(r.backend, r.at[made[direction]], values[made[direction]]));
    v->stream_destroy(r.backend, stream);
    for (int i = 0; i < 3; i++) v->free(r.backend, r.at[i]->data);
    v->free(r.backend, r.op.workspace);
    finish(&r);
}

static void sizes_of(Shape s, int64_t *out)
{
    out[0] = s.n * s.c * s.h * s.w;
    out[1] = s.k * s.c * 9;
    out[2] = s.n * s.k * s.h * s.w;
}

static void fill(Shape s, bool relu, float **values)
{
    Rng rng = rng_at(1, RNG_INIT, 2, 3);
    int64_t sizes[3];
    sizes_of(s, sizes);
    for (int i = 0; i < 3; i++) {
        values[i] = mem_calloc((size_t)sizes[i], sizeof *values[i]);
        REQUIRE(values[i]);
        for (int64_t k = 0; k < sizes[i]; k++) {
            const float v = (float)rng_normal(&rng);
            values[i][k] = relu && i == 0 && v < 0 ? 0 : v;
        }
    }
}

static void free_all(float **values)
{
    for (int i = 0; i < 3; i++) mem_free(values[i]);
}

/* ---- errors ---- */

static double pixel(const float *plane, Shape s, int64_t y, int64_t x)
{
    return y < 0 || y >= s.h || x < 0 || x >= s.w ? 0 : (double)plane[y * s.w + x];
}

/* A sum in float64, and the same in float32 one product after the other, as direct sums are. */
typedef struct Sum {
    double exact;
    float direct;
} Sum;

static void add_product(Sum *sum, float a, double b)
{
    sum->exact += (double)a * b;
    sum->direct = fmaf(a, (float)b, sum->direct);
}

/* Element i of what the direction makes. */
static Sum sum_of(Shape s, int direction, float *const *values, int64_t i)
{
    const int64_t plane = s.h * s.w, y = i / s.w % s.h, x = i % s.w;
    Sum sum = { 0 };
    if (direction == WEIGHTS) {
        const int64_t k = i / 9 / s.c, c = i / 9 % s.c, r = i % 9 / 3 - 1, q = i % 3 - 1;
        for (int64_t n = 0; n < s.n; n++)
            for (int64_t p = 0; p < plane; p++)
                add_product(&sum, values[2][(n * s.k + k) * plane + p],
                            pixel(values[0] + (n * s.c + c) * plane, s, p / s.w + r, p % s.w + q));
        return sum;
    }
    const bool back = direction == DATA;
    const int64_t made = back ? s.c : s.k, read = back ? s.k : s.c;
    const int64_t n = i / plane / made, m = i / plane % made;
    for (int64_t l = 0; l < read; l++)
        for (int t = 0; t < 9; t++) {
            const int64_t filter = back ? l * s.c + m : m * s.c + l;
            add_product(&sum, values[1][filter * 9 + (back ? 8 - t : t)],
                        pixel(values[back ? 2 : 0] + (n * read + l) * plane, s, y + t / 3 - 1,
                              x + t % 3 - 1));
        }
    return sum;
}

/* Root of the mean square error of about 500 elements; *plain: that of float32 sums in order. */
static double error_of(Shape s, int direction, float *const *values, CpuUse use, double *plain)
{
    static const int made[DIRECTIONS] = { 2, 0, 1 };
    int64_t sizes[3], count = 0;
    double squares = 0, plain_squares = 0;
    sizes_of(s, sizes);
    const int64_t size = sizes[made[direction]];
    float *kept = mem_calloc((size_t)size, sizeof *kept), *use_values[3];
    CHECK(kept);
    memcpy(use_values, values, sizeof use_values);
    use_values[made[direction]] = kept;
    compute(s, direction, 2, use, use_values);
    for (int64_t i = 0; i < size; i += 1 + size / 500, count++) {
        const Sum sum = sum_of(s, direction, values, i);
        const double off = (double)kept[i] - sum.exact, plain_off = (double)sum.direct - sum.exact;
        squares += off * off;
        plain_squares += plain_off * plain_off;
    }
    mem_free(kept);
    *plain = sqrt(plain_squares / (double)count);
    return sqrt(squares / (double)count);
}

/* Our loops as they run here: oneDNN's use FMA in any build. */
static bool rounds_products(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true; /* CPU_CLONES is empty */
#else
    return !__builtin_cpu_supports("fma");
#endif
}

/* In what pieces oneDNN's direct sums are made depends on the instructions: those with AVX-512 are
 * closer to exact than those with AVX2, which are near sums in order. */
static bool sums_are_avx2s(void)
{
    char text[256] = "";
    Backend *b = NULL;
    CHECK_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    if (b) b->v->describe(b, text, sizeof text);
    backend_destroy(b);
    return strstr(text, ", AVX2,") != NULL;
}

TEST(errors_are_at_most_three_times_those_of_direct_sums)
{
    const double times = rounds_products() ? 4 : 3;
    const bool avx2 = sums_are_avx2s();
    static const Shape shapes[] = { { 4, 64, 16, 16, 64 }, { 2, 128, 14, 14, 128 },
                                    { 4, 256, 7, 7, 256 }, { 8, 32, 16, 16, 32 },
                                    { 2, 64, 28, 28, 64 }, { 3, 48, 20, 12, 192 },
                                    { 9, 32, 9, 13, 96 },  { 4, 96, 15, 15, 48 },
                                    { 2, 64, 33, 31, 32 }, { 16, 64, 8, 8, 64 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int relu = 0; relu < 2; relu++) {
            float *values[3];
            fill(shapes[i], relu, values);
            for (int d = 0; d < DIRECTIONS; d++) {
                double plain, other;
                const double direct = error_of(shapes[i], d, values, CPU_USE_NONE, &other),
                             winograd = error_of(shapes[i], d, values, CPU_USE_EVERY, &plain);
                /* |winograd / direct| from 0 to the limit */
                CHECK_NEAR(winograd / plain, times / 2, times / 2);
                if (avx2) CHECK_NEAR(winograd / direct, times / 2, times / 2);
            }
            free_all(values);
        }
}

/* Half a block of channels; and a block of dw that is added up in two parts. Compared with sums in
 * order alone: oneDNN's dx of so many channels is much closer to exact than those. */
TEST(errors_with_half_blocks_and_in_large_blocks)
{
    static const Shape shapes[] = { { 6, 24, 20, 20, 40 }, { 3, 192, 30, 30, 192 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        float *values[3];
        fill(shapes[i], true, values);
        for (int d = 0; d < DIRECTIONS; d++) {
            double plain;
            const double winograd = error_of(shapes[i], d, values, CPU_USE_EVERY, &plain),
                         times = rounds_products() ? 4 : 3;
            CHECK_NEAR(winograd / plain, times / 2, times / 2);
        }
        free_all(values);
    }
}

static void check_teams(Shape s)
{
    enum { TEAMS = 4 };
    static const int made[DIRECTIONS] = { 2, 0, 1 }, teams[TEAMS] = { 2, 3, 11, 64 };
    int64_t sizes[3];
    float *values[3], *kept[3];
    sizes_of(s, sizes);
    fill(s, false, values);
    fill(s, false, kept);
    for (int d = 0; d < DIRECTIONS; d++) {
        const int m = made[d];
        compute(s, d, 1, CPU_USE_FAST, kept);
        for (int i = 0; i < TEAMS; i++) {
            float *use[3] = { kept[0], kept[1], kept[2] };
            use[m] = values[m];
            compute(s, d, teams[i], CPU_USE_FAST, use);
            CHECK(memcmp(values[m], kept[m], (size_t)sizes[m] * sizeof(float)) == 0);
        }
    }
    free_all(values);
    free_all(kept);
}

/* 484 tiles: several blocks in each direction for few threads; one, shared, for many. Then half
 * blocks of channels. */
TEST(bits_are_the_same_for_any_team)
{
    check_teams((Shape){ 4, 96, 41, 43, 96 });
    check_teams((Shape){ 3, 56, 41, 43, 40 });
}

TEST(an_infinity_and_a_nan_are_not_lost)
{
    const Shape s = { 2, 32, 8, 8, 32 };
    static const int made[DIRECTIONS] = { 2, 0, 1 }, bad[DIRECTIONS] = { 0, 2, 2 };
    for (int d = 0; d < DIRECTIONS; d++)
        for (int nan = 0; nan < 2; nan++) {
            float *values[3];
            int64_t sizes[3];
            bool found = false;
            sizes_of(s, sizes);
            fill(s, false, values);
            values[bad[d]][777] = nan ? NAN : INFINITY;
            compute(s, d, 2, CPU_USE_EVERY, values);
            for (int64_t i = 0; i < sizes[made[d]]; i++) found |= !isfinite(values[made[d]][i]);
            CHECK(found);
            free_all(values);
        }
}

static bool taken(Shape s, const Conv2dAttr *attr, int direction, CpuUse use)
{
    Run r;
    prepare(&r, s, attr, direction, 2, use);
    const bool winograd = strstr(r.op.implementation, "winograd") != NULL;
    finish(&r);
    return winograd;
}

TEST(shapes_alone_decide)
{
    const Conv2dAttr strided = { 2, 2, 1, 1, 1, 1, 1 }, grouped = { 1, 1, 1, 1, 1, 1, 2 };
    for (int d = 0; d < DIRECTIONS; d++) {
        CHECK(taken((Shape){ 32, 64, 56, 56, 64 }, &same, d, CPU_USE_FAST));
        CHECK(taken((Shape){ 32, 512, 7, 7, 512 }, &same, d, CPU_USE_FAST));
        CHECK(!taken((Shape){ 32, 64, 56, 56, 64 }, &same, d, CPU_USE_NONE));
        CHECK(!taken((Shape){ 32, 64, 56, 56, 64 }, &strided, d, CPU_USE_FAST));
        CHECK(!taken((Shape){ 32, 64, 56, 56, 64 }, &grouped, d, CPU_USE_FAST));
        CHECK(!taken((Shape){ 32, 16, 32, 32, 16 }, &same, d, CPU_USE_FAST)); /* few channels */
        CHECK(taken((Shape){ 32, 24, 32, 32, 40 }, &same, d, CPU_USE_FAST));  /* half a block */
        CHECK(!taken((Shape){ 32, 28, 32, 32, 64 }, &same, d, CPU_USE_FAST)); /* less than half */
        CHECK(!taken((Shape){ 15, 64, 8, 8, 64 }, &same, d, CPU_USE_FAST));   /* few tiles, */
        CHECK(!taken((Shape){ 31, 1024, 7, 7, 64 }, &same, d, CPU_USE_FAST)); /* for the channels */
        CHECK(!taken((Shape){ 256, 64, 4, 4, 64 }, &same, d, CPU_USE_FAST));  /* small images */
    }
}
