/* softmax_row.c - see softmax_row.h. Exponentials are f32, what is added up is double, in lanes: a
 * small loss is the difference of large numbers. */
#include "kernels/cpu/softmax_row.h"
#include "kernels/cpu/cpu_math.h"
#include "kernels/cpu/lanes.h"
#include <float.h>

CPU_CLONES static void compare(const float *logits, int64_t count, float given, SoftmaxPiece *out)
{
    float top[CPU_LANES];
    int32_t above[CPU_LANES] = { 0 }, nans[CPU_LANES] = { 0 };
    int64_t j = 0;
    for (int l = 0; l < CPU_LANES; l++) top[l] = -FLT_MAX;
    for (; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) {
            const float z = logits[j + l];
            top[l] = z > top[l] ? z : top[l];
            above[l] += z >= given;
            nans[l] |= z != z;
        }
    for (int l = 0; j + l < count; l++) {
        const float z = logits[j + l];
        top[l] = z > top[l] ? z : top[l];
        above[l] += z >= given;
        nans[l] |= z != z;
    }
    out->most = -FLT_MAX;
    for (int l = 0; l < CPU_LANES; l++) {
        out->most = top[l] > out->most ? top[l] : out->most;
        out->not_below += above[l];
        out->has_nan |= nans[l] != 0;
    }
}

static double sum_of(const double *lanes)
{
    double sum = 0;
    for (int l = 0; l < CPU_LANES; l++) sum += lanes[l];
    return sum;
}

CPU_CLONES static double sum_logits(const float *logits, int64_t count)
{
    double sum[CPU_LANES] = { 0 };
    int64_t j = 0;
    for (; j + CPU_LANES <= count; j += CPU_LANES)
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) sum[l] += (double)logits[j + l];
    for (int l = 0; j + l < count; l++) sum[l] += (double)logits[j + l];
    return sum_of(sum);
}

CPU_CLONES static double exponentials(const float *logits, int64_t count, float most, float *e)
{
    double sum[CPU_LANES] = { 0 };
    int64_t j = 0;
    for (; j + CPU_LANES <= count; j += CPU_LANES) {
        float lanes[CPU_LANES];
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) {
            lanes[l] = cpu_exp(logits[j + l] - most);
            sum[l] += (double)lanes[l];
        }
        if (e) memcpy(e + j, lanes, sizeof lanes);
    }
    for (int l = 0; j + l < count; l++) {
        const float one = cpu_exp(logits[j + l] - most);
        sum[l] += (double)one;
        if (e) e[j + l] = one;
    }
    return sum_of(sum);
}

SoftmaxPiece cpu_softmax_row_survey(const float *logits, int64_t count, float given,
                                    bool sums_logits, float *e)
{
    SoftmaxPiece p = { .not_below = 0 };
    compare(logits, count, given, &p);
    if (sums_logits) p.logits = sum_logits(logits, count);
    p.sum = exponentials(logits, count, p.most, e);
    return p;
}

CPU_CLONES void cpu_softmax_row_slopes(float *e, int64_t count, float factor, float less)
{
    for (int64_t j = 0; j < count; j++) e[j] = factor * e[j] - less;
}
