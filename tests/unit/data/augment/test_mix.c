/* Erasing, mixup, cutmix and the losses against torch, torchvision and timm: tests/golden/mix.txt,
 * loss.txt and distil.txt, see scripts/golden/make_mix_golden.py, make_loss_golden.py and
 * make_distil_golden.py, whose images and logits are made here by the same formulas. On the CPU
 * backend, and on a CUDA device where this build and machine have one. */
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

static float logit_at(int n, int k)
{
    return (float)((n * 31 + k * 17 + n * k * 5) % 23 - 11) / 4.0F;
}

static void check_loss(Backend *b, const char *line)
{
    double smoothing = 0, lambda = 0, loss = 0, stats[STATS_COUNT];
    int top1 = 0, used = 0;
    float logits[N * CLASSES], gradient[N * CLASSES], mix[MIX_COUNT] = { 0 };
    const float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 1.0F / N };
    REQUIRE(sscanf(line, "loss %lf %lf %lf %d%n", &smoothing, &lambda, &loss, &top1, &used) == 4);
    const XentAttr attr = { .label_smoothing = (float)smoothing };
    OpInstance op = { .kind = OP_SOFTMAX_XENT, .backend = b, .attr = &attr };
    for (int i = 0; i < N * CLASSES; i++) logits[i] = logit_at(i / CLASSES, i % CLASSES);
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

/* ---- binary cross entropy, class weights ---- */

typedef struct LossCase {
    bool small, weighted, multi;
    double lambda, loss;
    XentAttr attr;
    const char *gradient; /* the rest of the line */
} LossCase;

static void parse_loss(const char *line, LossCase *c)
{
    char data[16], kind[16];
    double smoothing = 0, threshold = 0;
    int sum = 0, weighted = 0, used = 0;
    REQUIRE(sscanf(line, "%15s %15s %lf %lf %d %lf %d %lf%n", data, kind, &smoothing, &threshold,
                   &sum, &c->lambda, &weighted, &c->loss, &used) == 8);
    c->small = strcmp(data, "small") == 0;
    c->weighted = weighted != 0;
    c->multi = strcmp(kind, "multi") == 0;
    c->gradient = line + used;
    c->attr =
        (XentAttr){ .label_smoothing = (float)smoothing,
                    .loss = strcmp(kind, "cross_entropy") == 0 ? LOSS_CROSS_ENTROPY : LOSS_BCE,
                    .threshold = (float)threshold,
                    .sum = sum };
}

/* What torch divides a weighted cross entropy of labels by. */
static double divisor_of(const LossCase *c, const int32_t *own, int rows, const float *weights)
{
    double sum = 0;
    if (!c->weighted || c->attr.loss == LOSS_BCE || c->lambda != 1) return rows;
    for (int n = 0; n < rows; n++) sum += (double)weights[own[n]];
    return sum;
}

static void check_class_loss(Backend *b, const char *line)
{
    static const float small[6] = { 1, -2, 0.5F, 0, 3, -1 };
    static const int32_t small_labels[2] = { 2, 1 };
    LossCase c = { 0 };
    float logits[N * CLASSES], gradient[N * CLASSES], weights[CLASSES], mix[MIX_COUNT] = { 0 };
    double stats[STATS_COUNT];
    uint8_t targets[N] = { 0 }; /* a byte per image: no more than 8 classes */
    parse_loss(line, &c);
    const int rows = c.small ? 2 : N, classes = c.small ? 3 : CLASSES;
    const int32_t *own = c.small ? small_labels : labels;
    for (int i = 0; i < rows * classes; i++)
        logits[i] = c.small ? small[i] : logit_at(i / classes, i % classes);
    for (int k = 0; k < classes; k++) weights[k] = 0.5F + 0.25F * (float)k;
    for (int n = 0; n < rows; n++)
        for (int k = 0; k < classes; k++)
            if (n != 1 && (n * 5 + k * 3 + n * k) % 4 < 2) targets[n] |= (uint8_t)(1 << k);
    mix[MIX_LAMBDA] = (float)c.lambda;
    mix[MIX_REST] = (float)(1.0 - c.lambda);
    const double divisor = divisor_of(&c, own, rows, weights);
    const float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 1.0F };
    OpInstance op = { .kind = OP_SOFTMAX_XENT, .backend = b, .attr = &c.attr };
    op.in[XENT_IN_LOGITS].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ rows, classes });
    op.in[XENT_IN_LABELS].desc = tensor_desc(DTYPE_I32, 1, (int64_t[]){ rows });
    op.in[XENT_IN_SCALARS].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT });
    op.in[XENT_IN_MIX].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ MIX_COUNT });
    if (c.weighted)
        op.in[XENT_IN_CLASS_WEIGHTS].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ classes });
    if (c.multi) op.in[XENT_IN_TARGETS].desc = tensor_desc(DTYPE_U8, 2, (int64_t[]){ rows, 1 });
    REQUIRE_OK(infer(&op));
    REQUIRE_OK(run_op(
        b, &op, (const void *[OP_MAX_INPUTS]){ logits, own, scalars, NULL, mix, weights, targets },
        (void *[OP_MAX_OUTPUTS]){ stats, gradient }));
    CHECK_NEAR(stats[STATS_LOSS_SUM] / divisor, c.loss, 2e-6 * c.loss);
    if (c.multi) CHECK(stats[STATS_TOP1] == 0 && stats[STATS_TOP5] == 0);
    for (int i = 0; i < rows * classes; i++) {
        char *end = NULL;
        const double want = strtod(c.gradient, &end);
        CHECK(end != c.gradient);
        /* smoothing is a float, which shows where logistic and target are nearly the same */
        CHECK_NEAR((double)gradient[i] / divisor, want, 2e-6 * fabs(want) + (c.multi ? 2e-9 : 0));
        c.gradient = end;
    }
}

/* ---- a teacher ---- */

static void check_distil(Backend *b, const char *line)
{
    double temperature = 0, weight = 0, smoothing = 0, lambda = 0, loss = 0, stats[STATS_COUNT];
    int used = 0;
    float logits[N * CLASSES], teacher[N * CLASSES], gradient[N * CLASSES], mix[MIX_COUNT] = { 0 };
    const float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 1.0F / N };
    REQUIRE(sscanf(line, "%lf %lf %lf %lf %lf%n", &temperature, &weight, &smoothing, &lambda, &loss,
                   &used) == 5);
    const XentAttr attr = { .label_smoothing = (float)smoothing,
                            .temperature = (float)temperature,
                            .distill = (float)weight };
    OpInstance op = { .kind = OP_SOFTMAX_XENT, .backend = b, .attr = &attr };
    for (int n = 0; n < N; n++)
        for (int k = 0; k < CLASSES; k++) {
            logits[n * CLASSES + k] = logit_at(n, k);
            teacher[n * CLASSES + k] = (float)((n * 13 + k * 19 + n * k * 3) % 23 - 11) / 4.0F;
        }
    mix[MIX_LAMBDA] = (float)lambda;
    mix[MIX_REST] = (float)(1.0 - lambda);
    op.in[XENT_IN_LOGITS].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ N, CLASSES });
    op.in[XENT_IN_TEACHER].desc = op.in[XENT_IN_LOGITS].desc;
    op.in[XENT_IN_LABELS].desc = tensor_desc(DTYPE_I32, 1, (int64_t[]){ N });
    op.in[XENT_IN_SCALARS].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT });
    op.in[XENT_IN_MIX].desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ MIX_COUNT });
    REQUIRE_OK(infer(&op));
    REQUIRE_OK(run_op(b, &op,
                      (const void *[OP_MAX_INPUTS]){ [XENT_IN_LOGITS] = logits,
                                                     [XENT_IN_LABELS] = labels,
                                                     [XENT_IN_SCALARS] = scalars,
                                                     [XENT_IN_MIX] = mix,
                                                     [XENT_IN_TEACHER] = teacher },
                      (void *[OP_MAX_OUTPUTS]){ stats, gradient }));
    CHECK_NEAR(stats[STATS_LOSS_SUM] / N, loss, 1e-6 * loss);
    for (int i = 0; i < N * CLASSES; i++) {
        char *end = NULL;
        const double want = strtod(line + used, &end);
        CHECK(end != line + used);
        CHECK_NEAR((double)gradient[i], want, 5e-7);
        line = end;
        used = 0;
    }
}

static int check_lines(Backend *b, const char *file, void (*check)(Backend *b, const char *line))
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int lines = 0;
    CHECK_OK(fs_read_file(file, &text, &bytes));
    for (const char *line = text ? strchr((const char *)text, '\n') : NULL; line && line[1];
         line = strchr(line + 1, '\n'), lines++)
        check(b, line + 1);
    mem_free(text);
    return lines;
}

static void check_mix(Backend *b, const char *line)
{
    if (line[0] == 'i') check_input(b, line);
    else check_loss(b, line);
}

static void check_backend(Backend *b)
{
    CHECK_INT(check_lines(b, "tests/golden/mix.txt", check_mix), 5 + 6);
    CHECK_INT(check_lines(b, "tests/golden/loss.txt", check_class_loss),
              2 * 2 * 2 * 2 * 5 + 2 * 2 * 2 * 3);
    CHECK_INT(check_lines(b, "tests/golden/distil.txt", check_distil), 3 * 2 * 2);
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
