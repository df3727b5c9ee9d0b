/* attention_softmax.c - rows of attention's softmax, and of its gradient: see attention.h. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/draws.h"
#include "kernels/cpu/lanes.h"

/* e^(scale score - most) in the place of each, and their sum, in an order of its own for all sets
 * of instructions. */
CPU_CLONES static double exponentials(float *row, int64_t count, float scale, float *most)
{
    float top[CPU_LANES], sum[CPU_LANES] = { 0 }, m = -INFINITY;
    double total = 0;
    int64_t j = 0;
    for (int l = 0; l < CPU_LANES; l++) top[l] = m;
    for (; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) top[l] = row[j + l] > top[l] ? row[j + l] : top[l];
    for (; j < count; j++) top[0] = row[j] > top[0] ? row[j] : top[0];
    for (int l = 0; l < CPU_LANES; l++) m = top[l] > m ? top[l] : m;
    m *= scale;
    for (j = 0; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) sum[l] += row[j + l] = cpu_exp(scale * row[j + l] - m);
    for (int l = 0; j + l < count; l++) sum[l] += row[j + l] = cpu_exp(scale * row[j + l] - m);
    for (int l = 0; l < CPU_LANES; l++) total += (double)sum[l];
    *most = m;
    return total;
}

/* f: what the drop makes of each, or NULL. */
CPU_CLONES static void multiply_row(float *restrict row, const float *restrict f, int64_t count,
                                    float factor)
{
    if (f)
        for (int64_t j = 0; j < count; j++) row[j] = row[j] * factor * f[j];
    else
        for (int64_t j = 0; j < count; j++) row[j] *= factor;
}

/* score: becomes drop(p); slope: its gradient, which becomes that of the score. */
CPU_INLINE void slope_of(float *score, float *slope, float kept, float scale, float lse,
                         float inner)
{
    const float p = cpu_exp(scale * *score - lse);
    *score = p * kept;
    *slope = scale * p * (*slope * kept - inner);
}

/* f: what the drop keeps of each, or NULL; two loops, as a choice inside one is no vector code. */
CPU_CLONES static void slope_row(float *restrict scores, float *restrict slopes,
                                 const float *restrict f, int64_t count, float scale, float lse,
                                 float inner)
{
    if (f)
        for (int64_t j = 0; j < count; j++)
            slope_of(&scores[j], &slopes[j], f[j], scale, lse, inner);
    else
        for (int64_t j = 0; j < count; j++) slope_of(&scores[j], &slopes[j], 1, scale, lse, inner);
}

/* The factors of a query's row, in s->factors; NULL where nothing is dropped. */
static const float *draw_row(const AttentionCall *c, const AttentionScratch *s, int64_t query)
{
    const int64_t blocks = (c->z.length + 3) / 4, first = (c->head * c->z.length + query) * blocks;
    if (!c->drops) return NULL;
    cpu_draws_factors(&c->drop, c->n, 4 * first, c->at.length, s->factors);
    return s->factors;
}

/* Of rows of f32 or bf16. */
static double inner_product(const void *a, const void *b, int64_t count, DType type)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)cpu_lanes_load(a, i, type) * (double)cpu_lanes_load(b, i, type);
    return sum;
}

void cpu_attention_soften(const AttentionCall *c, const AttentionScratch *s, int64_t query,
                          int64_t row, float *lse)
{
    float most, *scores = s->scores + row * c->row;
    const double sum = exponentials(scores, c->at.length, c->z.scale, &most);
    if (lse) *lse = (float)((double)most + log(sum));
    multiply_row(scores, draw_row(c, s, query), c->at.length, (float)(1 / sum));
}

float *cpu_attention_lse(const AttentionCall *c, const OpTensor *lse, int64_t query)
{
    return lse->data ? (float *)lse->data + attention_lse_at(&c->z, &c->at, c->head, query) : NULL;
}

void cpu_attention_soften_bwd(const AttentionCall *c, const AttentionScratch *s, int64_t query,
                              int64_t row, float lse, const void *dy, const void *y, DType type)
{
    const float inner = (float)inner_product(dy, y, c->z.width, type);
    slope_row(s->scores + row * c->row, s->slopes + row * c->row, draw_row(c, s, query),
              c->at.length, c->z.scale, lse, inner);
}
