/* test_embed.c - the gradients of the tables of words have the same bits for teams of every size:
 * fewer threads than channel blocks, as many, and more. */
#include "base/mem.h"
#include "kernels/cpu/view.h"
#include "tests/test.h"
#include <string.h>

enum { PLACES = 1200, CHANNELS = 40, WORDS = 90, POSITIONS = 402, SEQUENCES = 3, KINDS = 2 };
enum { RESULT = (WORDS + POSITIONS + KINDS) * CHANNELS };

static float dy[CHANNELS * PLACES];
static int32_t ids[PLACES], order[PLACES], segment_ids[PLACES];
static int32_t starts[] = { 0, 400, 700, 1100 };

static void fill(void)
{
    int at = 0;
    for (int i = 0; i < CHANNELS * PLACES; i++) dy[i] = (float)(i * 7919 % 1009) / 997 - 0.5F;
    for (int t = 0; t < PLACES; t++) {
        const int draw = t * 7919 % 1013;
        /* a third of them is one word */
        ids[t] = t >= starts[SEQUENCES] ? -1 : draw % 3 ? draw % WORDS : WORDS / 2;
        segment_ids[t] = t >= starts[SEQUENCES] ? -1 : t / 100 % KINDS;
    }
    for (int id = 0; id <= WORDS; id++)
        for (int t = 0; t < PLACES; t++)
            if (ids[t] == (id < WORDS ? id : -1)) order[at++] = t;
}

static OpTensor plain(DType type, int rank, int64_t a, int64_t b, void *data)
{
    OpTensor t = { .desc = tensor_desc(type, rank, (const int64_t[]){ a, b }), .data = data };
    t.bytes = tensor_plain_bytes(&t.desc);
    return t;
}

static void run(int threads, float *out)
{
    static const EmbedAttr attr = { .offset = 2 };
    Backend *b;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = threads }));
    OpInstance op = { .kind = OP_EMBED_BWD, .backend = b, .attr = &attr };
    OpTensor *x = &op.in[EMBED_BWD_IN_DY];
    x->desc = tensor_desc(DTYPE_F32, 4, (const int64_t[]){ 1, CHANNELS, PLACES, 1 });
    cpu_view_decide((CpuBackend *)b, x);
    REQUIRE_OK(b->v->alloc(b, x->bytes, &x->data));
    REQUIRE_OK(b->v->import_tensor(b, x, dy));
    op.in[EMBED_BWD_IN_IDS] = plain(DTYPE_I32, 1, PLACES, 0, ids);
    op.in[EMBED_BWD_IN_ORDER] = plain(DTYPE_I32, 1, PLACES, 0, order);
    op.in[EMBED_BWD_IN_STARTS] = plain(DTYPE_I32, 1, SEQUENCES + 1, 0, starts);
    op.in[EMBED_BWD_IN_SEGMENT_IDS] = plain(DTYPE_I32, 1, PLACES, 0, segment_ids);
    op.out[EMBED_BWD_OUT_DWORDS] = plain(DTYPE_F32, 2, WORDS, CHANNELS, out);
    out += WORDS * CHANNELS;
    op.out[EMBED_BWD_OUT_DPOSITIONS] = plain(DTYPE_F32, 2, POSITIONS, CHANNELS, out);
    out += POSITIONS * CHANNELS;
    op.out[EMBED_BWD_OUT_DSEGMENTS] = plain(DTYPE_F32, 2, KINDS, CHANNELS, out);
    REQUIRE_OK(backend_prepare_op(&op));
    CHECK_OK(b->v->ops[op.kind]->run(&op, NULL));
    b->v->free(b, x->data);
    backend_release_op(&op);
    backend_destroy(b);
}

TEST(gradients_of_tables_have_the_same_bits_for_every_team)
{
    static const int threads[] = { 2, 3, 5, 16 };
    float *one = mem_calloc(RESULT, sizeof *one), *other = mem_calloc(RESULT, sizeof *other);
    REQUIRE(one && other);
    fill();
    run(1, one);
    for (int i = 0; i < 4; i++) {
        memset(other, 0xff, RESULT * sizeof *other);
        run(threads[i], other);
        CHECK(memcmp(one, other, RESULT * sizeof *one) == 0);
    }
    mem_free(one);
    mem_free(other);
}
