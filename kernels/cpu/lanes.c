/* lanes.c - see lanes.h. */
#include "kernels/cpu/lanes.h"

CPU_CLONES void cpu_lanes_widen(float *restrict to, const uint16_t *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = float_from_bf16(from[i]);
}

CPU_CLONES void cpu_lanes_narrow(uint16_t *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = float_to_bf16(from[i]);
}

double cpu_lanes_sum(const double *lanes, int64_t channel, int64_t b)
{
    double sum = 0;
    for (int64_t l = channel; l < CPU_LANES; l += b) sum += lanes[l];
    return sum;
}

void cpu_lanes_fill(float *lanes, int64_t channel, int64_t b, float value)
{
    for (int64_t l = channel; l < CPU_LANES; l += b) lanes[l] = value;
}
