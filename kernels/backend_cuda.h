/* backend_cuda.h - how a CUDA backend is made, and what there is to make one of. A build without
 * CUDA has these functions too (backend_cuda_absent.c). */
#ifndef CONVOY_KERNELS_BACKEND_CUDA_H
#define CONVOY_KERNELS_BACKEND_CUDA_H
#include "kernels/backend.h"

/* Who computes what both can: the backend's own kernels, cuDNN, or whichever was measured to be
 * faster. */
typedef enum KernelMode { KERNELS_OWN, KERNELS_CUDNN, KERNELS_AUTO, KERNEL_MODE_COUNT } KernelMode;
extern const char *const kernel_mode_names[KERNEL_MODE_COUNT + 1];
typedef struct CudaOptions {
    int device;         /* index among the visible ones */
    FuseMode fuse;      /* all fusions are of f16 */
    unsigned fuse_only; /* FuseChoice.only */
    /* norms in training; convolutions with one filter for each channel; attention, of which
     * KERNELS_AUTO is cuDNN's wherever nothing can be measured */
    KernelMode batchnorm, depthwise, attention;
    Precision precision;
    /* bytes per op; 0: 256 MB where the computation is 16-bit, 2048 MB in fp32 and tf32 */
    size_t workspace_limit;
    const char *plan_cache; /* folder for chosen cuDNN plans; NULL: none. Borrowed during create. */
    /* deviceless: a JSON text of device properties; prepare() works, nothing can be allocated or
     * run. NULL: the device itself. Borrowed during create. */
    const char *properties;
} CudaOptions;
/* Number of usable devices; 0 with a sentence in why (no driver, no cuDNN, built without CUDA,
 * ...). */
int backend_cuda_devices(char *why, size_t why_bytes);
/* Compute capability of the device that o names or describes, before a backend is made for it: 90
 * is sm_90. */
Status backend_cuda_capability(const CudaOptions *o, int *out);
/* Bytes of device that are free before a backend is made for it. Makes this process' context there,
 * if it has none. */
Status backend_cuda_free_memory(int device, size_t *out);
/* "compiled with CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0; found driver 13.0, cuDNN 9.19.0,
 * cuBLASLt 13.1.0", with what is missing in its place, or "not built". */
void backend_cuda_versions(char *out, size_t bytes);
/* The backend's table without a device, for tests of it; NULL in a build without CUDA. */
const BackendVTable *backend_cuda_table(void);
/* ERR_ENV naming what is missing: built without CUDA, library, device, precision that the device
 * lacks. */
Status backend_cuda_create(Backend **out, const CudaOptions *o);
#endif
