/* Batch norm of the CPU backend: results are the same bits whatever the number of threads, in
 * blocks and in rows. What they are is tests/ops's business. */
#include "kernels/cpu/view.h"
#include "kernels/op_norm.h"
#include "tests/test.h"
#include <string.h>

/* What can be asked of a norm; the sizes give one part and many, whole steps and what they leave,
 * and fewer images than threads. */
typedef struct Norm {
    int64_t dims[4];
    BatchNormMode mode;
    ActKind act;
    bool residual;
} Norm;
static const Norm norms[] = {
    { { 1, 64, 61, 59 }, BN_TRAIN, ACT_RELU, true },
    { { 2, 24, 90, 87 }, BN_TRAIN, ACT_SILU, false },
    { { 3, 3, 41, 43 }, BN_TRAIN, ACT_NONE, false },
    { { 3, 40, 55, 51 }, BN_FROZEN, ACT_RELU, false },
    { { 5, 512, 7, 7 }, BN_TRAIN, ACT_RELU, false },
    { { 300, 17, 5, 7 }, BN_TRAIN, ACT_RELU, true },
    { { 700, 16, 1, 1 }, BN_TRAIN, ACT_RELU, false },
    { { 1, 2048, 1, 2 }, BN_TRAIN, ACT_NONE, true },
};
enum { NORMS = sizeof norms / sizeof norms[0] };

static Backend *backend;

static void fill(OpTensor *t, int salt)
{
    const int64_t count = tensor_elements(&t->desc);
    uint32_t state = 12345u + (uint32_t)salt;
    float *host;
    void *memory;
    REQUIRE_OK(backend->v->alloc(backend, (size_t)count * sizeof *host, &memory));
    host = memory;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) * 0x1p-24f + 0.1f; /* also a variance */
    }
    REQUIRE_OK(backend->v->alloc(backend, t->bytes, &t->data));
    CHECK_OK(backend->v->import_tensor(backend, t, host));
    backend->v->free(backend, memory);
}

static uint64_t hash_of(uint64_t hash, const OpTensor *t)
{
    const unsigned char *bytes = t->data;
    for (size_t i = 0; bytes && i < t->bytes; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

/* Runs op and hashes what it leaves, the inputs that it updates with it. */
static uint64_t run(OpInstance *op, OpTensor *x)
{
    Stream *stream;
    uint64_t hash = 14695981039346656037u;
    cpu_view_decide((CpuBackend *)backend, x);
    CHECK_OK(backend_prepare_op(op));
    CHECK_OK(backend->v->stream_create(backend, LANE_COMPUTE, &stream));
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank != 0) fill(&op->in[i], i);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank != 0) fill(&op->out[i], -1);
    CHECK_OK(backend->v->alloc(backend, op->workspace_bytes, &op->workspace));
    memset(op->workspace, 0xff, op->workspace_bytes);
    CHECK_OK(backend->v->ops[op->kind]->bind(op));
    CHECK_OK(backend->v->ops[op->kind]->run(op, stream));
    for (int i = 0; i < OP_MAX_INPUTS; i++) hash = hash_of(hash, &op->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) hash = hash_of(hash, &op->out[i]);
    for (int i = 0; i < OP_MAX_INPUTS; i++) backend->v->free(backend, op->in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) backend->v->free(backend, op->out[i].data);
    backend->v->free(backend, op->workspace);
    backend->v->stream_destroy(backend, stream);
    backend_release_op(op);
    return hash;
}

static uint64_t forward(const Norm *n)
{
    const BatchNormAttr attr = { 1e-5f, 0.1f, n->mode, n->act, 0 };
    const TensorDesc x = tensor_desc(DTYPE_F32, 4, n->dims),
                     vector = tensor_desc(DTYPE_F32, 1, &n->dims[1]);
    OpInstance op = { .kind = OP_BATCHNORM, .backend = backend, .attr = &attr };
    op.in[BN_IN_X].desc = op.out[BN_OUT_Y].desc = x;
    for (int i = BN_IN_GAMMA; i <= BN_IN_RUNNING_VAR; i++) op.in[i].desc = vector;
    if (n->residual) op.in[BN_IN_RESIDUAL].desc = x;
    op.out[BN_OUT_SAVED].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 2, n->dims[1] });
    return run(&op, &op.in[BN_IN_X]);
}

static uint64_t backward(const Norm *n)
{
    const BatchNormAttr attr = { 1e-5f, 0.1f, n->mode, n->act, 0 };
    const TensorDesc x = tensor_desc(DTYPE_F32, 4, n->dims),
                     vector = tensor_desc(DTYPE_F32, 1, &n->dims[1]);
    OpInstance op = { .kind = OP_BATCHNORM_BWD, .backend = backend, .attr = &attr };
    op.in[BN_BWD_IN_DY].desc = op.in[BN_BWD_IN_X].desc = op.out[BN_BWD_OUT_DX].desc = x;
    op.in[BN_BWD_IN_GAMMA].desc = op.in[BN_BWD_IN_BETA].desc = vector;
    op.in[BN_BWD_IN_SAVED].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 2, n->dims[1] });
    op.out[BN_BWD_OUT_DGAMMA].desc = op.out[BN_BWD_OUT_DBETA].desc = vector;
    if (n->residual) op.in[BN_BWD_IN_Y].desc = op.out[BN_BWD_OUT_DRESIDUAL].desc = x;
    if (n->residual) op.in[BN_BWD_IN_DY2].desc = x;
    return run(&op, &op.in[BN_BWD_IN_X]);
}

static void check_threads(Precision precision)
{
    static const int teams[] = { 1, 2, 3, 7 };
    uint64_t want[NORMS][2];
    for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        REQUIRE_OK(backend_cpu_create(
            &backend, &(CpuOptions){ .threads = teams[t], .precision = precision }));
        for (int i = 0; i < NORMS; i++) {
            const uint64_t got[2] = { forward(&norms[i]), backward(&norms[i]) };
            if (t == 0) memcpy(want[i], got, sizeof got);
            CHECK(got[0] == want[i][0]);
            CHECK(got[1] == want[i][1]);
        }
        backend_destroy(backend);
    }
    for (int i = 1; i < NORMS; i++) CHECK(want[i][0] != want[0][0] && want[i][1] != want[0][1]);
}

TEST(blocks_do_not_depend_on_the_threads)
{
    check_threads(PRECISION_FP32);
}

TEST(rows_do_not_depend_on_the_threads)
{
    check_threads(PRECISION_BF16);
}
