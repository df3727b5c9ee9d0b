/* test_cuda_attention_plan.c - cuDNN's graphs of attention: what they compute, run on the host
 * (tests/tools/cudnn_host.h); that cuDNN itself has engines for them on described devices, compiled
 * once, where it is there. The machine needs no GPU. */
#ifndef CONVOY_EMU /* its attention is plain loops */
#include "base/rng.h"
#include "kernels/cuda/cudnn/attention_plan.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/cudnn_host.h"
#include "tests/tools/cudnn_there.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

/* ---- attention from the maths ---- */

enum { N = 6, HEADS = 2, L = 6, D = 8, E = HEADS * D, ROWS = N * L };

/* packed: of these lengths, one behind the other */
static const int lengths[N] = { 3, 4, L, 1, 5, 2 };
enum { PACKED = 3 + 4 + L + 1 + 5 + 2, MASK_ROW = 8 };
static const float factor = 1.25f; /* of what is kept */

typedef struct Tensors {
    _Alignas(16) uint16_t qkv[ROWS * 3 * E];
    _Alignas(16) uint16_t dqkv[ROWS * 3 * E];
    _Alignas(16) uint16_t y[ROWS * E];
    _Alignas(16) uint16_t dy[ROWS * E];
    _Alignas(16) float lse[N * HEADS * L];
    _Alignas(16) uint16_t mask[N * HEADS * L * MASK_ROW];
    _Alignas(16) int32_t places[N * ATTENTION_PLACES * 8];
    _Alignas(256) char workspace[8192];
    bool packed, dropped;
} Tensors;

static int length_of(const Tensors *t, int n)
{
    return t->packed ? lengths[n] : L;
}

static int first_row(const Tensors *t, int n)
{
    int row = 0;
    for (int i = 0; i < n; i++) row += length_of(t, i);
    return row;
}

static double keeps(const Tensors *t, int n, int head, int query, int key)
{
    const int row = (n * HEADS + head) * L + query;
    return t->dropped ? (double)(factor * float_from_f16(t->mask[row * MASK_ROW + key])) : 1;
}

static float lse_at(const Tensors *t, int n, int head, int query)
{
    const int row = first_row(t, n) + query;
    return t->lse[t->packed ? row * HEADS + head : (n * HEADS + head) * L + query];
}

static float half_at(const uint16_t *rows, int64_t width, int64_t row, int64_t channel)
{
    return float_from_f16(rows[row * width + channel]);
}

static double dot(const uint16_t *a, int64_t a_width, int64_t a_row, int64_t a_channel,
                  const uint16_t *b, int64_t b_width, int64_t b_row, int64_t b_channel)
{
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += (double)half_at(a, a_width, a_row, a_channel + i) *
               (double)half_at(b, b_width, b_row, b_channel + i);
    return sum;
}

/* Of sequence n and head: the weights, and their scores' gradients. */
static void weigh(const Tensors *t, int n, int head, double p[L][L], double ds[L][L])
{
    const int row = first_row(t, n), length = length_of(t, n), channel = head * D;
    for (int i = 0; i < length; i++) {
        double sum = 0, inner = 0, dp[L];
        for (int j = 0; j < length; j++) {
            p[i][j] =
                exp(dot(t->qkv, 3 * E, row + i, channel, t->qkv, 3 * E, row + j, E + channel) /
                    sqrt(D));
            sum += p[i][j];
            dp[j] = dot(t->dy, E, row + i, channel, t->qkv, 3 * E, row + j, 2 * E + channel) *
                    keeps(t, n, head, i, j);
        }
        for (int j = 0; j < length; j++) p[i][j] /= sum;
        for (int j = 0; j < length; j++) inner += p[i][j] * dp[j];
        for (int j = 0; j < length; j++) ds[i][j] = p[i][j] * (dp[j] - inner) / sqrt(D);
        for (int j = 0; j < length; j++) p[i][j] *= keeps(t, n, head, i, j);
        CHECK_NEAR((double)lse_at(t, n, head, i), log(sum), 1e-5);
    }
}

static void check_head(const Tensors *t, int n, int head)
{
    double p[L][L], ds[L][L];
    const int row = first_row(t, n), length = length_of(t, n), channel = head * D;
    weigh(t, n, head, p, ds);
    for (int i = 0; i < length; i++)
        for (int k = channel; k < channel + D; k++) {
            double y = 0, dq = 0, dk = 0, dv = 0;
            for (int j = 0; j < length; j++) {
                y += p[i][j] * (double)half_at(t->qkv, 3 * E, row + j, 2 * E + k);
                dq += ds[i][j] * (double)half_at(t->qkv, 3 * E, row + j, E + k);
                dk += ds[j][i] * (double)half_at(t->qkv, 3 * E, row + j, k);
                dv += p[j][i] * (double)half_at(t->dy, E, row + j, k);
            }
            CHECK_NEAR((double)half_at(t->y, E, row + i, k), y, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, k), dq, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, E + k), dk, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, 2 * E + k), dv, 0.003);
        }
}

/* Behind the last sequence nothing was written. */
static void check_rest(const Tensors *t)
{
    for (int i = first_row(t, N) * E; i < ROWS * E; i++) CHECK_INT(t->y[i], 0xffff);
    for (int i = first_row(t, N) * 3 * E; i < ROWS * 3 * E; i++) CHECK_INT(t->dqkv[i], 0xffff);
}

/* ---- tests ---- */

static const AttentionShape small = {
    .n = N, .heads = HEADS, .length = L, .width = D, .io = DTYPE_F16, .statistics = true
};

static void fill(Tensors *t, bool packed, bool dropped)
{
    Rng rng = rng_at(7, (RngPurpose)0, 0, 0);
    memset(t, 0xff, sizeof *t);
    t->packed = packed;
    t->dropped = dropped;
    for (int i = 0; i < ROWS * 3 * E; i++)
        t->qkv[i] = float_to_f16((float)rng_uniform(&rng) * 4 - 2);
    for (int i = 0; i < ROWS * E; i++) t->dy[i] = float_to_f16((float)rng_uniform(&rng) * 2 - 1);
    for (int i = 0; i < N * HEADS * L * MASK_ROW; i++)
        t->mask[i] = float_to_f16(rng_uniform(&rng) < 0.8);
}

/* The lists of so many parts. */
static void fill_places(Tensors *t, int parts)
{
    const int n = N / parts, row = (int)attention_plan_places_row(n);
    for (int i = 0; i < N + parts; i++) {
        const int part = i / (n + 1), k = i % (n + 1), sequence = part * n + k,
                  first = first_row(t, sequence);
        int32_t *to = t->places + part * ATTENTION_PLACES * row + k;
        if (k < n) to[0] = lengths[sequence];
        to[row] = first * 3 * E;
        to[2 * row] = first * E;
        to[3 * row] = first * HEADS;
    }
}

static void run_pass(CudaBackend *b, AttentionGraph pass, Tensors *t, int runs)
{
    const int n = N / runs, row = (int)attention_plan_places_row(n);
    AttentionShape s = small;
    AttentionPlan *p = NULL;
    static uint16_t mask[N * HEADS * L * MASK_ROW];
    s.scale = 1 / sqrtf(D);
    s.packed = t->packed ? PACKED : 0;
    s.factor = t->dropped ? factor : 0;
    void *const operands[ATTENTION_OPERAND_COUNT] = {
        t->qkv,          t->qkv + E,          t->qkv + 2 * E,      t->y,   t->dy,
        t->dqkv,         t->dqkv + E,         t->dqkv + 2 * E,     t->lse, t->places,
        t->places + row, t->places + 2 * row, t->places + 3 * row, mask
    };
    fill_places(t, runs);
    REQUIRE_OK(attention_plan_create(&p, b, pass, &s));
    CHECK_STR(attention_plan_name(p), "cudnn engine 77");
    CHECK_INT(attention_plan_parts(p), runs);
    CHECK_INT(attention_plan_part(p)->n, n);
    CHECK(attention_plan_workspace(p) <= sizeof t->workspace);
    CHECK_OK(attention_plan_bind(p, operands, t->workspace));
    for (int i = 0; i < runs; i++) {
        const size_t numbers = (size_t)n * HEADS * L * MASK_ROW;
        memcpy(mask, t->mask + (size_t)i * numbers, numbers * sizeof *mask);
        CHECK_OK(attention_plan_run(p, i, NULL));
    }
    CHECK_INT(cudnn_host.runs, runs);
    attention_plan_destroy(p);
}

static void check_graphs(bool packed, bool dropped)
{
    static Tensors t;
    CudaBackend b;
    CudnnContext c;
    for (int parts = 1; parts <= N; parts++) {
        if (N % parts != 0) continue;
        const size_t images = N / parts, inner = (images * HEADS * L * 4 + 255) / 256 * 256;
        const AttentionShape part = { .n = N / parts,
                                      .heads = HEADS,
                                      .length = L,
                                      .io = DTYPE_F16,
                                      .packed = packed,
                                      .factor = dropped ? factor : 0 };
        const size_t more =
            attention_plan_mask_bytes(&part) + attention_plan_places_bytes(&part, parts);
        const size_t mask = dropped ? images * HEADS * L * MASK_ROW * 2 : 0,
                     lists = packed ? (size_t)parts * 4 * (images < 4 ? 4 : 8) * 4 : 0;
        CHECK_INT(more, (mask + 255) / 256 * 256 + (lists + 255) / 256 * 256);
        fill(&t, packed, dropped);
        cudnn_host_open(&b, &c, L);
        /* workspace for so many parts; forward goes through them where there is a mask */
        if (dropped) b.workspace_limit = images * cudnn_host.workspace_an_image + more;
        run_pass(&b, ATTENTION_FORWARD, &t, dropped ? parts : 1);
        b.workspace_limit = images * cudnn_host.workspace_an_image + inner + more;
        cudnn_host.runs = 0;
        run_pass(&b, ATTENTION_BWD, &t, parts);
        for (int n = 0; n < N; n++)
            for (int head = 0; head < HEADS; head++) check_head(&t, n, head);
        check_rest(&t);
        cudnn_host_close(&c);
    }
}

TEST(the_graphs_of_attention_compute_it)
{
    check_graphs(false, false);
}

TEST(the_graphs_of_attention_drop_what_the_mask_does_not_keep)
{
    check_graphs(false, true);
}

TEST(the_graphs_of_attention_take_packed_sequences)
{
    check_graphs(true, false);
    check_graphs(true, true);
}

TEST(attention_without_statistics_leaves_none)
{
    static Tensors t;
    AttentionShape s = small;
    AttentionPlan *p = NULL;
    CudaBackend b;
    CudnnContext c;
    fill(&t, false, false);
    cudnn_host_open(&b, &c, L);
    s.statistics = false;
    void *const operands[ATTENTION_OPERAND_COUNT] = { t.qkv, t.qkv + E, t.qkv + 2 * E, t.y };
    REQUIRE_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &s));
    CHECK_OK(attention_plan_bind(p, operands, t.workspace));
    CHECK_OK(attention_plan_run(p, 0, NULL));
    CHECK(isfinite(half_at(t.y, E, ROWS - 1, E - 1)));
    CHECK(isnan(t.lse[0]));
    attention_plan_destroy(p);
    cudnn_host_close(&c);
}

TEST(gradients_of_attention_need_room_and_a_cudnn_that_has_them)
{
    AttentionPlan *p = NULL;
    CudaBackend b;
    CudnnContext c;
    cudnn_host_open(&b, &c, L);
    b.workspace_limit = cudnn_host.workspace_an_image - 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_BWD, &small), ERR_ENV);
    CHECK_CONTAINS(status_message(), "cuDNN has no engine for attention bwd f16 n1 heads2");
    b.workspace_limit = 1 << 20;
    cudnn_host.version = 91501;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_BWD, &small), ERR_ENV);
    CHECK_STR(status_message(), "the gradient of attention needs cuDNN 9.16 or newer, not 9.15");
    CHECK_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &small));
    attention_plan_destroy(p);
    cudnn_host.version = 91801;
    AttentionShape text = small;
    text.packed = PACKED;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &text), ERR_ENV);
    CHECK_STR(status_message(), "attention of text needs cuDNN 9.19 or newer, not 9.18");
    cudnn_host.version = 91900;
    text.packed = INT32_MAX / (3 * E) + 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &text), ERR_ENV);
    CHECK_CONTAINS(status_message(), "their lists hold 32 bits");
    /* a plan that needs no workspace, beside a mask that does not fit, not even of one image */
    AttentionShape drops = small;
    drops.factor = factor;
    cudnn_host.workspace_an_image = 0;
    b.workspace_limit = HEADS * L * MASK_ROW * 2 - 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &drops), ERR_ENV);
    CHECK_CONTAINS(status_message(), "next to a plan's workspace");
    b.workspace_limit = 256;
    CHECK_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &drops));
    CHECK_INT(attention_plan_parts(p), N);
    attention_plan_destroy(p);
    cudnn_host_close(&c);
}

TEST(cudnn_has_engines_for_attention)
{
    static const struct {
        const char *gpu;
        DType io;
        int64_t length, width;
        bool packed, dropped, there, bwd; /* bwd: its gradient has one too */
    } rows[] = { { "h200", DTYPE_BF16, 197, 64, false, false, true, true },
                 { "h200", DTYPE_F16, 50, 64, false, false, true, true },
                 { "h200", DTYPE_F16, 1, 8, false, false, true, true },
                 { "a100", DTYPE_BF16, 577, 80, false, false, true, true },
                 { "b200", DTYPE_BF16, 197, 128, false, false, true, true },
                 { "t4", DTYPE_F16, 197, 64, false, false, false, false },
                 { "h200", DTYPE_BF16, 512, 64, true, true, true, true },
                 { "h200", DTYPE_F16, 77, 64, true, false, true, true },
                 { "h200", DTYPE_F16, 197, 64, false, true, true, true },
                 { "a100", DTYPE_BF16, 197, 64, false, true, true, true },
                 { "a100", DTYPE_BF16, 512, 64, true, true, true, false },
                 { "b200", DTYPE_BF16, 197, 64, false, true, true, true },
                 { "b200", DTYPE_BF16, 512, 64, true, true, true, false } };
    if (!cudnn_is_there()) return;
    if (!dlopen("libcuda.so.1", RTLD_NOW) && !dlopen(CONVOY_DRIVER_SHIM, RTLD_NOW | RTLD_GLOBAL)) {
        test_skip(dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const AttentionShape s = { .n = 4,
                                   .heads = 3,
                                   .length = rows[i].length,
                                   .width = rows[i].width,
                                   .packed = rows[i].packed ? 3 * rows[i].length + 1 : 0,
                                   .scale = 0.125f,
                                   .factor = rows[i].dropped ? 1.25f : 0,
                                   .io = rows[i].io,
                                   .statistics = true };
        CudaBackend b;
        REQUIRE_OK(cudnn_open_described(&b, rows[i].gpu, NULL, NULL));
        b.cudnn->uncompiled = i > 0;
        for (int pass = ATTENTION_FORWARD; pass <= ATTENTION_BWD; pass++) {
            AttentionPlan *p = NULL;
            const Status st = attention_plan_create(&p, &b, (AttentionGraph)pass, &s);
            CHECK_STATUS(st, (pass == ATTENTION_BWD ? rows[i].bwd : rows[i].there) ? OK : ERR_ENV);
            attention_plan_destroy(p);
        }
        cudnn_context_destroy(b.cudnn);
    }
}
#endif
