/* winograd_lanes.c - the loops of winograd.c, for blocks of 8 channels (AVX2, SSE) and of 16
 * (AVX-512). */
#define WINOGRAD_LANES 8
#include "kernels/cpu/winograd_lanes.h"
#undef WINOGRAD_LANES
#define WINOGRAD_LANES 16
#include "kernels/cpu/winograd_lanes.h"
