/* backend_cuda_absent.c - stands for the CUDA backend in a build without it. */
#include "kernels/backend_cuda.h"
#include <stdio.h>

static const char reason[] = "this convoy was built without CUDA";

int backend_cuda_devices(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "%s", reason);
    return 0;
}

Status backend_cuda_capability(const CudaOptions *o, int *out)
{
    (void)o;
    *out = 0;
    return fail(ERR_ENV, "%s", reason);
}

Status backend_cuda_free_memory(int device, size_t *out)
{
    (void)device;
    *out = 0;
    return fail(ERR_ENV, "%s", reason);
}

void backend_cuda_versions(char *out, size_t bytes)
{
    snprintf(out, bytes, "not built");
}

const BackendVTable *backend_cuda_table(void)
{
    return NULL;
}

Status backend_cuda_create(Backend **out, const CudaOptions *o)
{
    (void)o;
    *out = NULL;
    return fail(ERR_ENV, "%s", reason);
}
