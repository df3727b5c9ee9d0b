/* blur.h - pooling of the kinds that blur, forward and backward: both are a weighted sum of at most
 * 3x3 neighbours (kernels/blur.h). */
#ifndef CONVOY_KERNELS_CPU_BLUR_H
#define CONVOY_KERNELS_CPU_BLUR_H
#include "kernels/cpu/view.h"

/* Whether op, a pooling or its gradient, is a blur. */
bool cpu_blur_takes(const OpInstance *op);
/* Asks for workspace; in, as below, is decided. */
Status cpu_blur_prepare(OpInstance *op, const OpTensor *in, const OpTensor *out);
/* in, out: x and y, or dy and dx. The same bits for any number of threads. */
void cpu_blur_run(OpInstance *op, const OpTensor *in, const OpTensor *out);
#endif
