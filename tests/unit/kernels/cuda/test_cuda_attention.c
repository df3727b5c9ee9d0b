/* test_cuda_attention.c - who runs attention: which instances cuDNN may be given, what the modes
 * make of them, what is said of it. */
#include "base/rng.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda.h"
#include "kernels/ops/attention.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <string.h>
#ifdef CONVOY_EMU
#include "tests/emu/cudnn_emu.h"
#endif

static bool open_device(Backend **b, Precision precision, KernelMode mode)
{
    const CudaOptions o = { .precision = precision, .attention = mode };
    *b = NULL;
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(b, &o));
    return *b != NULL;
}

enum { HEADS = 2 };

/* Forward with lse, or backward, of n images of length positions, or with attr->longest of n
 * sequences in so many. The op borrows attr. */
static OpInstance make_op(Backend *b, bool backward, const AttentionAttr *attr, int64_t n,
                          int64_t length, int64_t width)
{
    const bool packed = attr->longest > 0;
    const int64_t images = packed ? 1 : n;
    const TensorDesc qkv = { DTYPE_F32, 4, { images, 3 * HEADS * width, length, 1 } },
                     y = { DTYPE_F32, 4, { images, HEADS * width, length, 1 } },
                     lse = { DTYPE_F32,
                             3,
                             { images, packed ? length : HEADS, packed ? HEADS : length } },
                     scalars = { DTYPE_F32, 1, { SCALAR_COUNT } },
                     starts = { DTYPE_I32, 1, { n + 1 } };
    OpInstance op = { .kind = backward ? OP_ATTENTION_BWD : OP_ATTENTION,
                      .backend = b,
                      .attr = attr };
    op.in[backward ? ATTENTION_BWD_IN_QKV : ATTENTION_IN_QKV].desc = qkv;
    if (packed) op.in[backward ? ATTENTION_BWD_IN_STARTS : ATTENTION_IN_STARTS].desc = starts;
    if (attr->drop.rate > 0)
        op.in[backward ? ATTENTION_BWD_IN_SCALARS : ATTENTION_IN_SCALARS].desc = scalars;
    if (backward) {
        op.in[ATTENTION_BWD_IN_DY].desc = op.in[ATTENTION_BWD_IN_Y].desc = y;
        op.in[ATTENTION_BWD_IN_LSE].desc = lse;
        op.out[ATTENTION_BWD_OUT_DQKV].desc = qkv;
    } else {
        op.out[ATTENTION_OUT_Y].desc = y;
        op.out[ATTENTION_OUT_LSE].desc = lse;
    }
    return op;
}

/* Whether our kernels are to run it. longest: AttentionAttr's. */
static bool is_own_within(Backend *b, bool backward, int64_t length, float rate, int longest)
{
    const AttentionAttr attr = { .heads = HEADS, .longest = longest, .drop = { .rate = rate } };
    OpInstance op = make_op(b, backward, &attr, 3, length, 64);
    CHECK_OK(backend_prepare_op(&op));
    const bool own = op.implementation && strcmp(op.implementation, "attention_tiles") == 0;
    CHECK(own == (op.state == NULL));
    backend_release_op(&op);
    return own;
}

static bool is_own(Backend *b, bool backward, int64_t length, float rate)
{
    return is_own_within(b, backward, length, rate, 0);
}

TEST(cudnn_gets_attention_in_16_bits)
{
    static const Precision precisions[] = { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16,
                                            PRECISION_FP16 };
    static const KernelMode modes[] = { KERNELS_OWN, KERNELS_CUDNN, KERNELS_AUTO };
    for (int p = 0; p < 4; p++)
        for (int m = 0; m < 3; m++) {
            Backend *b;
            if (!open_device(&b, precisions[p], modes[m])) return;
            for (int backward = 0; backward < 2; backward++) {
                const bool own = p < 2 || modes[m] == KERNELS_OWN;
                CHECK_INT(is_own(b, backward, 50, 0), own);
                CHECK_INT(is_own(b, backward, 50, 0.1f), own);
                CHECK_INT(is_own_within(b, backward, 50, 0, 20), own);
                CHECK_INT(is_own_within(b, backward, 50, 0.1f, 20), own);
            }
            backend_destroy(b);
        }
}

TEST(what_cudnn_runs_of_attention_is_said)
{
    Backend *b;
    char says[256];
    if (!open_device(&b, PRECISION_BF16, KERNELS_CUDNN)) return;
    for (int again = 0; again < 2; again++) {
        is_own(b, false, 50, 0);
        is_own(b, true, 50, 0);
        is_own(b, true, 50, 0.5f);
        is_own(b, true, 50, 0.25f); /* not another shape: only that something is dropped counts */
    }
    is_own(b, false, 51, 0);
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_CONTAINS(says, "attention 2 of 2 shapes");
    CHECK_CONTAINS(says, "attention_bwd 2 of 2 shapes");
#ifdef CONVOY_EMU
    ((CudaBackend *)b)->workspace_limit = 0;
    CHECK(is_own(b, true, 50, 0));
    b->v->describe_kernels(b, says, sizeof says);
    CHECK_CONTAINS(says, "attention_bwd 2 of 3 shapes, 1 without an engine");
#endif
    backend_destroy(b);
}

#ifdef CONVOY_EMU
/* Numbers of ordinary size, the same at each call; starts: four sequences, one of them empty. */
static void place(OpTensor *t)
{
    static const int32_t starts[] = { 0, 5, 5, 14, 17 };
    static _Alignas(4) uint16_t halves[20 * 96];
    Rng rng = rng_at(7, (RngPurpose)0, 0, 0);
    const void *from = halves;
    if (!t->desc.rank) return;
    REQUIRE(t->bytes <= sizeof halves);
    for (size_t i = 0; i < t->bytes / 2; i++) /* from 0.5 to 1, of either sign */
        halves[i] = (uint16_t)(0x3800U | (rng_u32(&rng) & 0x83ffU));
    for (size_t i = 0; t->desc.rank == 3 && i < t->bytes / 4; i++)
        ((float *)(void *)halves)[i] = (float)(rng_u32(&rng) % 4) + 4;
    if (t->desc.dtype == DTYPE_I32) from = starts;
    REQUIRE(cudaMalloc(&t->data, t->bytes) == cudaSuccess);
    REQUIRE(cudaMemcpy(t->data, from, t->bytes, cudaMemcpyHostToDevice) == cudaSuccess);
}

/* What a pass of attention over these writes, within a limit of workspace that makes so many
 * parts. */
static void run_within(bool backward, bool packed, size_t limit, int parts, uint16_t *out,
                       size_t bytes)
{
    const AttentionAttr attr = { .heads = HEADS,
                                 .longest = packed ? 9 : 0,
                                 .drop = { .seed = 3, .layer = 1, .rate = 0.3f } };
    Backend *b;
    Stream *stream = NULL;
    if (!open_device(&b, PRECISION_FP16, KERNELS_CUDNN)) return;
    ((CudaBackend *)b)->workspace_limit = limit;
    OpInstance op = make_op(b, backward, &attr, 4, packed ? 20 : 5, 16);
    REQUIRE_OK(backend_prepare_op(&op));
    for (int i = 0; i < OP_MAX_INPUTS; i++) place(&op.in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) place(&op.out[i]);
    REQUIRE(cudaMalloc(&op.workspace, op.workspace_bytes) == cudaSuccess);
    CHECK(op.workspace_bytes <= limit);
    REQUIRE_OK(b->v->stream_create(b, LANE_COMPUTE, &stream));
    CHECK_OK(b->v->ops[op.kind]->bind(&op));
    CHECK_OK(b->v->ops[op.kind]->run(&op, stream));
    CHECK_OK(b->v->stream_wait(b, stream));
    REQUIRE(op.out[0].bytes == bytes);
    CHECK(cudaMemcpy(out, op.out[0].data, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK_INT(attention_parts(&op), parts);
    for (int i = 0; i < OP_MAX_INPUTS; i++) cudaFree(op.in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) cudaFree(op.out[i].data);
    cudaFree(op.workspace);
    b->v->stream_destroy(b, stream);
    backend_release_op(&op);
    backend_destroy(b);
}

TEST(cudnns_attention_in_parts_is_the_same)
{
    static uint16_t whole[20 * 96], parts[20 * 96];
    if (!cuda_is_there()) return;
    for (int i = 0; i < 4; i++) {
        const bool backward = i & 1, packed = i & 2;
        const size_t bytes = 20 * (backward ? 96 : 32) * sizeof *whole;
        run_within(backward, packed, 1 << 20, 1, whole, bytes);
        run_within(backward, packed, packed ? 2048 : 600, 2, parts, bytes);
        CHECK(memcmp(parts, whole, bytes) == 0);
        run_within(backward, packed, packed ? 1280 : 300, 4, parts, bytes);
        CHECK(memcmp(parts, whole, bytes) == 0);
        /* behind the last sequence: zeros */
        for (size_t k = packed ? bytes / 20 * 17 : bytes; k < bytes; k += 2)
            CHECK_INT(whole[k / 2], 0);
    }
}

TEST(auto_measures_attention_where_the_answer_is_kept)
{
    Backend *b;
    if (!open_device(&b, PRECISION_BF16, KERNELS_AUTO)) return;
    CudnnContext *c = ((CudaBackend *)b)->cudnn;
    emu_cudnn_time(c);
    const bool first = is_own(b, false, 7, 0), second = is_own(b, true, 7, 0);
    CHECK_INT(emu_cudnn_choices(c), 2);
    CHECK_INT(is_own(b, false, 7, 0), first);
    CHECK_INT(is_own(b, true, 7, 0), second);
    CHECK_INT(emu_cudnn_choices(c), 2);
    /* of text, on sequences that are made for it */
    const bool text = is_own_within(b, true, 20, 0.1f, 7);
    CHECK_INT(is_own_within(b, true, 20, 0.1f, 7), text);
    CHECK_INT(emu_cudnn_choices(c), 3);
    backend_destroy(b);
}

TEST(auto_follows_what_the_cache_says_of_attention)
{
    static const char key[] =
        "attention by cudnn: bf16 attention 2.0.0.0.0.0.0.0 0:f32[3,384,7,1] ->0:f32[3,128,7,1] "
        "->1:f32[3,2,7]; limit 268435456";
    for (int taken = 0; taken < 2; taken++) {
        Backend *b;
        if (!open_device(&b, PRECISION_BF16, KERNELS_AUTO)) return;
        CudnnContext *c = ((CudaBackend *)b)->cudnn;
        emu_cudnn_time(c);
        CHECK_OK(cudnn_context_add_choice(c, key, taken != 0, 0.5));
        CHECK_INT(is_own(b, false, 7, 0), !taken);
        CHECK_INT(emu_cudnn_choices(c), 1); /* nothing was measured: the key is the same */
        backend_destroy(b);
    }
}
#endif
