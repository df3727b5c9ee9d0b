/* test_cuda_depthwise.c - who runs convolutions with one filter for each channel: what the modes
 * make of them, and what is said of it. */
#include "kernels/cuda/cuda.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <string.h>
#ifdef CONVOY_EMU
#include "tests/emu/cudnn_emu.h"
#endif

enum { CHANNELS = 16 };

static bool open_device(Backend **b, KernelMode mode)
{
    const CudaOptions o = { .precision = PRECISION_BF16, .depthwise = mode };
    *b = NULL;
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(b, &o));
    return *b != NULL;
}

/* Whether our kernels are to run it. pass: OP_CONV2D or one of its gradients. */
static bool is_own(Backend *b, OpKind pass, int kernel_size, int stride, int groups)
{
    const int pad = kernel_size / 2, size = 9, rows = (size + 2 * pad - kernel_size) / stride + 1;
    const Conv2dAttr attr = { stride, stride, pad, pad, pad, pad, groups };
    const TensorDesc x = { DTYPE_F32, 4, { 2, CHANNELS, size, size } },
                     y = { DTYPE_F32, 4, { 2, CHANNELS, rows, rows } },
                     w = { DTYPE_F32,
                           4,
                           { CHANNELS, CHANNELS / groups, kernel_size, kernel_size } };
    OpInstance op = { .kind = pass, .backend = b, .attr = &attr };
    op.in[0].desc = pass == OP_CONV2D_BWD_DATA ? y : x;
    op.in[1].desc = pass == OP_CONV2D_BWD_WEIGHTS ? y : w;
    op.out[0].desc = pass == OP_CONV2D ? y : pass == OP_CONV2D_BWD_DATA ? x : w;
    CHECK_OK(backend_prepare_op(&op));
    const bool own =
        op.implementation && strncmp(op.implementation, "depthwise", strlen("depthwise")) == 0;
    backend_release_op(&op);
    return own;
}

static const OpKind passes[] = { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS };

TEST(own_kernels_have_the_shapes_of_efficientnet)
{
    Backend *own, *cudnn;
    if (!open_device(&own, KERNELS_OWN) || !open_device(&cudnn, KERNELS_CUDNN)) return;
    for (int i = 0; i < 3; i++) {
        for (int stride = 1; stride <= 2; stride++) {
            CHECK(is_own(own, passes[i], 3, stride, CHANNELS));
            CHECK(is_own(own, passes[i], 5, stride, CHANNELS));
            CHECK(!is_own(own, passes[i], 3, stride, 2));
            CHECK(!is_own(cudnn, passes[i], 3, stride, CHANNELS));
        }
        CHECK(!is_own(own, passes[i], 7, 1, CHANNELS));
        CHECK(!is_own(own, passes[i], 3, 3, CHANNELS));
    }
    backend_destroy(own);
    backend_destroy(cudnn);
}

TEST(what_cudnn_runs_is_said)
{
    Backend *b;
    char says[256];
    if (!open_device(&b, KERNELS_CUDNN)) return;
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 3; i++) is_own(b, passes[i], 3, 1, CHANNELS);
    is_own(b, OP_CONV2D, 5, 1, CHANNELS);
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_CONTAINS(says, "depthwise 2 of 2 shapes");
    CHECK_CONTAINS(says, "depthwise_bwd_data 1 of 1 shapes");
    CHECK_CONTAINS(says, "depthwise_bwd_weights 1 of 1 shapes");
    backend_destroy(b);
}

#ifdef CONVOY_EMU
TEST(auto_measures_each_shape_once_and_keeps_the_answer)
{
    Backend *b;
    if (!open_device(&b, KERNELS_AUTO)) return;
    CHECK(is_own(b, OP_CONV2D, 5, 2, CHANNELS)); /* nothing can be kept */
    CudnnContext *c = ((CudaBackend *)b)->cudnn;
    emu_cudnn_time(c);
    const bool first = is_own(b, OP_CONV2D, 3, 1, CHANNELS),
               second = is_own(b, OP_CONV2D_BWD_WEIGHTS, 3, 1, CHANNELS);
    CHECK_INT(emu_cudnn_choices(c), 2);
    CHECK_INT(is_own(b, OP_CONV2D, 3, 1, CHANNELS), first);
    CHECK_INT(is_own(b, OP_CONV2D_BWD_WEIGHTS, 3, 1, CHANNELS), second);
    CHECK_INT(emu_cudnn_choices(c), 2);
    backend_destroy(b);
}

TEST(auto_follows_what_the_cache_says)
{
    static const char key[] =
        "depthwise by cudnn: bf16 conv2d 1.1.1.1.1.1.16 0:f32[2,16,9,9] 1:f32[16,1,3,3] "
        "->0:f32[2,16,9,9]; limit 268435456";
    for (int taken = 0; taken < 2; taken++) {
        Backend *b;
        if (!open_device(&b, KERNELS_AUTO)) return;
        CudnnContext *c = ((CudaBackend *)b)->cudnn;
        emu_cudnn_time(c);
        CHECK_OK(cudnn_context_add_choice(c, key, taken != 0, 0.5));
        CHECK_INT(is_own(b, OP_CONV2D, 3, 1, CHANNELS), !taken);
        CHECK_INT(emu_cudnn_choices(c), 1); /* nothing was measured: the key is the same */
        backend_destroy(b);
    }
}
#endif
