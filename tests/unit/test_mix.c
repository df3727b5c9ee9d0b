/* Erasing, mixup, cutmix and the loss of mixed targets against torch and torchvision:
 * tests/golden/mix.txt, see scripts/make_mix_golden.py, whose images and logits are made here by
 * the same formulas. On the CPU backend, and on a CUDA device where this build and machine have
 * one. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, H = 9, W = 11, C = 3, CLASSES = 7, VALUES = N * C * H * W };

static const int32_t boxes[N][ERASE_COUNT] = {
    { 0 }, { 2, 3, 4, 5 }, { 0, 0, 9, 2 }, { 7, 10, 2, 1 }
};
static const int32_t labels[N] = { 3, 0, 6, 0 };

/* ---- one operation ---- */

static Status put(Backend *b, OpTensor *t, const void *host)
{
    if (t->desc.rank == 0) return OK;
    TRY(b->v->alloc(b, t->bytes, &t->data));
    return host ? b->v->import_tensor(b, t, host) : OK;
}

/* Runs the op on inputs in plain host memory; out[i] gets what is wanted of output i. */
static Status run_op(Backend *b, OpInstance *op, const void *const *in, void *const *out)
{
    Stream *stream = NULL;
    TRY(backend_prepare_op(op));
    for (int i = 0; i < OP_MAX_INPUTS; i++) TRY(put(b, &op->in[i], in[i]));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) TRY(put(b, &op->out[i], NULL));
    TRY(b->v->alloc(b, op->workspace_bytes + 1, &op->workspace));
    TRY(b->v->stream_create(b, LANE_COMPUTE, &stream));
    const OpImpl *impl = b->v->ops[op->kind];
    TRY(impl->bind ? impl->bind(op) : OK);
    TRY(impl->run(op, stream));
    TRY(b->v->stream_wait(b, stream));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (out[i]) TRY(b->v->export_tensor(b, &op->out[i], out[i]));
    b->v->stream_destroy(b, stream);
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].data) b->v->free(b, op->in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].data) b->v->free(b, op->out[i].data);
    b->v->free(b, op->workspace);
    backend_release_op(op);
    return OK;
}

static Status infer(OpInstance *op)
{
    const TensorDesc *in[OP_MAX_INPUTS];
    TensorDesc out[OP_MAX_OUTPUTS] = { { 0 } };
    const bool wanted[OP_MAX_OUTPUTS] = { true, true };
    for (int i = 0; i < OP_MAX_INPUTS; i++) in[i] = op->in[i].desc.rank ? &op->in[i].desc : NULL;
    TRY(op_infer(op->kind, op->attr, in, wanted, out));
    for (int i = 0; i < op_outputs(op_def(op->kind)); i++) op->out[i].desc = out[i];
    return OK;
}

/* ---- images ---- */

static void set_mix(float *mix, float lambda, bool box)
{
    const float values[MIX_COUNT] = { lambda, (float)(1.0 - 0.7), box, 3, 2, 8, 9 };
    memcpy(mix, values, sizeof values);
}

static void check_input(Backend *b, const char *line)
{
    static float x[VALUES];
    char kind[32];
    uint32_t want = 0;
    uint8_t images[VALUES];
    float mix[MIX_COUNT];
    const InputAttr attr = { .mean = { 0.485F, 0.456F, 0.406F },
                             .std = { 0.229F, 0.224F, 0.225F } };
    OpInstance op = { .kind = OP_INPUT, .backend = b, .attr = &attr };
    REQUIRE(sscanf(line, "input %31s %x", kind, &want) == 2);
    for (uint32_t i = 0; i < VALUES; i++) images[i] = (uint8_t)(i * 2654435761u >> 13);
    set_mix(mix, 0.7F, strstr(kind, "cutmix") != NULL);
    op.in[INPUT_IN_IMAGES].desc = tensor_desc(DTYPE_U8, 4, (int64_t[]){ N, H, W, C });
    if (strstr(kind, "erase"))
        op.in[INPUT_IN_ERASE].desc = tensor_desc(DTYPE_I32, 2, (int64_t[]){ N, ERASE_COUNT });
    if (strstr(kind, "mix"))
        op.in[INPUT_IN_MIX].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ MIX_COUNT });
    REQUIRE_OK(infer(&op));
    REQUIRE_OK(run_op(b, &op, (const void *[OP_MAX_INPUTS]){ images, boxes, mix },
                      (void *[OP_MAX_OUTPUTS]){ x }));
    for (int i = 0; i < VALUES; i++) x[i] += 0.0F; /* torch has no negative zeros here */
    if (crc32c_update(0, x, sizeof x) != want) fprintf(stderr, "differs: input %s\n", kind);
    CHECK_INT(crc32c_update(0, x, sizeof x), want);
}

/* ---- loss ---- */

static void check_loss(Backend *b, const char *line)
{
    double smoothing = 0, lambda = 0, loss = 0, stats[STATS_COUNT];
    int top1 = 0, used = 0;
    float logits[N * CLASSES], gradient[N * CLASSES], mix[MIX_COUNT] = { 0 };
    const float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 1.0F / N };
    REQUIRE(sscanf(line, "loss %lf %lf %lf %d%n", &smoothing, &lambda, &loss, &top1, &used) == 4);
    const XentAttr attr = { .label_smoothing = (float)smoothing };
    OpInstance op = { .kind = OP_SOFTMAX_XENT, .backend = b, .attr = &attr };
    for (int i = 0; i < N * CLASSES; i++) {
        int n = i / CLASSES, k = i % CLASSES;
        logits[i] = (float)((n * 31 + k * 17 + n * k * 5) % 23 - 11) / 4.0F;
    }
    mix[MIX_LAMBDA] = (float)lambda;
    mix[MIX_REST] = (float)(1.0 - lambda);
    op.in[XENT_IN_LOGITS].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ N, CLASSES });
    op.in[XENT_IN_LABELS].desc = tensor_desc(DTYPE_I32, 1, (int64_t[]){ N });
    op.in[XENT_IN_SCALARS].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT });
    op.in[XENT_IN_MIX].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ MIX_COUNT });
    REQUIRE_OK(infer(&op));
    REQUIRE_OK(run_op(b, &op, (const void *[OP_MAX_INPUTS]){ logits, labels, scalars, NULL, mix },
                      (void *[OP_MAX_OUTPUTS]){ stats, gradient }));
    CHECK_NEAR(stats[STATS_LOSS_SUM] / N, loss, 1e-6 * loss);
    CHECK_INT((int)stats[STATS_TOP1], top1);
    const char *at = line + used;
    for (int i = 0; i < N * CLASSES; i++) {
        char *end = NULL;
        CHECK_NEAR(gradient[i], strtod(at, &end), 2e-7);
        at = end;
    }
}

static void check_backend(Backend *b)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int lines = 0;
    REQUIRE_OK(fs_read_file("tests/golden/mix.txt", &text, &bytes));
    for (const char *line = strchr((const char *)text, '\n'); line && line[1];
         line = strchr(line + 1, '\n'), lines++) {
        if (line[1] == 'i') check_input(b, line + 1);
        else check_loss(b, line + 1);
    }
    CHECK_INT(lines, 5 + 6);
    mem_free(text);
    backend_destroy(b);
}

TEST(numbers_are_those_of_torch)
{
    Backend *b = NULL;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 2 }));
    check_backend(b);
}

TEST(numbers_are_those_of_torch_on_a_cuda_device)
{
    Backend *b = NULL;
    const CudaOptions options = { .precision = PRECISION_FP32 };
    if (!cuda_is_there()) return;
    REQUIRE_OK(backend_cuda_create(&b, &options));
    check_backend(b);
}
