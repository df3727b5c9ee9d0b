/* test_cuda_fusion.c - which fusions the CUDA backend takes, what it says of them, and the timing
 * of a row of ops. */
#include "kernels/cuda/fusion.h"
#include "kernels/cuda/time_ops.h"
#include "kernels/fuse_choice.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <stdio.h>

static const Conv2dAttr one = { 1, 1, 0, 0, 0, 0, 1 }, three = { 1, 1, 1, 1, 1, 1, 1 };
static const BatchNormAttr relu = { 1e-5f, 0.1f, BN_TRAIN, ACT_RELU, 0 };

static TensorDesc desc(int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return tensor_desc(DTYPE_F32, rank, (int64_t[]){ a, b, c, d });
}

/* A convolution of a block's output, which it writes where fused. */
static Fusion block_end(int64_t kernel_size)
{
    const TensorDesc x = desc(4, 2, 16, 6, 6), vectors = desc(2, 2, 16, 0, 0),
                     vector = desc(1, 16, 0, 0, 0);
    Fusion f = { .name = "block end", .before_count = 2, .after_count = 1 };
    f.before[0] = (OpShape){
        .kind = OP_BN_APPLY, .attr = &relu, .in = { x, vector, vector, vectors, x }, .out = { x }
    };
    f.before[1] = (OpShape){ .kind = OP_CONV2D_STATS,
                             .attr = kernel_size == 1 ? &one : &three,
                             .in = { x, desc(4, 8, 16, kernel_size, kernel_size) },
                             .out = { desc(4, 2, 8, 6, 6), desc(2, 2, 8, 0, 0) } };
    f.after[0] = f.before[1];
    f.after[0].in[CONV_STATS_IN_AFFINE] = vectors;
    f.after[0].in[CONV_STATS_IN_RESIDUAL] = x;
    f.after[0].out[CONV_STATS_OUT_Z] = x;
    return f;
}

static bool open_device(Backend **b, Precision precision, FuseMode fuse)
{
    const CudaOptions o = { .precision = precision, .fuse = fuse };
    *b = NULL;
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(b, &o));
    return *b != NULL;
}

TEST(fusions_are_taken_as_the_mode_says)
{
    static const struct {
        Precision precision;
        FuseMode fuse;
        bool taken;
        const char *says;
    } rows[] = { { PRECISION_FP16, FUSE_ALL, true, "block end 1 of 2 shapes, 1 without an engine" },
                 /* no cache */
                 { PRECISION_FP16, FUSE_AUTO, false, "block end 0 of 2 shapes, 2 not measured" },
                 { PRECISION_FP16, FUSE_NONE, false, "" },
                 { PRECISION_BF16, FUSE_ALL, false, "" },
                 { PRECISION_FP32, FUSE_ALL, false, "" } };
    const Fusion before_one = block_end(1), before_three = block_end(3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Backend *b;
        char says[256];
        if (!open_device(&b, rows[i].precision, rows[i].fuse)) return;
        for (int again = 0; again < 2; again++) { /* a shape is counted once */
            CHECK_INT(b->v->fusion.takes(b, &before_one), rows[i].taken);
            CHECK(!b->v->fusion.takes(b, &before_three));
        }
        b->v->fusion.describe(b, says, sizeof says);
        CHECK_STR(says, rows[i].says);
        backend_destroy(b);
    }
}

TEST(fusions_that_are_not_in_the_list_are_not_asked_for)
{
    const Fusion f = block_end(1);
    const struct {
        const char *only;
        bool taken;
    } rows[] = { { "block end", true }, { "block end with shortcut", false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Backend *b = NULL;
        char says[256];
        const CudaOptions o = { .precision = PRECISION_FP16,
                                .fuse = FUSE_ALL,
                                .fuse_only = fuse_choice_bit(rows[i].only) };
        if (!cuda_is_there()) return;
        REQUIRE_OK(backend_cuda_create(&b, &o));
        CHECK_INT(b->v->fusion.takes(b, &f), rows[i].taken);
        b->v->fusion.describe(b, says, sizeof says);
        CHECK_STR(says, rows[i].taken ? "block end 1 of 1 shapes" : "");
        backend_destroy(b);
    }
}

TEST(a_residual_makes_another_shape)
{
    const CudaOptions all = { .precision = PRECISION_FP16, .fuse = FUSE_ALL };
    const Fusion end = block_end(1);
    Fusion with = { .name = "statistics",
                    .after_count = 2,
                    .after = { end.before[1], end.before[0] } };
    Fusion without = with;
    Backend *b;
    char says[256];
    if (!cuda_is_there()) return;
    REQUIRE_OK(backend_cuda_create(&b, &all));
    without.after[1].in[BN_APPLY_IN_RESIDUAL].rank = 0;
    b->v->fusion.takes(b, &with);
    b->v->fusion.takes(b, &without);
    b->v->fusion.describe(b, says, sizeof says);
    CHECK_CONTAINS(says, "of 2 shapes");
    backend_destroy(b);
}

static Status time_block_end(Backend *b, const Fusion *f, double ms[2])
{
    const CudaTimedRow rows[2] = { { .name = "before", .ops = f->before, .count = f->before_count },
                                   { .name = "after", .ops = f->after, .count = f->after_count } };
    return cuda_time_ops((CudaBackend *)b, "block end", rows, ms);
}

TEST(rows_of_ops_can_be_timed)
{
    const Fusion f = block_end(1);
    Backend *b;
    double ms[2] = { -1, -1 };
    if (!open_device(&b, PRECISION_FP16, FUSE_ALL)) return;
    CHECK_OK(time_block_end(b, &f, ms));
    CHECK(ms[0] > 0 && ms[1] > 0);
    CHECK(((CudaBackend *)b)->busy_s > 0);
    backend_destroy(b);
}

TEST(a_row_that_cannot_be_prepared_is_not_timed)
{
    const Fusion f = block_end(3);
    const CudaTimedRow after = { .name = "after", .ops = f.after, .count = f.after_count };
    Backend *b;
    double ms[2];
    if (!open_device(&b, PRECISION_FP16, FUSE_ALL)) return;
    CHECK_STATUS(time_block_end(b, &f, ms), ERR_ENV);
    CHECK_STATUS(cuda_time_ops_try((CudaBackend *)b, &after), ERR_ENV);
    backend_destroy(b);
}
