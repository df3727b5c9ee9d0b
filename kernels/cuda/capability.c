/* capability.c - the compute capability of a device before any backend is made for it: the choice of a precision needs
 * it. */
#include "base/json.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include <string.h>

/* deviceVer is major * 100 + minor * 10, as cuDNN writes it. */
static int from_properties(const char *text)
{
    Arena *arena = NULL;
    JsonValue *root = NULL;
    int capability = 0;
    if (arena_create(&arena, 0) != OK) return 0;
    if (json_parse(arena, text, strlen(text), &root) == OK) {
        const JsonValue *version = json_get(root, "deviceVer");
        if (version && version->is_integer) capability = (int)(version->integer / 10);
    }
    arena_destroy(arena);
    return capability;
}

int backend_cuda_capability(const CudaOptions *o)
{
    int major = 0, minor = 0;
    if (o->properties) return from_properties(o->properties);
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, o->device) != cudaSuccess) return 0;
    if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, o->device) != cudaSuccess) return 0;
    return major * 10 + minor;
}
