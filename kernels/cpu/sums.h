/* sums.h - sums over the positions of each channel of an image, for averages and for gradients of
 * biases. */
#ifndef CONVOY_KERNELS_CPU_SUMS_H
#define CONVOY_KERNELS_CPU_SUMS_H
#include "kernels/cpu/view.h"

/* sums[c]: of the c-th channel of a strip of x; float over a run of positions, double beyond it.
 * The same bits whatever the strips. */
void cpu_sums_of_strip(const CpuView *view, const CpuStrip *strip, const void *x,
                       double sums[CPU_STRIP]);
#endif
