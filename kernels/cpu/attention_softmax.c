/* attention_softmax.c - rows of attention's softmax, and of its gradient: see attention.h. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_math.h"
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

CPU_CLONES static void multiply_row(float *restrict row, int64_t count, float factor)
{
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

/* Four at a time of a row's factors go to f, or are multiplied into it. */
static void drop_row(const AttentionCall *c, int64_t n, int64_t head, int64_t query, float *f,
                     bool multiply)
{
    const int64_t blocks = (c->z.length + 3) / 4, first = (head * c->z.length + query) * blocks;
    float factors[4];
    for (int64_t j = 0; j < c->z.length; j++) {
        if (j % 4 == 0) drop_factors(&c->drop, n, (uint32_t)(first + j / 4), factors);
        f[j] = multiply ? f[j] * factors[j % 4] : factors[j % 4];
    }
}

/* Of rows of f32 or bf16. */
static double inner_product(const void *a, const void *b, int64_t count, DType type)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)cpu_lanes_load(a, i, type) * (double)cpu_lanes_load(b, i, type);
    return sum;
}

void cpu_attention_soften(const AttentionCall *c, int64_t n, int64_t head, int64_t query,
                          float *row, float *lse)
{
    float most;
    const double sum = exponentials(row, c->z.length, c->z.scale, &most);
    if (lse) lse[query] = (float)((double)most + log(sum));
    multiply_row(row, c->z.length, (float)(1 / sum));
    if (c->drops) drop_row(c, n, head, query, row, true);
}

float *cpu_attention_lse(const AttentionCall *c, const OpTensor *lse, int64_t n, int64_t head)
{
    return lse->data ? (float *)lse->data + (n * c->z.heads + head) * c->z.length : NULL;
}

void cpu_attention_soften_bwd(const AttentionCall *c, const AttentionScratch *s, int64_t n,
                              int64_t head, int64_t query, int64_t row, float lse, const void *dy,
                              const void *y, DType type)
{
    const float inner = (float)inner_product(dy, y, c->z.width, type);
    float *factors = c->drops ? s->factors : NULL;
    if (factors) drop_row(c, n, head, query, factors, false);
    slope_row(s->scores + row * c->z.length, s->slopes + row * c->z.length, factors, c->z.length,
              c->z.scale, lse, inner);
}
