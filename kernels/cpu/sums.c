/* sums.c - see sums.h. */
#include "kernels/cpu/sums.h"
#include <string.h>

enum { SUM_STEPS = 128 };

CPU_INLINE void add_step(const void *x, int64_t at, float *sum, DType type, int lanes)
{
#pragma omp simd
    for (int l = 0; l < lanes; l++) sum[l] += cpu_lanes_load(x, at + l, type);
}

CPU_CLONES static void sum_block(const float *x, const CpuStrip *s, double *restrict out)
{
    int64_t at = 0;
    memset(out, 0, CPU_LANES * sizeof *out);
    for (int64_t i = 0; i < s->steps;) {
        const int64_t end = s->steps - i < SUM_STEPS ? s->steps : i + SUM_STEPS;
        float sum[CPU_LANES] = { 0 };
        for (; i < end; i++, at += CPU_LANES) add_step(x, at, sum, DTYPE_F32, CPU_LANES);
        for (int l = 0; l < CPU_LANES; l++) out[l] += (double)sum[l];
    }
    for (int l = 0; l < s->rest; l++) out[l] += (double)x[at + l];
}

CPU_CLONES static void sum_rows(const uint16_t *x, const CpuStrip *s, double *restrict out)
{
    float sum[CPU_STRIP];
    memset(out, 0, (size_t)s->lanes * sizeof *out);
    for (int64_t i = 0; i < s->steps;) {
        const int64_t end = s->steps - i < SUM_STEPS ? s->steps : i + SUM_STEPS;
        memset(sum, 0, (size_t)s->lanes * sizeof *sum);
        for (; i < end; i++) add_step(x, i * s->stride, sum, DTYPE_BF16, s->lanes);
        for (int l = 0; l < s->lanes; l++) out[l] += (double)sum[l];
    }
}

void cpu_sums_of_strip(const CpuView *v, const CpuStrip *s, const void *x, double sums[CPU_STRIP])
{
    const void *first = cpu_lanes_at(x, s->at, v->type);
    double lanes[CPU_LANES];
    if (v->rows) {
        sum_rows(first, s, sums);
        return;
    }
    sum_block(first, s, lanes);
    for (int64_t c = 0; c < s->channels; c++) sums[c] = cpu_lanes_sum(lanes, c, v->b);
}
