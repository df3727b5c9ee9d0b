/* fusion.h - which fusions the CPU backend takes. */
#ifndef CONVOY_KERNELS_CPU_FUSION_H
#define CONVOY_KERNELS_CPU_FUSION_H
#include "kernels/op.h"

bool cpu_fusion_takes(void *backend, const Fusion *fusion); /* FusionVTable.takes */
#endif
