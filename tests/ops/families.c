/* families.c - the table of all families, and small helpers of their generators. */
#include "tests/ops/families.h"

#define FAMILY(kind, name, fused) [kind] = &family_##name,
static const Family *const table[OP_COUNT] = { OP_LIST(FAMILY) };

const Family *family_of(OpKind kind)
{
    return table[kind];
}

int64_t draw_between(Rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low + 1));
}

int64_t draw_channels(Rng *rng)
{
    static const int64_t counts[] = { 1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33 };
    return counts[rng_below(rng, sizeof counts / sizeof counts[0])];
}

int64_t draw_normed_act(Rng *rng)
{
    int64_t act = draw_between(rng, 0, ACT_COUNT - 1);
    while (!op_act((ActKind)act)->normed) act = draw_between(rng, 0, ACT_COUNT - 1);
    return act;
}

int64_t draw_folded_act(Rng *rng)
{
    int64_t act = draw_normed_act(rng);
    while (!op_act((ActKind)act)->folded) act = draw_normed_act(rng);
    return act;
}

bool draw_chance(Rng *rng, int one_in)
{
    return rng_below(rng, (uint64_t)one_in) == 0;
}

TensorDesc desc_f32(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dims[TENSOR_MAX_RANK] = { a, b, c, d };
    int rank = 0;
    while (rank < TENSOR_MAX_RANK && dims[rank] != 0) rank++;
    return tensor_desc(DTYPE_F32, rank, dims);
}

bool power_of_two(int64_t v)
{
    return v > 0 && (v & (v - 1)) == 0;
}
