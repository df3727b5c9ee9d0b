/* test_bits.c - results of the CPU backend are the same bits for any number of threads, and for a
 * sequence whatever else lies in its micro-batch. */
#include "base/mem.h"
#include "kernels/backend.h"
#include "tests/test.h"
#include <string.h>

/* Runs op, whose input descriptions and values are there, on that number of threads; outputs go to
 * out, plain. */
static void run_op(OpInstance op, int threads, const bool *wanted, float **out)
{
    Backend *b;
    Stream *stream;
    TensorDesc descs[OP_MAX_OUTPUTS] = { { 0 } };
    const TensorDesc *in[OP_MAX_INPUTS];
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = threads }));
    op.backend = b;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        in[i] = op.in[i].desc.rank ? &op.in[i].desc : NULL;
        op.in[i].bytes = in[i] ? tensor_plain_bytes(in[i]) : 0;
    }
    REQUIRE_OK(op_infer(op.kind, op.attr, in, wanted, descs));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) op.out[i].desc = descs[i];
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (descs[i].rank) op.out[i].bytes = tensor_plain_bytes(&descs[i]);
    REQUIRE_OK(backend_prepare_op(&op));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) op.out[i].data = out[i];
    REQUIRE_OK(b->v->alloc(b, op.workspace_bytes, &op.workspace));
    REQUIRE_OK(b->v->stream_create(b, LANE_COMPUTE, &stream));
    CHECK_OK(b->v->ops[op.kind]->bind(&op));
    CHECK_OK(b->v->ops[op.kind]->run(&op, stream));
    b->v->stream_destroy(b, stream);
    b->v->free(b, op.workspace);
    backend_release_op(&op);
    backend_destroy(b);
}

static float *some(int64_t count, int64_t salt)
{
    float *v = mem_calloc((size_t)count, sizeof *v);
    CHECK(v);
    for (int64_t i = 0; v && i < count; i++) v[i] = (float)((i * 7919 + salt) % 1009 - 504) / 100;
    return v;
}

/* 12 rows are whole ones to a single thread, and pieces to five. */
TEST(cross_entropy_of_many_classes_is_the_same_for_any_team)
{
    enum { ROWS = 12, CLASSES = 50265, TEAMS = 3 };
    static const int teams[TEAMS] = { 1, 2, 5 };
    float *logits = some(ROWS * CLASSES, 3), *slopes[TEAMS], scalars[SCALAR_COUNT] = { 0 };
    double stats[TEAMS][STATS_COUNT];
    int32_t labels[ROWS];
    const XentAttr attr = { .label_smoothing = 0.1f };
    for (int n = 0; n < ROWS; n++) labels[n] = n == 5 ? -1 : n * 4000;
    scalars[SCALAR_GRAD_SCALE] = 1.0f / ROWS;
    OpInstance op = { .kind = OP_SOFTMAX_XENT, .attr = &attr };
    op.in[XENT_IN_LOGITS] =
        (OpTensor){ .desc = tensor_desc(DTYPE_F32, 2, (int64_t[]){ ROWS, CLASSES }),
                    .data = logits };
    op.in[XENT_IN_LABELS] =
        (OpTensor){ .desc = tensor_desc(DTYPE_I32, 1, (int64_t[]){ ROWS }), .data = labels };
    op.in[XENT_IN_SCALARS] =
        (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT }),
                    .data = scalars };
    for (int i = 0; i < TEAMS; i++) {
        slopes[i] = some(ROWS * CLASSES, 0);
        float *out[OP_MAX_OUTPUTS] = { (float *)(void *)stats[i], slopes[i] };
        run_op(op, teams[i], (bool[OP_MAX_OUTPUTS]){ true, true }, out);
        CHECK(memcmp(stats[i], stats[0], sizeof stats[0]) == 0);
        CHECK(memcmp(slopes[i], slopes[0], ROWS * CLASSES * sizeof(float)) == 0);
    }
    CHECK_NEAR(stats[0][STATS_IMAGES], ROWS - 1, 0);
    for (int i = 0; i < TEAMS; i++) mem_free(slopes[i]);
    mem_free(logits);
}

enum { HEADS = 2, WIDTH = 8, LONGEST = 37, SEQUENCES = 4, TAIL = 5, E = HEADS * WIDTH };
static const int32_t starts[SEQUENCES + 1] = { 0, LONGEST, LONGEST + 1, LONGEST + 1, LONGEST + 21 };
enum { ALL = LONGEST + 21 + TAIL };

/* y [E,T] and dqkv [3E,T] of sequences [first, first + count), which are the first of the step's
 * but for `first`; positions: T. qkv, dy: of all, [channels,ALL]. */
static void attend(int first, int count, int64_t positions, const float *qkv, const float *dy,
                   int threads, float *y, float *dqkv)
{
    const AttentionAttr attr = { .heads = HEADS,
                                 .longest = LONGEST,
                                 .drop = { .seed = 42, .layer = 3, .rate = 0.25f } };
    const TensorDesc qkv_desc = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 1, 3 * E, positions, 1 }),
                     y_desc = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 1, E, positions, 1 });
    float *part = some(3 * E * positions, 0), *slopes = some(E * positions, 0),
          *lse = some(HEADS * positions, 0), scalars[SCALAR_COUNT] = { 0 };
    int32_t own[SEQUENCES + 1];
    for (int i = 0; i <= count; i++) own[i] = starts[first + i] - starts[first];
    for (int c = 0; c < 3 * E; c++)
        for (int64_t i = 0; i < positions; i++) {
            const int64_t at = starts[first] + i < ALL ? starts[first] + i : 0;
            part[c * positions + i] = qkv[c * ALL + at];
            if (c < E) slopes[c * positions + i] = dy[c * ALL + at];
        }
    scalars[SCALAR_STEP_LOW] = 9;
    scalars[SCALAR_PLACE_LOW] = (float)(100 + first);
    const OpTensor scalar_tensor = { .desc = tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT }),
                                     .data = scalars },
                   own_tensor = { .desc = tensor_desc(DTYPE_I32, 1, (int64_t[]){ count + 1 }),
                                  .data = own };
    OpInstance op = { .kind = OP_ATTENTION, .attr = &attr };
    op.in[ATTENTION_IN_QKV] = (OpTensor){ .desc = qkv_desc, .data = part };
    op.in[ATTENTION_IN_SCALARS] = scalar_tensor;
    op.in[ATTENTION_IN_STARTS] = own_tensor;
    run_op(op, threads, (bool[OP_MAX_OUTPUTS]){ true, true }, (float *[OP_MAX_OUTPUTS]){ y, lse });
    OpInstance back = { .kind = OP_ATTENTION_BWD, .attr = &attr };
    back.in[ATTENTION_BWD_IN_DY] = (OpTensor){ .desc = y_desc, .data = slopes };
    back.in[ATTENTION_BWD_IN_QKV] = op.in[ATTENTION_IN_QKV];
    back.in[ATTENTION_BWD_IN_Y] = (OpTensor){ .desc = y_desc, .data = y };
    back.in[ATTENTION_BWD_IN_LSE] =
        (OpTensor){ .desc = tensor_desc(DTYPE_F32, 3, (int64_t[]){ 1, positions, HEADS }),
                    .data = lse };
    back.in[ATTENTION_BWD_IN_SCALARS] = scalar_tensor;
    back.in[ATTENTION_BWD_IN_STARTS] = own_tensor;
    run_op(back, threads, (bool[OP_MAX_OUTPUTS]){ true }, (float *[OP_MAX_OUTPUTS]){ dqkv });
    mem_free(part);
    mem_free(slopes);
    mem_free(lse);
}

/* With the same draws: they go by a sequence's place in the step. */
TEST(a_sequence_attends_alike_alone_and_in_company)
{
    float *qkv = some(3 * E * ALL, 1), *dy = some(E * ALL, 2), *y = some(E * ALL, 0),
          *dqkv = some(3 * E * ALL, 0), *one_y = some(E * ALL, 0), *one_dqkv = some(3 * E * ALL, 0);
    attend(0, SEQUENCES, ALL, qkv, dy, 3, y, dqkv);
    for (int n = 0; n < SEQUENCES; n++) {
        const int64_t length = starts[n + 1] - starts[n], positions = length + 2;
        int wrong = 0;
        attend(n, 1, positions, qkv, dy, 1, one_y, one_dqkv);
        for (int c = 0; c < 3 * E; c++)
            for (int64_t i = 0; i < positions; i++) {
                const bool inside = i < length;
                const int64_t one = c * positions + i, at = c * ALL + starts[n] + i;
                wrong += one_dqkv[one] != (inside ? dqkv[at] : 0);
                if (c < E) wrong += one_y[one] != (inside ? y[at] : 0);
            }
        CHECK_INT(wrong, 0);
    }
    mem_free(qkv);
    mem_free(dy);
    mem_free(y);
    mem_free(dqkv);
    mem_free(one_y);
    mem_free(one_dqkv);
}
