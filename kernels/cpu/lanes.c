/* lanes.c - see lanes.h. */
#include "kernels/cpu/lanes.h"

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
