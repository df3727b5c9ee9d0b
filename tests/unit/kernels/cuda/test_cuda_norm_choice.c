/* test_cuda_norm_choice.c - who normalises: which instances cuDNN may be given, what the modes make
 * of them, what is said of it; and that a whole network trains as with our own kernels. */
#include "kernels/cuda/cuda.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <stdio.h>
#include <string.h>
#ifdef CONVOY_EMU
#include "tests/emu/cudnn_emu.h"
#endif

static const BatchNormAttr train = { 1e-5f, 0.1f, BN_TRAIN, ACT_NONE, 0 },
                           relu = { 1e-5f, 0.1f, BN_TRAIN, ACT_RELU, 0 },
                           silu = { 1e-5f, 0.1f, BN_TRAIN, ACT_SILU, 0 },
                           frozen = { 1e-5f, 0.1f, BN_FROZEN, ACT_RELU, 0 },
                           eval = { 1e-5f, 0.1f, BN_EVAL, ACT_RELU, 0 };

typedef struct Case {
    const BatchNormAttr *attr;
    int64_t c;
    int rank;
    bool backward, residual, dy2, accumulate;
} Case;

static OpInstance instance(Backend *b, const Case *k)
{
    const TensorDesc x = tensor_desc(DTYPE_F32, k->rank, (int64_t[]){ 2, k->c, 4, 5 }),
                     vector = tensor_desc(DTYPE_F32, 1, &k->c),
                     saved = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 2, k->c });
    OpInstance op = { .kind = k->backward ? OP_BATCHNORM_BWD : OP_BATCHNORM,
                      .backend = b,
                      .attr = k->attr,
                      .accumulate = k->accumulate };
    if (!k->backward) {
        op.in[BN_IN_X].desc = op.out[BN_OUT_Y].desc = x;
        for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++) op.in[i].desc = vector;
        if (k->residual) op.in[BN_IN_RESIDUAL].desc = x;
        op.out[BN_OUT_SAVED].desc = saved;
        return op;
    }
    op.in[BN_BWD_IN_DY].desc = op.in[BN_BWD_IN_X].desc = op.out[BN_BWD_OUT_DX].desc = x;
    if (k->dy2) op.in[BN_BWD_IN_DY2].desc = x;
    if (k->residual) op.out[BN_BWD_OUT_DRESIDUAL].desc = x;
    if (k->residual && k->attr->act == ACT_RELU) op.in[BN_BWD_IN_Y].desc = x;
    op.in[BN_BWD_IN_GAMMA].desc = op.in[BN_BWD_IN_BETA].desc = vector;
    op.in[BN_BWD_IN_SAVED].desc = saved;
    op.out[BN_BWD_OUT_DGAMMA].desc = op.out[BN_BWD_OUT_DBETA].desc = vector;
    return op;
}

/* Whether cuDNN does it; apart: what it says of dx over dy. */
static bool is_cudnns(Backend *b, const Case *k, bool *no_alias)
{
    OpInstance op = instance(b, k);
    CHECK_OK(backend_prepare_op(&op));
    const bool ours = op.implementation && strcmp(op.implementation, "bn_rows") == 0;
    if (no_alias) *no_alias = op.no_alias >> BN_BWD_OUT_DX & 1;
    backend_release_op(&op);
    return !ours;
}

static bool open_device(Backend **b, Precision precision, KernelMode mode)
{
    const CudaOptions o = { .precision = precision, .batchnorm = mode };
    *b = NULL;
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(b, &o));
    return *b != NULL;
}

TEST(cudnn_gets_what_it_can_do_exactly)
{
    static const struct {
        Case k;
        bool cudnn, no_alias;
    } rows[] = {
        { .k = { .attr = &train, .c = 16, .rank = 4 }, .cudnn = true },
        { .k = { .attr = &relu, .c = 16, .rank = 4 }, .cudnn = true },
        { .k = { .attr = &silu, .c = 16, .rank = 4 }, .cudnn = true },
        { .k = { .attr = &relu, .c = 16, .rank = 4, .residual = true }, .cudnn = true },
        /* no engine */
        { .k = { .attr = &train, .c = 16, .rank = 4, .residual = true }, .cudnn = false },
        /* padded channels */
        { .k = { .attr = &relu, .c = 13, .rank = 4 }, .cudnn = false },
        /* rows */
        { .k = { .attr = &relu, .c = 16, .rank = 2 }, .cudnn = false },
        { .k = { .attr = &frozen, .c = 16, .rank = 4 }, .cudnn = false },
        { .k = { .attr = &eval, .c = 16, .rank = 4 }, .cudnn = false },
        { .k = { .attr = &relu, .c = 16, .rank = 4, .accumulate = true },
          .cudnn = true }, /* forward has nothing to add to */
        { .k = { .attr = &train, .c = 16, .rank = 4, .backward = true },
          .cudnn = true,
          .no_alias = true },
        { .k = { .attr = &relu, .c = 16, .rank = 4, .backward = true },
          .cudnn = true,
          .no_alias = true },
        { .k = { .attr = &silu, .c = 16, .rank = 4, .backward = true },
          .cudnn = true,
          .no_alias = true },
        { .k = { .attr = &relu,
                 .c = 16,
                 .rank = 4,
                 .backward = true,
                 .residual = true,
                 .dy2 = true },
          .cudnn = true },
        { .k = { .attr = &relu, .c = 16, .rank = 4, .backward = true, .residual = true },
          .cudnn = true },
        { .k = { .attr = &train, .c = 16, .rank = 4, .backward = true, .residual = true },
          .cudnn = true },
        { .k = { .attr = &relu, .c = 16, .rank = 4, .backward = true, .dy2 = true },
          .cudnn = false }, /* no place for the sum */
        { .k = { .attr = &relu, .c = 16, .rank = 4, .backward = true, .accumulate = true },
          .cudnn = false },
        { .k = { .attr = &relu, .c = 13, .rank = 4, .backward = true }, .cudnn = false },
        { .k = { .attr = &frozen, .c = 16, .rank = 4, .backward = true }, .cudnn = false },
    };
    static const Precision precisions[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
    for (int p = 0; p < 3; p++) {
        Backend *own, *b;
        if (!open_device(&b, precisions[p], KERNELS_CUDNN) ||
            !open_device(&own, precisions[p], KERNELS_OWN))
            return;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            bool no_alias = false;
            CHECK_INT(is_cudnns(b, &rows[i].k, &no_alias), rows[i].cudnn);
            CHECK_INT(no_alias, rows[i].no_alias);
            CHECK(!is_cudnns(own, &rows[i].k, &no_alias));
            CHECK(!no_alias);
        }
        backend_destroy(b);
        backend_destroy(own);
    }
}

TEST(what_was_taken_is_said_once_for_each_shape)
{
    const Case yes = { .attr = &relu, .c = 16, .rank = 4 },
               plain = { .attr = &train, .c = 16, .rank = 4, .residual = true },
               back = { .attr = &relu, .c = 16, .rank = 4, .backward = true },
               never = { .attr = &relu, .c = 13, .rank = 4 };
    Backend *b;
    char says[256];
    if (!open_device(&b, PRECISION_BF16, KERNELS_CUDNN)) return;
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_STR(says, "");
    for (int again = 0; again < 2; again++) {
        is_cudnns(b, &never, NULL);
        is_cudnns(b, &back, NULL);
        is_cudnns(b, &yes, NULL);
        is_cudnns(b, &plain, NULL);
    }
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_STR(says, "batchnorm 1 of 1 shapes; batchnorm_bwd 1 of 1 shapes");
#ifdef CONVOY_EMU
    const Case no = { .attr = &relu, .c = 24, .rank = 4 }; /* no engine needs no workspace */
    ((CudaBackend *)b)->workspace_limit = 0;
    for (int again = 0; again < 2; again++) is_cudnns(b, &no, NULL);
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_STR(says, "batchnorm 1 of 2 shapes, 1 without an engine; batchnorm_bwd 1 of 1 shapes");
#endif
    backend_destroy(b);
}

TEST(auto_takes_nothing_where_nothing_is_kept)
{
    const Case k = { .attr = &relu, .c = 16, .rank = 4 };
    Backend *b;
    char says[256];
    if (!open_device(&b, PRECISION_BF16, KERNELS_AUTO)) return;
    CHECK(!is_cudnns(b, &k, NULL));
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_STR(says, "batchnorm 0 of 1 shapes, 1 not measured");
    backend_destroy(b);
}

#ifdef CONVOY_EMU
TEST(auto_measures_each_shape_once_and_keeps_the_answer)
{
    static const Case cases[] = {
        { .attr = &relu, .c = 16, .rank = 4 },
        { .attr = &relu, .c = 16, .rank = 4, .backward = true, .residual = true, .dy2 = true }
    };
    Backend *b;
    char says[256];
    if (!open_device(&b, PRECISION_BF16, KERNELS_AUTO)) return;
    CudnnContext *c = ((CudaBackend *)b)->cudnn;
    emu_cudnn_time(c);
    const bool first = is_cudnns(b, &cases[0], NULL), second = is_cudnns(b, &cases[1], NULL);
    CHECK_INT(emu_cudnn_choices(c), 2);
    CHECK_INT(is_cudnns(b, &cases[0], NULL), first);
    CHECK_INT(is_cudnns(b, &cases[1], NULL), second);
    CHECK_INT(emu_cudnn_choices(c), 2);
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_CONTAINS(says, first ? "batchnorm 1 of 1 shapes"
                               : "batchnorm 0 of 1 shapes, 1 measured slower");
    CHECK_CONTAINS(says, second ? "batchnorm_bwd 1 of 1 shapes"
                                : "batchnorm_bwd 0 of 1 shapes, 1 measured slower");
    backend_destroy(b);
}

TEST(auto_follows_what_the_cache_says)
{
    static const char key[] =
        "batchnorm by cudnn: bf16 batchnorm 925353388.1036831949.0.1.0 0:f32[2,16,4,5] 1:f32[16] "
        "2:f32[16] 3:f32[16] 4:f32[16] ->0:f32[2,16,4,5] ->1:f32[2,16]; limit 268435456";
    for (int taken = 0; taken < 2; taken++) {
        const Case k = { .attr = &relu, .c = 16, .rank = 4 };
        Backend *b;
        if (!open_device(&b, PRECISION_BF16, KERNELS_AUTO)) return;
        CudnnContext *c = ((CudaBackend *)b)->cudnn;
        emu_cudnn_time(c);
        CHECK_OK(cudnn_context_add_choice(c, key, taken != 0, 0.5));
        CHECK_INT(is_cudnns(b, &k, NULL), taken);
        CHECK_INT(emu_cudnn_choices(c), 1); /* nothing was measured: the key is the same */
        backend_destroy(b);
    }
}
#endif
