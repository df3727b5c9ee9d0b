/* test_cuda_norm_plan.c - cuDNN's engines for batch norms on described devices, compiled once.
 * Nothing runs here: the machine needs cuDNN but no GPU; where there is no driver tests/driver_shim
 * answers for it. Without cuDNN the tests say so and check nothing. */
#ifndef CONVOY_EMU /* its batch norms are plain loops */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/norm_plan.h"
#include "tests/test.h"
#include "tests/tools/cudnn_there.h"
#include <dlfcn.h>
#include <stdio.h>

static bool cudnn_compiles(void)
{
    if (!cudnn_is_there()) return false;
    if (dlopen("libcuda.so.1", RTLD_NOW) || dlopen(CONVOY_DRIVER_SHIM, RTLD_NOW | RTLD_GLOBAL))
        return true;
    test_skip(dlerror());
    return false;
}

/* Whether there is an engine. */
static bool has_engine(CudaBackend *b, NormPass pass, const NormShape *s)
{
    NormPlan *p = NULL;
    const Status st = norm_plan_create(&p, b, pass, s);
    if (st == OK) {
        CHECK(norm_plan_workspace(p) <= b->workspace_limit);
        CHECK_STR(norm_plan_name(p), "cudnn engine 0");
    } else {
        CHECK_STATUS(st, ERR_ENV);
        CHECK_CONTAINS(status_message(), "cuDNN has no engine for norm ");
    }
    norm_plan_destroy(p);
    return st == OK;
}

TEST(all_forms_of_a_batch_norm_are_offered)
{
    static const struct {
        DType io;
        ActKind act;
        bool residual;
        int64_t c;
        bool forward, backward;
    } rows[] = { { DTYPE_BF16, ACT_NONE, false, 256, true, true },
                 { DTYPE_BF16, ACT_RELU, false, 256, true, true },
                 { DTYPE_BF16, ACT_SILU, false, 256, true, true },
                 { DTYPE_BF16, ACT_RELU, true, 256, true, false },
                 /* nothing ends in an addition */
                 { DTYPE_BF16, ACT_NONE, true, 256, false, false },
                 { DTYPE_BF16, ACT_RELU, false, 257, false, false },
                 { DTYPE_F16, ACT_RELU, false, 256, true, true },
                 { DTYPE_F32, ACT_RELU, false, 256, true, true } };
    CudaBackend b;
    if (!cudnn_compiles()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    CHECK(cudnn_context_compiles(b.cudnn));
    b.cudnn->uncompiled = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const NormShape s = { .n = 64,
                              .c = rows[i].c,
                              .h = 14,
                              .w = 14,
                              .io = rows[i].io,
                              .act = rows[i].act,
                              .residual = rows[i].residual,
                              .eps = 1e-5f };
        CHECK_INT(has_engine(&b, NORM_FORWARD, &s), rows[i].forward);
        if (!s.residual) CHECK_INT(has_engine(&b, NORM_BWD, &s), rows[i].backward);
    }
    cudnn_context_destroy(b.cudnn);
}

TEST(what_was_compiled_is_not_compiled_again)
{
    const NormShape s = {
        .n = 2, .c = 8, .h = 4, .w = 4, .io = DTYPE_BF16, .act = ACT_RELU, .eps = 1e-5f
    };
    CudaBackend b;
    if (!cudnn_compiles()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, test_scratch()));
    CHECK(has_engine(&b, NORM_FORWARD, &s));
    CHECK(b.cudnn->unsaved);
    cudnn_context_destroy(b.cudnn);
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, test_scratch()));
    CHECK(has_engine(&b, NORM_FORWARD, &s));
    CHECK(!b.cudnn->unsaved); /* it came from the file */
    cudnn_context_destroy(b.cudnn);
}
#endif
