/* launcher.h - what holds for the launchers of our own kernels, which stand in X.cu and X.h: plain
 * C, device pointers, one call enqueues one pass on a stream.
 *
 * Activations are rows of cp channels (CudaView) in dtype; vectors are f32. Channel counts are
 * padded ones unless a parameter says otherwise. All launchers return cudaGetLastError() of their
 * launch and never allocate or wait. Results do not depend on timing: no floating-point atomics.
 * Formulas that decide numbers stand in NAME_math.h, which host and device compile alike. */
#ifndef CONVOY_KERNELS_CUDA_LAUNCHER_H
#define CONVOY_KERNELS_CUDA_LAUNCHER_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
#define C_LINKAGE extern "C"
#else
#define C_LINKAGE
#endif
#endif
