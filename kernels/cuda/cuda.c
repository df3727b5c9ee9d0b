/* cuda.c - how CUDA's errors become ours, and what most ops have in common. */
#include "kernels/cuda/cuda.h"
#include <string.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else /* NVIDIA's wheels of CUDA 12 may lack it: profilers hear no names */
#define nvtxRangePushA(name) 0
#define nvtxRangePop()       0
#endif

/* Driver, device, library and build that do not fit each other: the user's to mend, not a bug. */
static bool is_environment(cudaError_t e)
{
    static const cudaError_t environment[] = {
        cudaErrorInitializationError,
        cudaErrorStubLibrary,
        cudaErrorInsufficientDriver,
        cudaErrorDevicesUnavailable,
        cudaErrorNoDevice,
        cudaErrorInvalidDevice,
        cudaErrorNoKernelImageForDevice,
        cudaErrorECCUncorrectable,
        cudaErrorUnsupportedPtxVersion,
        cudaErrorJitCompilerNotFound,
        cudaErrorOperatingSystem,
        cudaErrorNotSupported,
        cudaErrorSystemNotReady,
        cudaErrorSystemDriverMismatch,
        cudaErrorCompatNotSupportedOnDevice,
    };
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++)
        if (e == environment[i]) return true;
    return false;
}

Status cuda_status(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return OK;
    (void)cudaGetLastError();
    Status code = e == cudaErrorMemoryAllocation ? ERR_MEMORY
                  : is_environment(e)            ? ERR_ENV
                                                 : ERR_INTERNAL;
    return fail(code, "%.*s: %s (%s)", (int)strcspn(what, "("), what, cudaGetErrorString(e),
                cudaGetErrorName(e));
}

Status cuda_prepare_plain(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank != 0) cuda_decide_plain(&op->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank != 0) cuda_decide_plain(&op->out[i]);
    return OK;
}

Status cuda_bind_nothing(OpInstance *op)
{
    (void)op;
    return OK;
}

size_t cuda_take_workspace(OpInstance *op, size_t bytes)
{
    enum { ALIGN = 256 };
    size_t offset = op->workspace_bytes;
    op->workspace_bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return offset;
}

void *cuda_workspace(const OpInstance *op, size_t at)
{
    return op->workspace ? (char *)op->workspace + at : NULL;
}

void cuda_range(const char *name)
{
    (void)(name ? nvtxRangePushA("convoy") : nvtxRangePop());
    (void)(name ? nvtxRangePushA(name) : nvtxRangePop());
}
