/* properties.c - what device it is, from the device or from a text that describes one, and what it
 * can compute in. */
#include "kernels/cuda/properties.h"
#include "base/arena.h"
#include "base/json.h"
#include <stdio.h>
#include <string.h>

Status cuda_properties_of_device(CudaBackend *b, int device)
{
    struct cudaDeviceProp properties;
    TRY_CUDA(cudaSetDevice(device));
    TRY_CUDA(cudaGetDeviceProperties(&properties, device));
    snprintf(b->device_name, sizeof b->device_name, "%.127s", properties.name);
    b->compute_capability = properties.major * 10 + properties.minor;
    b->sm_count = properties.multiProcessorCount;
    b->memory_bytes = properties.totalGlobalMem;
    b->deviceless = false;
    return OK;
}

static Status read_whole(const JsonValue *object, const char *key, int64_t *out)
{
    const JsonValue *value = json_get(object, key);
    if (!value || value->type != JSON_NUMBER || !value->is_integer || value->integer <= 0)
        return fail(ERR_DATA, "device properties: %s must be a whole number above 0", key);
    *out = value->integer;
    return OK;
}

static Status read_properties(void *out, const JsonValue *object)
{
    CudaBackend *b = out;
    int64_t version, sm_count, memory;
    const JsonValue *name = json_get(object, "deviceName");
    if (!name || name->type != JSON_STRING)
        return fail(ERR_DATA, "device properties: deviceName must be a string");
    TRY(read_whole(object, "deviceVer", &version)); /* 900 is compute capability 9.0 */
    TRY(read_whole(object, "multiProcessorCount", &sm_count));
    TRY(read_whole(object, "totalGlobalMem", &memory));
    if (version > 100000 || sm_count > 100000)
        return fail(ERR_DATA,
                    "device properties: deviceVer or multiProcessorCount is out of range");
    snprintf(b->device_name, sizeof b->device_name, "%s", name->string);
    b->compute_capability = (int)version / 10;
    b->sm_count = (int)sm_count;
    b->memory_bytes = (size_t)memory;
    b->deviceless = true;
    return OK;
}

/* Parses json and reads from it by read(out, object). */
static Status read_text(const char *json, Status (*read)(void *out, const JsonValue *object),
                        void *out)
{
    Arena *arena;
    JsonValue *object;
    TRY(arena_create(&arena, 0));
    Status status = json_parse(arena, json, strlen(json), &object);
    if (status != OK) status = fail_note(status, "device properties");
    else status = read(out, object);
    arena_destroy(arena);
    return status;
}

Status cuda_properties_of_text(CudaBackend *b, const char *json)
{
    return read_text(json, read_properties, b);
}

static Status read_capability(void *out, const JsonValue *object)
{
    int64_t version;
    TRY(read_whole(object, "deviceVer", &version));
    *(int *)out = (int)(version / 10);
    return OK;
}

Status backend_cuda_capability(const CudaOptions *o, int *out)
{
    int major = 0, minor = 0;
    *out = 0;
    if (o->properties) return read_text(o->properties, read_capability, out);
    TRY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, o->device));
    TRY_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, o->device));
    *out = major * 10 + minor;
    return OK;
}

Status backend_cuda_free_memory(int device, size_t *out)
{
    size_t all;
    *out = 0;
    TRY_CUDA(cudaSetDevice(device));
    return CUDA_STATUS(cudaMemGetInfo(out, &all));
}

static const struct {
    const char *name;
    DType compute;
    int needs_capability;
} precisions[PRECISION_COUNT] = {
    [PRECISION_FP32] = { "fp32", DTYPE_F32, 0 },
    [PRECISION_TF32] = { "tf32", DTYPE_F32, 80 },
    [PRECISION_BF16] = { "bf16", DTYPE_BF16, 80 },
    [PRECISION_FP16] = { "fp16", DTYPE_F16, 70 },
};

const char *cuda_properties_precision_name(Precision precision)
{
    return precisions[precision].name;
}

Status cuda_properties_set_precision(CudaBackend *b, Precision precision)
{
    ASSERT(precision < PRECISION_COUNT);
    int needed = precisions[precision].needs_capability;
    if (b->compute_capability < needed)
        return fail(ERR_ENV, "%s (sm_%d) does not compute in %s: that needs sm_%d or newer",
                    b->device_name, b->compute_capability, precisions[precision].name, needed);
    b->precision = precision;
    b->compute = precisions[precision].compute;
    b->pad = 16 / (int)dtype_bytes(b->compute);
    return OK;
}
