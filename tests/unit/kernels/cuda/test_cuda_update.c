/* test_cuda_update.c - the optimizer step of the CUDA backend as a training program uses it:
 * compute copies follow the master weights, a captured step reads its scalars anew each time it is
 * replayed, and a step that is skipped leaves everything as it was; the same of Lookahead, which
 * writes parameters too. Runs on the test double (EMU=1)
 * and on a GPU; how segments are cut into chunks is tested everywhere. */
#include "kernels/backend_cuda.h"
#include "kernels/cuda/update.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <string.h>

enum { K = 24, C = 16, COUNT = K * C }; /* both are whole vectors in every type: no padding */

/* ---- chunks ---- */

enum { LENGTH = 3 * UPDATE_CHUNK + 5 };

TEST(chunks_cover_segments_once)
{
    static const UpdateSegment segments[] = {
        { 3, 1, 0.5f, 0.25f, false },
        { 4, UPDATE_CHUNK - 4, 0.25f, 1.0f, false },              /* up to a boundary */
        { UPDATE_CHUNK, 2 * UPDATE_CHUNK, 0.125f, 64.0f, false }, /* whole chunks */
        { 3 * UPDATE_CHUNK + 1, 0, 1.0f, 1.0f, false },           /* nothing */
        { 3 * UPDATE_CHUNK + 2, LENGTH - 3 * UPDATE_CHUNK - 2, 0.75f, 0.5f, false },
    };
    static float decay[LENGTH], lr[LENGTH];
    UpdateChunk chunks[16];
    const UpdateAttr attr = { .segment_count = 5, .segments = segments };
    int64_t count = update_chunks_make(&attr, NULL);
    REQUIRE(count <= 16);
    CHECK_INT(update_chunks_make(&attr, chunks), count);
    for (int64_t k = 0; k < count; k++) {
        const UpdateChunk *c = &chunks[k];
        CHECK(c->count > 0);
        CHECK_INT(c->first / UPDATE_CHUNK, (c->first + c->count - 1) / UPDATE_CHUNK);
        for (int64_t i = c->first; i < c->first + c->count; i++) {
            CHECK(decay[i] == 0.0f);
            decay[i] = c->weight_decay;
            lr[i] = c->lr;
        }
    }
    for (int s = 0; s < attr.segment_count; s++)
        for (int64_t i = segments[s].first; i < segments[s].first + segments[s].count; i++) {
            CHECK(decay[i] == segments[s].weight_decay && lr[i] == segments[s].lr);
            decay[i] = 0.0f;
        }
    for (int i = 0; i < LENGTH; i++) CHECK(decay[i] == 0.0f);
}

/* ---- on the device ---- */

typedef struct Rig {
    Backend *backend;
    const DeviceVTable *device;
    Stream *stream;
    DType compute;
    UpdateSegment segment;
    UpdateAttr attr;
    OpInstance update, linear; /* linear: y = x w^T of x = 1 shows the weights that products read */
    float param[COUNT], grad[COUNT];
} Rig;

static bool open_rig(Rig *r, Precision precision, DType compute)
{
    const CudaOptions o = { .precision = precision };
    *r = (Rig){ .compute = compute, .segment = { 0, COUNT, 0, 1 } };
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(&r->backend, &o));
    if (!r->backend) return false;
    r->device = r->backend->v->device;
    CHECK_OK(r->backend->v->stream_create(r->backend, LANE_COMPUTE, &r->stream));
    return r->stream != NULL;
}

static void place(const Rig *r, OpTensor *t, const void *values)
{
    if (t->bytes == 0) t->bytes = tensor_plain_bytes(&t->desc);
    CHECK_OK(r->backend->v->alloc(r->backend, t->bytes, &t->data));
    if (values) CHECK_OK(r->backend->v->import_tensor(r->backend, t, values));
}

static OpTensor flat(int64_t count)
{
    return (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, &count) };
}

static void prepare_update(Rig *r, bool loss_scale)
{
    r->attr = (UpdateAttr){ .kind = UPDATE_SGD, .segment_count = 1, .segments = &r->segment };
    r->update = (OpInstance){ .kind = OP_UPDATE, .backend = r->backend, .attr = &r->attr };
    r->update.in[UPDATE_IN_PARAM] = r->update.in[UPDATE_IN_GRAD] = flat(COUNT);
    r->update.in[UPDATE_IN_SCALARS] = flat(SCALAR_COUNT);
    if (loss_scale) r->update.in[UPDATE_IN_LOSS_SCALE] = flat(LOSS_SCALE_COUNT);
    CHECK_OK(backend_prepare_op(&r->update));
    for (int i = 0; i < COUNT; i++) {
        r->param[i] = 1.0f + (float)i / 512;
        r->grad[i] = (float)(i % 13) - 6;
    }
    place(r, &r->update.in[UPDATE_IN_PARAM], r->param);
    place(r, &r->update.in[UPDATE_IN_GRAD], r->grad);
    place(r, &r->update.in[UPDATE_IN_SCALARS], NULL);
    if (loss_scale) place(r, &r->update.in[UPDATE_IN_LOSS_SCALE], NULL);
    CHECK_OK(r->backend->v->ops[OP_UPDATE]->bind(&r->update));
}

/* The slab is the linear layer's weights and nothing else. */
static void prepare_linear(Rig *r)
{
    float x[C * C] = { 0 };
    for (int i = 0; i < C; i++) x[i * C + i] = 1;
    r->linear = (OpInstance){ .kind = OP_LINEAR, .backend = r->backend };
    r->linear.in[LINEAR_IN_X].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ C, C });
    r->linear.in[LINEAR_IN_W].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ K, C });
    r->linear.out[LINEAR_OUT_Y].desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ C, K });
    CHECK_OK(backend_prepare_op(&r->linear));
    CHECK_INT(r->linear.in[LINEAR_IN_W].bytes, COUNT * sizeof(float));
    place(r, &r->linear.in[LINEAR_IN_X], x);
    place(r, &r->linear.out[LINEAR_OUT_Y], NULL);
    CHECK_OK(r->backend->v->alloc(r->backend, r->linear.workspace_bytes + 1, &r->linear.workspace));
    r->linear.in[LINEAR_IN_W].data = r->update.in[UPDATE_IN_PARAM].data;
    CHECK_OK(r->device->params_attach(r->backend, r->update.in[UPDATE_IN_PARAM].data,
                                      COUNT * sizeof(float)));
    CHECK_OK(r->device->params_changed(r->backend, r->stream));
    CHECK_OK(r->backend->v->ops[OP_LINEAR]->bind(&r->linear));
}

static void close_rig(Rig *r)
{
    const BackendVTable *v = r->backend->v;
    const OpInstance *u = &r->update, *l = &r->linear;
    void *const memory[] = { u->in[UPDATE_IN_PARAM].data,
                             u->in[UPDATE_IN_GRAD].data,
                             u->in[UPDATE_IN_SCALARS].data,
                             u->in[UPDATE_IN_LOSS_SCALE].data,
                             l->in[LINEAR_IN_X].data,
                             l->out[LINEAR_OUT_Y].data,
                             l->workspace };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) v->free(r->backend, memory[i]);
    backend_release_op(&r->update);
    backend_release_op(&r->linear);
    v->stream_destroy(r->backend, r->stream);
    backend_destroy(r->backend);
}

static void set_scalars(const Rig *r, float lr)
{
    const float scalars[SCALAR_COUNT] = { [SCALAR_LR] = lr };
    CHECK_OK(r->backend->v->import_tensor(r->backend, &r->update.in[UPDATE_IN_SCALARS], scalars));
}

static void run(const Rig *r, OpInstance *op)
{
    CHECK_OK(r->backend->v->ops[op->kind]->run(op, r->stream));
}

static float narrowed(DType type, float v)
{
    return type == DTYPE_BF16  ? float_from_bf16(float_to_bf16(v))
           : type == DTYPE_F16 ? float_from_f16(float_to_f16(v))
                               : v;
}

/* The master weights are want, and what products read is want in the compute type. */
static void check_weights(Rig *r, const float *want)
{
    float master[COUNT], seen[COUNT];
    run(r, &r->linear);
    CHECK_OK(r->backend->v->stream_wait(r->backend, r->stream));
    CHECK_OK(r->backend->v->export_tensor(r->backend, &r->update.in[UPDATE_IN_PARAM], master));
    CHECK_OK(r->backend->v->export_tensor(r->backend, &r->linear.out[LINEAR_OUT_Y], seen));
    int wrong_master = 0, wrong_seen = 0;
    for (int k = 0; k < K; k++)
        for (int c = 0; c < C; c++) {
            wrong_master += master[k * C + c] != want[k * C + c];
            wrong_seen += seen[c * K + k] != narrowed(r->compute, want[k * C + c]);
        }
    CHECK_INT(wrong_master, 0);
    CHECK_INT(wrong_seen, 0);
}

static void step(const Rig *r, float *param, float lr)
{
    for (int i = 0; i < COUNT; i++) param[i] -= lr * r->grad[i];
}

/* Rates are powers of two and gradients small whole numbers: every product is exact, fused or
 * not. */
static void test_copies(Precision precision, DType compute)
{
    Rig r;
    if (!open_rig(&r, precision, compute)) return;
    prepare_update(&r, false);
    prepare_linear(&r);
    check_weights(&r, r.param);
    for (int i = 0; i < 3; i++) {
        set_scalars(&r, 0.0625f);
        run(&r, &r.update);
        step(&r, r.param, 0.0625f);
        check_weights(&r, r.param);
    }
    close_rig(&r);
}

TEST(compute_copies_follow_the_masters)
{
    test_copies(PRECISION_FP32, DTYPE_F32);
    test_copies(PRECISION_BF16, DTYPE_BF16);
    test_copies(PRECISION_FP16, DTYPE_F16);
}

TEST(a_replayed_step_reads_its_scalars_anew)
{
    Rig r;
    Replay *replay = NULL;
    if (!open_rig(&r, PRECISION_BF16, DTYPE_BF16)) return;
    prepare_update(&r, false);
    prepare_linear(&r);
    run(&r, &r.linear); /* an ordinary run comes first */
    CHECK_OK(r.backend->v->stream_wait(r.backend, r.stream));
    CHECK_OK(r.device->capture_begin(r.backend, r.stream));
    run(&r, &r.update);
    CHECK_OK(r.device->capture_end(r.backend, r.stream, &replay));
    check_weights(&r, r.param);
    for (int i = 0; i < 4; i++) {
        float lr = 1.0f / (float)(8 << i);
        set_scalars(&r, lr);
        CHECK_OK(r.device->replay(r.backend, replay, r.stream));
        step(&r, r.param, lr);
        check_weights(&r, r.param);
    }
    r.device->replay_destroy(r.backend, replay);
    close_rig(&r);
}

TEST(a_skipped_step_changes_nothing)
{
    Rig r;
    if (!open_rig(&r, PRECISION_FP16, DTYPE_F16)) return;
    prepare_update(&r, true);
    prepare_linear(&r);
    set_scalars(&r, 0.5f);
    float state[LOSS_SCALE_COUNT] = { [LOSS_SCALE_SCALE] = 8, [LOSS_SCALE_FOUND_INF] = 1 };
    CHECK_OK(r.backend->v->import_tensor(r.backend, &r.update.in[UPDATE_IN_LOSS_SCALE], state));
    run(&r, &r.update);
    check_weights(&r, r.param);
    state[LOSS_SCALE_FOUND_INF] = 0;
    CHECK_OK(r.backend->v->import_tensor(r.backend, &r.update.in[UPDATE_IN_LOSS_SCALE], state));
    run(&r, &r.update);
    step(&r, r.param, 0.5f / 8);
    check_weights(&r, r.param);
    close_rig(&r);
}

/* Averages and weights are whole numbers of halves and quarters: all products are exact. */
TEST(copies_follow_lookahead_and_what_is_swapped_in)
{
    Rig r;
    Replay *replay = NULL;
    float average[COUNT], before[COUNT], scalars[SCALAR_COUNT] = { 0 };
    if (!open_rig(&r, PRECISION_BF16, DTYPE_BF16)) return;
    prepare_update(&r, false);
    prepare_linear(&r);
    LerpAttr meet_attr = { LERP_MEET, SCALAR_LOOKAHEAD }, swap_attr = { LERP_SWAP, 0 };
    OpInstance meet = { .kind = OP_LERP, .backend = r.backend, .attr = &meet_attr }, swap;
    meet.in[LERP_IN_AVERAGE] = flat(COUNT);
    meet.in[LERP_IN_X] = r.update.in[UPDATE_IN_PARAM];
    meet.in[LERP_IN_SCALARS] = r.update.in[UPDATE_IN_SCALARS];
    CHECK_OK(backend_prepare_op(&meet));
    for (int i = 0; i < COUNT; i++) average[i] = (float)(i % 7) / 4;
    place(&r, &meet.in[LERP_IN_AVERAGE], average);
    swap = meet;
    swap.attr = &swap_attr;
    run(&r, &meet); /* an ordinary run comes first; a weight of 0 takes the average */
    check_weights(&r, average);
    CHECK_OK(r.backend->v->import_tensor(r.backend, &meet.in[LERP_IN_X], r.param));
    CHECK_OK(r.device->params_changed(r.backend, r.stream));
    CHECK_OK(r.device->capture_begin(r.backend, r.stream));
    run(&r, &meet);
    CHECK_OK(r.device->capture_end(r.backend, r.stream, &replay));
    const float weights[] = { -1, 0.25F, -1 };
    for (int k = 0; k < 3; k++) {
        scalars[SCALAR_LOOKAHEAD] = weights[k];
        CHECK_OK(r.backend->v->import_tensor(r.backend, &r.update.in[UPDATE_IN_SCALARS], scalars));
        CHECK_OK(r.device->replay(r.backend, replay, r.stream));
        for (int i = 0; k == 1 && i < COUNT; i++)
            r.param[i] = average[i] += 0.25F * (r.param[i] - average[i]);
        check_weights(&r, r.param);
    }
    step(&r, r.param, 0.0625F);
    memcpy(before, r.param, sizeof before);
    CHECK_OK(r.backend->v->import_tensor(r.backend, &meet.in[LERP_IN_X], r.param));
    run(&r, &swap);
    check_weights(&r, average);
    run(&r, &swap);
    check_weights(&r, before);
    r.device->replay_destroy(r.backend, replay);
    r.backend->v->free(r.backend, meet.in[LERP_IN_AVERAGE].data);
    backend_release_op(&meet);
    close_rig(&r);
}
