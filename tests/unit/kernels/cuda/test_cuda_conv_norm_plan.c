/* test_cuda_conv_norm_plan.c - engines for fused convolutions on described devices, and the choices
 * that the cache of plans keeps. Nothing runs here: the machine needs cuDNN but no GPU. Without
 * cuDNN the tests say so and check nothing.
 */
#ifndef CONVOY_EMU /* its convolutions are plain loops */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/conv_norm_plan.h"
#include "kernels/cuda/cudnn/cudnn_cache.h"
#include "tests/test.h"
#include "tests/tools/cudnn_there.h"
#include <stdio.h>
#include <string.h>

static bool cudnn_fuses(void)
{
    CudaBackend b;
    if (!cudnn_is_there()) return false;
    CHECK_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    const bool fuses = b.cudnn && b.cudnn->api.get_version() >= 91400;
    cudnn_context_destroy(b.cudnn);
    if (!fuses) test_skip("cuDNN is older than 9.14");
    return fuses;
}

static ConvShape shape(int64_t c, int64_t size, int64_t k, int64_t kernel_size, int stride)
{
    const int pad = (int)kernel_size / 2;
    const int64_t to = (size + 2 * pad - kernel_size) / stride + 1;
    return (ConvShape){ .n = 64,
                        .c = c,
                        .h = size,
                        .w = size,
                        .k = k,
                        .r = kernel_size,
                        .s = kernel_size,
                        .p = to,
                        .q = to,
                        .attr = { stride, stride, pad, pad, pad, pad, 1 },
                        .io = DTYPE_F16 };
}

static const struct {
    ConvNormPass pass;
    ConvPrologue prologue;
} passes[] = { { CONV_NORM_STATS, CONV_PLAIN },       { CONV_NORM_STATS, CONV_AFFINE },
               { CONV_NORM_BWD_DATA, CONV_PLAIN },    { CONV_NORM_BWD_WEIGHTS, CONV_AFFINE },
               { CONV_NORM_STATS, CONV_RESIDUAL },    { CONV_NORM_STATS, CONV_DUAL },
               { CONV_NORM_BWD_DATA, CONV_RESIDUAL }, { CONV_NORM_BWD_DATA, CONV_DUAL } };
enum {
    PASSES = sizeof passes / sizeof passes[0],
    /* the first so many need neither sm_90 nor 1x1 without a stride, which the next two do; the
     * last two need no stride on sm_90 */
    ANYWHERE = 4,
    BLOCK_ENDS = 3 << 4,
    GRADIENT_ENDS = 3 << 6
};

/* Bit i: there is an engine for pass i, within the limit. */
static unsigned engines(CudaBackend *b, const ConvShape *s)
{
    unsigned found = 0;
    for (int i = 0; i < PASSES; i++) {
        ConvNormPlan *p = NULL;
        const Status st = conv_norm_plan_create(&p, b, passes[i].pass, passes[i].prologue, s);
        if (st == OK) {
            found |= 1u << i;
            CHECK(conv_norm_plan_workspace(p) <= b->workspace_limit);
            CHECK(str_starts_with(conv_norm_plan_name(p), "cudnn engine "));
        } else {
            CHECK_STATUS(st, ERR_ENV);
            CHECK_CONTAINS(status_message(),
                           conv_norm_shape_pass_name(passes[i].pass, passes[i].prologue));
        }
        conv_norm_plan_destroy(p);
    }
    return found;
}

TEST(layers_of_networks_get_fused_engines_in_fp16)
{
    static const char *const gpus[] = { "h200", "h100", "a100" };
    const ConvShape layers[] = { shape(64, 56, 64, 1, 1),   shape(64, 56, 64, 3, 1),
                                 shape(256, 56, 512, 1, 2), shape(512, 14, 512, 3, 2),
                                 shape(512, 7, 2048, 1, 1), shape(16, 32, 16, 3, 1) };
    const unsigned anywhere = (1u << ANYWHERE) - 1;
    if (!cudnn_fuses()) return;
    for (int g = 0; g < 3; g++) {
        CudaBackend b;
        REQUIRE_OK(cudnn_open_described(&b, gpus[g], NULL, NULL));
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
            const bool sm_90 = g < 2, no_stride = layers[i].attr.stride_h == 1;
            const unsigned ends = sm_90 && no_stride && layers[i].r == 1 ? BLOCK_ENDS : 0,
                           gradients = no_stride || !sm_90 ? GRADIENT_ENDS : 0;
            CHECK_INT(engines(&b, &layers[i]), anywhere | ends | gradients);
        }
        cudnn_context_destroy(b.cudnn);
    }
}

TEST(other_types_have_no_fused_engines)
{
    ConvShape s = shape(64, 56, 64, 1, 1);
    CudaBackend b;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    s.io = DTYPE_BF16;
    CHECK_INT(engines(&b, &s), 0);
    cudnn_context_destroy(b.cudnn);
}

static size_t old_version(void)
{
    return 91002;
}

TEST(versions_that_crash_are_not_asked)
{
    CudaBackend b;
    const ConvShape s = shape(64, 56, 64, 1, 1);
    ConvNormPlan *p = NULL;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "a100", NULL, NULL));
    b.cudnn->api.get_version = old_version;
    CHECK_STATUS(conv_norm_plan_create(&p, &b, CONV_NORM_BWD_WEIGHTS, CONV_AFFINE, &s), ERR_ENV);
    CHECK(p == NULL);
    CHECK_CONTAINS(status_message(), "needs cuDNN 9.14 or newer, not 9.10");
    cudnn_context_destroy(b.cudnn);
}

TEST(choices_come_back_from_the_cache)
{
    CudaBackend b;
    bool taken = false;
    const ConvShape s = shape(64, 14, 64, 3, 1);
    ConvNormPlan *p = NULL;
    if (!cudnn_fuses()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, test_scratch()));
    CHECK(!cudnn_context_times(b.cudnn)); /* nothing to time on */
    CHECK(!cudnn_context_find_choice(b.cudnn, "fusion one", &taken));
    CHECK_OK(cudnn_context_add_choice(b.cudnn, "fusion one", true, 0.25));
    CHECK_OK(cudnn_context_add_choice(b.cudnn, "fusion two", false, 0.5));
    CHECK_OK(conv_norm_plan_create(&p, &b, CONV_NORM_STATS, CONV_AFFINE, &s));
    conv_norm_plan_destroy(p);
    /* of most operands */
    CHECK_OK(conv_norm_plan_create(&p, &b, CONV_NORM_BWD_DATA, CONV_DUAL, &s));
    conv_norm_plan_destroy(p);
    cudnn_context_destroy(b.cudnn);
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, test_scratch()));
    CHECK(cudnn_context_find_choice(b.cudnn, "fusion one", &taken) && taken);
    CHECK(cudnn_context_find_choice(b.cudnn, "fusion two", &taken) && !taken);
    CHECK(!cudnn_context_find_choice(b.cudnn, "fusion three", &taken));
    b.cudnn->unsaved = false;
    /* plans lie beside them */
    CHECK_OK(conv_norm_plan_create(&p, &b, CONV_NORM_STATS, CONV_AFFINE, &s));
    conv_norm_plan_destroy(p);
    CHECK_OK(conv_norm_plan_create(&p, &b, CONV_NORM_BWD_DATA, CONV_DUAL, &s));
    CHECK(!b.cudnn->unsaved);
    conv_norm_plan_destroy(p);
    cudnn_context_destroy(b.cudnn);
}

/* Two processes that start together: what the first one wrote stays, and is what the second one
 * goes by. */
TEST(writers_of_a_cache_keep_what_others_wrote)
{
    CudaBackend one, two;
    bool taken = false;
    const ConvShape s = shape(64, 14, 64, 3, 1);
    ConvNormPlan *p = NULL;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&one, "h200", NULL, test_scratch()));
    REQUIRE_OK(cudnn_open_described(&two, "h200", NULL, test_scratch()));
    CHECK_OK(conv_norm_plan_create(&p, &one, CONV_NORM_STATS, CONV_AFFINE, &s));
    CHECK_OK(cudnn_context_add_choice(one.cudnn, "fusion both", true, 0.25));
    CHECK_OK(cudnn_context_add_choice(one.cudnn, "fusion one", true, 0.25));
    CHECK_OK(cudnn_context_add_choice(two.cudnn, "fusion both", false, 0.5));
    CHECK_OK(cudnn_context_add_choice(two.cudnn, "fusion two", true, 0.5));
    cudnn_cache_save(one.cudnn);
    cudnn_cache_save(two.cudnn);
    CHECK(cudnn_context_find_choice(two.cudnn, "fusion both", &taken) && taken);
    CHECK(cudnn_context_find_choice(two.cudnn, "fusion one", &taken));
    conv_norm_plan_destroy(p);
    cudnn_context_destroy(one.cudnn);
    cudnn_context_destroy(two.cudnn);
    REQUIRE_OK(cudnn_open_described(&one, "h200", NULL, test_scratch()));
    CHECK(cudnn_context_find_choice(one.cudnn, "fusion both", &taken) && taken);
    CHECK(cudnn_context_find_choice(one.cudnn, "fusion one", &taken) &&
          cudnn_context_find_choice(one.cudnn, "fusion two", &taken));
    CHECK_OK(conv_norm_plan_create(&p, &one, CONV_NORM_STATS, CONV_AFFINE, &s));
    CHECK(!one.cudnn->unsaved); /* the plan is there, too */
    conv_norm_plan_destroy(p);
    cudnn_context_destroy(one.cudnn);
}
#endif
