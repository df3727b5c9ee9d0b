/* lerp.c - averaged copies of weights, flat. Elements are independent: results do not depend on the
 * number of threads. */
#include "kernels/ops/lerp.h"
#include "kernels/cpu/cpu.h"

typedef void LerpRange(float *average, float *x, int64_t count, float w);

CPU_CLONES static void follow(float *average, float *x, int64_t count, float w)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) average[i] = lerp_towards(average[i], x[i], w);
}

CPU_CLONES static void meet(float *average, float *x, int64_t count, float w)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] = average[i] = lerp_towards(average[i], x[i], w);
}

CPU_CLONES static void swap(float *average, float *x, int64_t count, float w)
{
    (void)w;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float before = average[i];
        average[i] = x[i];
        x[i] = before;
    }
}

static void lerp_run(OpInstance *op)
{
    static LerpRange *const modes[LERP_MODE_COUNT] = { follow, meet, swap };
    const LerpAttr *attr = op->attr;
    const float *scalars = op->in[LERP_IN_SCALARS].data;
    float *average = op->in[LERP_IN_AVERAGE].data, *x = op->in[LERP_IN_X].data;
    const int64_t count = op->in[LERP_IN_X].desc.dims[0];
    if (lerp_is_idle(attr, scalars, op->in[LERP_IN_LOSS_SCALE].data)) return;
    const int parts = cpu_team(op, count);
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        modes[attr->mode](average + first, x + first, last - first, scalars[attr->weight]);
    }
}

CPU_LOOPS(cpu_lerp, "elementwise", cpu_prepare_plain, lerp_run);
