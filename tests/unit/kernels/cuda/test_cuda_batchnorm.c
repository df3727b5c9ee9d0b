/* test_cuda_batchnorm.c - batch norm of the CUDA backend where the op checks cannot look: grids of
 * several tiles, splits and regions, means much larger than deviations, the side of the ReLU that
 * backward finds against what forward stored, and the same bits in every run. Runs on the test
 * double (EMU=1) and on a GPU; without either, grids and division alone. */
#include "base/mem.h"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/batchnorm_math.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/fast_div.h"
#include "kernels/cuda/rows.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <string.h>

/* ---- without a device ---- */

TEST(fast_division_is_division)
{
    static const uint32_t near[] = { 1,  2,   3,   5,   7,    8,     9,     56,
                                     64, 112, 255, 256, 1000, 65535, 65537, 12345678 };
    for (uint32_t i = 0; i < 2000 + sizeof near / sizeof near[0]; i++) {
        const uint32_t d = i < 2000 ? i + 1 : near[i - 2000], most = INT32_MAX;
        const FastDiv by = fast_div_make(d);
        for (uint32_t k = 0; k < 200; k++) {
            /* numbers around multiples of d, from 0 to the largest */
            const uint32_t middle = (uint32_t)((uint64_t)most * k / 199) / d * d;
            for (uint32_t n = middle > 2 ? middle - 2 : 0; n <= most && n <= middle + 2; n++)
                if (fast_div(n, by) != n / d) CHECK_INT(fast_div(n, by), n / d);
        }
    }
    const FastDiv most = fast_div_make(INT32_MAX);
    CHECK_INT(fast_div(INT32_MAX, most), 1);
    CHECK_INT(fast_div(INT32_MAX - 1, most), 0);
}

TEST(grids_fill_the_device_and_cover_the_rows)
{
    static const struct {
        int64_t rows, vectors;
    } shapes[] = {
        { 2, 1 },     { 32 * 112 * 112, 8 }, { 256 * 112 * 112, 8 }, { 1024 * 112 * 112, 8 },
        { 256, 256 }, { 256 * 49, 256 },     { 131072, 2 },          { 37, 33 }
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        RowGrid g;
        REQUIRE(row_grid_make(&g, shapes[i].rows, shapes[i].vectors, 132, 4));
        const int64_t depth = ROWS_THREADS >> g.lanes_log2, blocks = (int64_t)g.tiles * g.splits;
        CHECK((int64_t)g.tiles << g.lanes_log2 >= g.vectors);
        CHECK((int64_t)(g.tiles - 1) << g.lanes_log2 < g.vectors);
        CHECK((int64_t)g.regions * g.region_rows >= g.rows);
        CHECK((int64_t)(g.regions - 1) * g.region_rows < g.rows);
        CHECK(g.region_rows <= g.splits * depth * ROWS_PER_THREAD);
        CHECK(blocks <= 132 * 4 || g.splits == 1);
        const bool large = shapes[i].rows * shapes[i].vectors >=
                           (int64_t)132 * 4 * ROWS_THREADS * ROWS_MIN_PER_THREAD;
        if (large) CHECK(blocks > 132 * 4 * 9 / 10);
    }
}

TEST(grids_refuse_what_32_bits_cannot_number)
{
    RowGrid g;
    CHECK(!row_grid_make(&g, (int64_t)1 << 40, 8, 132, 4));
    CHECK(!row_grid_make(&g, INT32_MAX / 8, 8, 132, 4));
    CHECK(row_grid_make(&g, INT32_MAX / 16, 8, 132, 4));
}

/* ---- with a device: x, y and gradients of rank 2, rows x c ---- */

typedef struct Norm {
    Backend *backend;
    Stream *stream;
    BatchNormAttr attr;
    int64_t rows, c;
    bool residual; /* y = relu(bn(x) + residual), two shares of dy, and dz for the residual */
    OpInstance forward, backward;
    float *x, *r, *y, *dy, *dy2, *dx, *dz, *gamma, *beta, *saved, *dgamma, *dbeta; /* host */
} Norm;

static bool open_norm(Norm *t, Precision precision, int64_t rows, int64_t c)
{
    CudaOptions o = { .precision = precision };
    memset(t, 0, sizeof *t);
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(&t->backend, &o));
    if (!t->backend) return false;
    CHECK_OK(t->backend->v->stream_create(t->backend, LANE_COMPUTE, &t->stream));
    t->attr = (BatchNormAttr){ .eps = 1e-5f, .momentum = 0.1f, .mode = BN_TRAIN, .act = ACT_RELU };
    t->rows = rows;
    t->c = c;
    float **const large[] = { &t->x, &t->r, &t->y, &t->dy, &t->dy2, &t->dx, &t->dz };
    float **const vectors[] = { &t->gamma, &t->beta, &t->saved, &t->dgamma, &t->dbeta };
    for (int i = 0; i < 7; i++) *large[i] = mem_calloc((size_t)(rows * c), sizeof(float));
    for (int i = 0; i < 5; i++) *vectors[i] = mem_calloc((size_t)(2 * c), sizeof(float));
    for (int64_t i = 0; i < c; i++)
        t->gamma[i] = 1.0f + (float)(i % 5) / 4, t->beta[i] = (float)(i % 3) - 1;
    return true;
}

static void place(Norm *t, OpTensor *tensor, const float *host)
{
    if (tensor->desc.rank == 0) return;
    CHECK_OK(t->backend->v->alloc(t->backend, tensor->bytes, &tensor->data));
    if (host) CHECK_OK(t->backend->v->import_tensor(t->backend, tensor, host));
}

static void place_workspace(Norm *t, OpInstance *op)
{
    CHECK_OK(t->backend->v->alloc(t->backend, op->workspace_bytes, &op->workspace));
    CHECK_OK(t->backend->v->ops[op->kind]->bind(op));
}

static void run(Norm *t, OpInstance *op)
{
    CHECK_OK(t->backend->v->ops[op->kind]->run(op, t->stream));
    CHECK_OK(t->backend->v->stream_wait(t->backend, t->stream));
}

/* Forward, prepared and run once on x. */
static void start_forward(Norm *t)
{
    OpInstance *op = &t->forward;
    *op = (OpInstance){ .kind = OP_BATCHNORM, .backend = t->backend, .attr = &t->attr };
    op->in[BN_IN_X].desc = op->out[BN_OUT_Y].desc =
        tensor_desc(DTYPE_F32, 2, (int64_t[]){ t->rows, t->c });
    if (t->residual) op->in[BN_IN_RESIDUAL].desc = op->in[BN_IN_X].desc;
    for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++)
        op->in[i].desc = tensor_desc(DTYPE_F32, 1, &t->c);
    op->out[BN_OUT_SAVED].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 2, t->c });
    REQUIRE_OK(backend_prepare_op(op));
    place(t, &op->in[BN_IN_X], t->x);
    place(t, &op->in[BN_IN_GAMMA], t->gamma);
    place(t, &op->in[BN_IN_BETA], t->beta);
    place(t, &op->in[BN_IN_RUNNING_MEAN], NULL);
    place(t, &op->in[BN_IN_RUNNING_VAR], NULL);
    place(t, &op->in[BN_IN_RESIDUAL], t->r);
    place(t, &op->out[BN_OUT_Y], NULL);
    place(t, &op->out[BN_OUT_SAVED], NULL);
    place_workspace(t, op);
    run(t, op);
    /* as the backend's type has it */
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->in[BN_IN_X], t->x));
    if (t->residual)
        CHECK_OK(t->backend->v->export_tensor(t->backend, &op->in[BN_IN_RESIDUAL], t->r));
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_OUT_Y], t->y));
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_OUT_SAVED], t->saved));
}

/* Backward of what start_forward ran, with dy. */
static void start_backward(Norm *t)
{
    OpInstance *op = &t->backward;
    *op = (OpInstance){ .kind = OP_BATCHNORM_BWD, .backend = t->backend, .attr = &t->attr };
    op->in[BN_BWD_IN_X] = t->forward.in[BN_IN_X];
    op->in[BN_BWD_IN_GAMMA] = t->forward.in[BN_IN_GAMMA];
    op->in[BN_BWD_IN_BETA] = t->forward.in[BN_IN_BETA];
    op->in[BN_BWD_IN_SAVED] = t->forward.out[BN_OUT_SAVED];
    op->in[BN_BWD_IN_DY].desc = op->out[BN_BWD_OUT_DX].desc = op->in[BN_BWD_IN_X].desc;
    if (t->residual) {
        op->in[BN_BWD_IN_Y] = t->forward.out[BN_OUT_Y];
        op->in[BN_BWD_IN_DY2].desc = op->out[BN_BWD_OUT_DRESIDUAL].desc = op->in[BN_BWD_IN_X].desc;
    }
    op->out[BN_BWD_OUT_DGAMMA].desc = op->out[BN_BWD_OUT_DBETA].desc =
        tensor_desc(DTYPE_F32, 1, &t->c);
    REQUIRE_OK(backend_prepare_op(op));
    place(t, &op->in[BN_BWD_IN_DY], t->dy);
    place(t, &op->in[BN_BWD_IN_DY2], t->dy2);
    for (int i = BN_BWD_OUT_DX; i <= BN_BWD_OUT_DRESIDUAL; i++) place(t, &op->out[i], NULL);
    place_workspace(t, op);
    run(t, op);
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->in[BN_BWD_IN_DY], t->dy));
    if (t->residual) {
        CHECK_OK(t->backend->v->export_tensor(t->backend, &op->in[BN_BWD_IN_DY2], t->dy2));
        CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_BWD_OUT_DRESIDUAL], t->dz));
    }
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_BWD_OUT_DX], t->dx));
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_BWD_OUT_DGAMMA], t->dgamma));
    CHECK_OK(t->backend->v->export_tensor(t->backend, &op->out[BN_BWD_OUT_DBETA], t->dbeta));
}

static void close_op(Norm *t, OpInstance *op, int own_inputs)
{
    if (!op->backend) return;
    for (int i = 0; i < own_inputs; i++) t->backend->v->free(t->backend, op->in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) t->backend->v->free(t->backend, op->out[i].data);
    t->backend->v->free(t->backend, op->workspace);
    backend_release_op(op);
}

static void close_norm(Norm *t)
{
    close_op(t, &t->backward, BN_BWD_IN_DY2 + 1);
    close_op(t, &t->forward, BN_IN_RESIDUAL + 1);
    t->backend->v->stream_destroy(t->backend, t->stream);
    backend_destroy(t->backend);
    float *const host[] = { t->x,  t->r,     t->y,    t->dy,    t->dy2,    t->dx,
                            t->dz, t->gamma, t->beta, t->saved, t->dgamma, t->dbeta };
    for (int i = 0; i < 12; i++) mem_free(host[i]);
}

/* -1 .. 1, the same for the same i */
static float noise(int64_t i, uint32_t salt)
{
    uint32_t h = (uint32_t)i * 2654435761u ^ salt * 40503u;
    h = (h ^ h >> 15) * 2246822519u;
    h = (h ^ h >> 13) * 3266489917u;
    return (float)((double)(h ^ h >> 16) / 2147483648.0 - 1.0);
}

static void fill(Norm *t, float mean)
{
    for (int64_t i = 0; i < t->rows * t->c; i++) {
        t->x[i] = mean + 1.7f * noise(i, 1);
        t->dy[i] = noise(i, 2) + 0.25f;
        t->dy2[i] = noise(i, 3);
        t->r[i] = noise(i, 4);
    }
}

typedef struct Channel { /* one channel in double, from the x and dy that the device has */
    double mean, var, sum_dz, sum_dz_xhat;
} Channel;

static double dz_at(const Norm *t, int64_t row, int64_t c)
{
    const int64_t at = row * t->c + c;
    if (!(t->y[at] > 0)) return 0;
    return (double)t->dy[at] + (t->residual ? (double)t->dy2[at] : 0);
}

static Channel channel_of(const Norm *t, int64_t c)
{
    Channel k = { 0 };
    const double n = (double)t->rows;
    for (int64_t i = 0; i < t->rows; i++) k.mean += (double)t->x[i * t->c + c] / n;
    for (int64_t i = 0; i < t->rows; i++) {
        double d = (double)t->x[i * t->c + c] - k.mean;
        k.var += d * d / n;
    }
    const double inv_std = 1 / sqrt(k.var + (double)t->attr.eps);
    for (int64_t i = 0; i < t->rows; i++) {
        double dz = dz_at(t, i, c);
        k.sum_dz += dz;
        k.sum_dz_xhat += dz * ((double)t->x[i * t->c + c] - k.mean) * inv_std;
    }
    return k;
}

/* Everything forward and backward computed, against double; relative: of one f32 operation on x. */
static void check_numbers(const Norm *t, double relative, double storage)
{
    const double n = (double)t->rows;
    for (int64_t c = 0; c < t->c; c++) {
        const Channel k = channel_of(t, c);
        const double inv_std = 1 / sqrt(k.var + (double)t->attr.eps), gamma = (double)t->gamma[c];
        const double off = 4 * relative * (fabs(k.mean) + sqrt(k.var)) * inv_std; /* of xhat */
        CHECK_NEAR(t->saved[c], k.mean, 4 * relative * (fabs(k.mean) + sqrt(k.var)));
        CHECK_NEAR((double)t->saved[t->c + c] / inv_std, 1, 16 * relative + off);
        CHECK_NEAR(t->dbeta[c], k.sum_dz, 8 * relative * n);
        CHECK_NEAR(t->dgamma[c], k.sum_dz_xhat, n * (8 * relative + off));
        for (int64_t i = 0; i < t->rows; i += 1 + t->rows / 500) {
            const int64_t at = i * t->c + c;
            const double xhat = ((double)t->x[at] - k.mean) * inv_std, dz = dz_at(t, i, c);
            const double z =
                xhat * gamma + (double)t->beta[c] + (t->residual ? (double)t->r[at] : 0);
            const double dx = gamma * inv_std * (dz - k.sum_dz / n - xhat * k.sum_dz_xhat / n);
            CHECK_NEAR(t->y[at], z > 0 ? z : 0, 3 * (off + 8 * relative) + storage * fabs(z));
            /* dx is computed from the dz that is kept */
            const double kept = t->residual ? storage * fabs(dz) : 0;
            CHECK_NEAR(t->dx[at], dx,
                       3 * inv_std * (off + 8 * relative + gamma * kept) + storage * fabs(dx));
            if (t->residual) CHECK_NEAR(t->dz[at], dz, storage * fabs(dz));
        }
    }
}

typedef struct Shape {
    int64_t rows, c;
    int sm_count; /* as if the device had so many */
} Shape;

static void check_shape(const Shape *s, Precision precision, float mean, bool residual)
{
    static const double storage[PRECISION_COUNT] = {
        [PRECISION_FP32] = 0x1p-24, [PRECISION_BF16] = 0x1p-8, [PRECISION_FP16] = 0x1p-11
    };
    Norm t;
    if (!open_norm(&t, precision, s->rows, s->c)) return;
    if (s->sm_count) ((CudaBackend *)t.backend)->sm_count = s->sm_count;
    t.residual = residual;
    fill(&t, mean);
    start_forward(&t);
    start_backward(&t);
    check_numbers(&t, 0x1p-24, storage[precision]);
    close_norm(&t);
}

/* One block for everything, several regions, more tiles than a warp has lanes, tiles that stand
 * half beside the row. */
static const Shape shapes[] = { { 3, 4, 0 },      { 999, 24, 2 },   { 20000, 4, 1 },
                                { 8200, 136, 1 }, { 600, 1048, 3 }, { 50, 2048, 132 },
                                { 3000, 64, 132 } };

TEST(every_grid_gives_the_same_numbers)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int p = 0; p < PRECISION_COUNT; p++)
            if (p != PRECISION_TF32) check_shape(&shapes[i], (Precision)p, 0.5f, false);
}

TEST(every_grid_gives_the_same_numbers_with_a_residual)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_shape(&shapes[i], PRECISION_FP32, 0.5f, true);
        check_shape(&shapes[i], i % 2 ? PRECISION_BF16 : PRECISION_FP16, 0.5f, true);
    }
}

TEST(a_mean_of_a_thousand_deviations_costs_no_digits)
{
    check_shape(&shapes[1], PRECISION_FP32, 1000, false);
    check_shape(&shapes[3], PRECISION_FP32, -1000, false);
    check_shape(&shapes[6], PRECISION_FP32, 1000, false);
}

/* With statistics taken as constant dx is scale * dz: zero exactly where backward finds the ReLU
 * closed. gamma is so small that many results round to zero where they are stored. */
static void check_sides(Precision precision, float gamma)
{
    Norm t;
    if (!open_norm(&t, precision, 4001, 16)) return;
    int64_t open = 0;
    fill(&t, 0);
    for (int64_t c = 0; c < t.c; c++) t.gamma[c] = gamma * (float)(1 + c), t.beta[c] = 0;
    for (int64_t i = 0; i < t.rows * t.c; i++) {
        if (i % 3 == 0) t.x[i] *= 1e-3f; /* many close to the edge */
        t.dy[i] = 1 / gamma;
    }
    start_forward(&t);
    t.attr.mode = BN_FROZEN;
    start_backward(&t);
    for (int64_t i = 0; i < t.rows * t.c; i++) {
        open += t.y[i] > 0;
        if ((t.y[i] > 0) != (t.dx[i] != 0)) {
            CHECK_NEAR(t.x[i], 0, 0);
            CHECK_INT(t.y[i] > 0, t.dx[i] != 0);
            break;
        }
    }
    CHECK(open > t.rows * t.c / 10 && open < t.rows * t.c * 9 / 10);
    close_norm(&t);
}

TEST(backward_finds_the_side_that_forward_stored)
{
    for (int p = 0; p < PRECISION_COUNT; p++) check_sides((Precision)p, 1);
    check_sides(PRECISION_FP16, 0x1p-24f);
}

/* Results that are stored as zero, and the smallest that are not. */
TEST(stored_zeros_are_known)
{
    CHECK_INT(float_to_f16(FLOAT_F16_ZERO), 0);
    CHECK(float_to_f16(nextafterf(FLOAT_F16_ZERO, 1)) != 0);
    CHECK_INT(float_to_bf16(FLOAT_BF16_ZERO), 0);
    CHECK(float_to_bf16(nextafterf(FLOAT_BF16_ZERO, 1)) != 0);
    CHECK(batchnorm_relu_bwd(1, nextafterf(FLOAT_F32_ZERO, 1), FLOAT_F32_ZERO) == 1);
    CHECK(batchnorm_relu_bwd(1, -0.0f, FLOAT_F32_ZERO) == 0);
}

/* Evaluation: nobody wants the statistics that were applied; they stand in the workspace. */
TEST(evaluation_needs_no_place_for_statistics)
{
    Norm t;
    if (!open_norm(&t, PRECISION_FP32, 40, 12)) return;
    t.attr.mode = BN_EVAL;
    fill(&t, 0);
    start_forward(&t);
    OpInstance alone = t.forward;
    alone.state = NULL;
    memset(&alone.out, 0, sizeof alone.out);
    alone.out[BN_OUT_Y].desc = t.forward.out[BN_OUT_Y].desc;
    REQUIRE_OK(backend_prepare_op(&alone));
    CHECK(alone.workspace_bytes > 0);
    place(&t, &alone.out[BN_OUT_Y], NULL);
    place_workspace(&t, &alone);
    run(&t, &alone);
    CHECK_OK(t.backend->v->export_tensor(t.backend, &alone.out[BN_OUT_Y], t.dx));
    CHECK(memcmp(t.dx, t.y, (size_t)(t.rows * t.c) * sizeof(float)) == 0);
    close_op(&t, &alone, 0);
    close_norm(&t);
}

static void *raw_copy(const Norm *t, const OpTensor *tensor)
{
    const int64_t bytes = (int64_t)tensor->bytes;
    OpTensor plain = { .desc = tensor_desc(DTYPE_U8, 1, &bytes),
                       .bytes = tensor->bytes,
                       .data = tensor->data };
    void *copy = mem_calloc(1, tensor->bytes);
    CHECK_OK(t->backend->v->export_tensor(t->backend, &plain, copy));
    return copy;
}

/* Blocks and threads run in another order each time; the bits are the same. */
TEST(every_run_gives_the_same_bits)
{
    Norm t;
    if (!open_norm(&t, PRECISION_BF16, 3000, 72)) return;
    ((CudaBackend *)t.backend)->sm_count = 2;
    fill(&t, 3);
    start_forward(&t);
    start_backward(&t);
    const OpTensor *const results[] = { &t.forward.out[BN_OUT_Y], &t.forward.out[BN_OUT_SAVED],
                                        &t.backward.out[BN_BWD_OUT_DX],
                                        &t.backward.out[BN_BWD_OUT_DGAMMA],
                                        &t.backward.out[BN_BWD_OUT_DBETA] };
    enum { RESULTS = sizeof results / sizeof results[0] };
    void *first[RESULTS];
    for (int i = 0; i < RESULTS; i++) first[i] = raw_copy(&t, results[i]);
    for (int again = 0; again < 3; again++) {
        run(&t, &t.forward);
        run(&t, &t.backward);
        for (int i = 0; i < RESULTS; i++) {
            void *second = raw_copy(&t, results[i]);
            CHECK(memcmp(first[i], second, results[i]->bytes) == 0);
            mem_free(second);
        }
    }
    for (int i = 0; i < RESULTS; i++) mem_free(first[i]);
    close_norm(&t);
}

/* ---- the order in which blocks are added ---- */

/* One sum of one channel: parts in order within their slice, slices pairwise. */
static double add_in_order(const float *partials, int parts, int which, int64_t c, int64_t cp)
{
    double slices[BN_SLICES] = { 0 };
    for (int part = 0; part < parts; part++)
        slices[part % BN_SLICES] += (double)partials[(part * 2 + which) * cp + c];
    for (int half = BN_SLICES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) slices[i] += slices[i + half];
    return slices[0];
}

/* What the blocks left in the workspace gives dbeta to the bit, whichever block came last, and the
 * tickets stand at zero again. Many runs, since each draws another order. */
static void check_order(int64_t rows, int64_t c, int least_parts)
{
    Norm t;
    RowGrid g;
    if (!open_norm(&t, PRECISION_FP32, rows, c)) return;
    ((CudaBackend *)t.backend)->sm_count = 132;
    fill(&t, 0.5f);
    start_forward(&t);
    start_backward(&t);
    CHECK(row_grid_make(&g, rows, c / 4, 132, BN_BACKWARD_BLOCKS));
    const int parts = row_grid_partials(&g);
    CHECK(parts >= least_parts);
    const int64_t bytes = (int64_t)parts * 2 * c * (int64_t)sizeof(float);
    const OpTensor workspace = { .bytes = (size_t)bytes, .data = t.backward.workspace };
    for (int again = 0; again < 16; again++) {
        float *partials = raw_copy(&t, &workspace);
        float *dbeta = raw_copy(&t, &t.backward.out[BN_BWD_OUT_DBETA]);
        int wrong = 0;
        for (int64_t i = 0; i < c; i++)
            wrong += dbeta[i] != (float)add_in_order(partials, parts, 0, i, c);
        CHECK_INT(wrong, 0);
        mem_free(partials);
        mem_free(dbeta);
        run(&t, &t.backward);
    }
    close_norm(&t);
}

TEST(blocks_are_added_in_the_order_of_their_numbers)
{
    check_order(40, 16, 1);      /* fewer parts than slices */
    check_order(3000, 64, 40);   /* a second round for some */
    check_order(9000, 136, 190); /* two tiles, the second half beside the row */
}

/* Recorded once and run again and again, as a step is. */
TEST(replayed_blocks_find_their_tickets_at_zero)
{
    Norm t;
    Replay *replay = NULL;
    if (!open_norm(&t, PRECISION_FP16, 3000, 72)) return;
    const DeviceVTable *d = t.backend->v->device;
    ((CudaBackend *)t.backend)->sm_count = 132;
    fill(&t, -2);
    start_forward(&t);
    start_backward(&t);
    void *saved = raw_copy(&t, &t.forward.out[BN_OUT_SAVED]),
         *dgamma = raw_copy(&t, &t.backward.out[BN_BWD_OUT_DGAMMA]);
    CHECK_OK(d->capture_begin(t.backend, t.stream));
    CHECK_OK(t.backend->v->ops[OP_BATCHNORM]->run(&t.forward, t.stream));
    CHECK_OK(t.backend->v->ops[OP_BATCHNORM_BWD]->run(&t.backward, t.stream));
    CHECK_OK(d->capture_end(t.backend, t.stream, &replay));
    REQUIRE(replay != NULL);
    for (int again = 0; again < 4; again++) {
        CHECK_OK(d->replay(t.backend, replay, t.stream));
        CHECK_OK(t.backend->v->stream_wait(t.backend, t.stream));
        void *saved2 = raw_copy(&t, &t.forward.out[BN_OUT_SAVED]),
             *dgamma2 = raw_copy(&t, &t.backward.out[BN_BWD_OUT_DGAMMA]);
        CHECK(memcmp(saved, saved2, t.forward.out[BN_OUT_SAVED].bytes) == 0);
        CHECK(memcmp(dgamma, dgamma2, t.backward.out[BN_BWD_OUT_DGAMMA].bytes) == 0);
        mem_free(saved2);
        mem_free(dgamma2);
    }
    d->replay_destroy(t.backend, replay);
    mem_free(saved);
    mem_free(dgamma);
    close_norm(&t);
}
