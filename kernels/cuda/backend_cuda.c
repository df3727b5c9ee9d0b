/* backend_cuda.c - the CUDA backend's life: which devices there are, its table of ops, what is
 * opened and closed with it.
 *
 * A deviceless backend (CudaOptions.properties) is made from a description of a device: it prepares
 * ops as it would there - layouts, sizes, cuDNN's choice of engines -, and refuses to allocate. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/cudnn/lt_gemm.h"
#include "kernels/cuda/decision.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fusion.h"
#include "kernels/cuda/properties.h"
#include "kernels/cuda/traffic.h"
#include "kernels/cuda/transfer.h"
#include <stdio.h>
#include <string.h>

/* Some data gradients of large f32 tensors have a fast engine only where it may transform them
 * first. */
#define WORKSPACE_LIMIT_16 ((size_t)256 << 20)
#define WORKSPACE_LIMIT_32 ((size_t)2048 << 20)

/* Evaluations run the ops one by one here. */
#define CUDA_FUSED_NOT(impl)         &impl
#define CUDA_FUSED_TRAINING(impl)    &impl
#define CUDA_FUSED_EVALUATION(impl)  NULL
#define CUDA_IMPL(kind, name, fused) [kind] = CUDA_##fused(cuda_##name),
static const OpImpl *const ops[OP_COUNT] = { OP_LIST(CUDA_IMPL) };

/* ---- what is there ---- */

/* CUDA writes its versions as 1000 * major + 10 * minor. */
static void print_version(char *out, size_t bytes, int version)
{
    snprintf(out, bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

/* 0 where no driver is installed. */
static int driver_version(void)
{
    int version = 0;
    if (cuda_status(cudaDriverGetVersion(&version), "cudaDriverGetVersion") != OK) return 0;
    return version;
}

static int visible_devices(char *why, size_t why_bytes)
{
    int count = 0, driver = driver_version();
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return count;
    if (!driver) {
        snprintf(why, why_bytes, "no NVIDIA driver is installed");
    } else if (error == cudaErrorInsufficientDriver) {
        char have[16], need[16];
        print_version(have, sizeof have, driver);
        print_version(need, sizeof need, CUDART_VERSION);
        snprintf(why, why_bytes,
                 "the NVIDIA driver supports CUDA %s, but this convoy was built with CUDA %s", have,
                 need);
    } else if (error == cudaSuccess || error == cudaErrorNoDevice) {
        snprintf(why, why_bytes, "no CUDA device is visible");
    } else {
        (void)cuda_status(error, "cudaGetDeviceCount");
        snprintf(why, why_bytes, "%s", status_message());
    }
    (void)cudaGetLastError();
    return 0;
}

int backend_cuda_devices(char *why, size_t why_bytes)
{
    char version[256];
    int count = visible_devices(why, why_bytes);
    if (!count) return 0;
    if (!cudnn_context_version(version, sizeof version) ||
        !lt_gemm_version(version, sizeof version)) {
        snprintf(why, why_bytes, "%s", version);
        return 0;
    }
    snprintf(why, why_bytes, "%s", "");
    return count;
}

void backend_cuda_versions(char *out, size_t bytes)
{
    char compiled[16], driver[16], cudnn[256], lt[256];
    int found = driver_version();
    print_version(compiled, sizeof compiled, CUDART_VERSION);
    print_version(driver, sizeof driver, found);
    cudnn_context_version(cudnn, sizeof cudnn);
    lt_gemm_version(lt, sizeof lt);
    snprintf(out, bytes, "compiled with CUDA %s, cuDNN %s, cuBLASLt %s; found %s%s, %s, %s",
             compiled, cudnn_context_compiled_version(), lt_gemm_compiled_version(),
             found ? "driver " : "no NVIDIA driver", found ? driver : "", cudnn, lt);
}

/* ---- the table ---- */

static void cuda_describe(const Backend *backend, char *out, size_t bytes)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    char cudnn[256];
    cudnn_context_version(cudnn, sizeof cudnn);
    snprintf(out, bytes, "%s%s, sm_%d, %s, %s", b->device_name,
             b->deviceless ? " (only described)" : "", b->compute_capability,
             cuda_properties_precision_name(b->precision), cudnn);
}

static uint32_t cuda_fingerprint(const Backend *backend)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    const int64_t numbers[] = { b->deviceless, b->compute_capability, b->precision,
                                (int64_t)cudnn_context_library() };
    return crc32c_update(crc32c_update(0, b->device_name, strlen(b->device_name)), numbers,
                         sizeof numbers);
}

static void cuda_describe_kernels(const Backend *backend, char *out, size_t bytes)
{
    cuda_decision_describe(((const CudaBackend *)backend)->kernels, out, bytes);
}

static void cuda_destroy(Backend *backend)
{
    CudaBackend *b = (CudaBackend *)backend;
    cuda_decision_free(b->fusions);
    cuda_decision_free(b->kernels);
    cudnn_context_destroy(b->cudnn);
    lt_gemm_context_destroy(b->lt);
    cuda_device_free(backend, b->param_copies);
    mem_free(b);
}

static const BackendVTable vtable = {
    .name = "cuda",
    .ops = ops,
    .fusion = { .add_into_batchnorm_bwd = true,
                .takes = cuda_fusion_takes,
                .describe = cuda_fusion_describe },
    .describe_kernels = cuda_describe_kernels,
    .traffic = cuda_traffic_of_op,
    .device = &cuda_device_vtable,
    .alignment = 256,
    .alloc = cuda_device_alloc,
    .free = cuda_device_free,
    .export_tensor = cuda_transfer_export,
    .import_tensor = cuda_transfer_import,
    .stream_create = cuda_device_stream_create,
    .stream_destroy = cuda_device_stream_destroy,
    .stream_wait = cuda_device_stream_wait,
    .destroy = cuda_destroy,
    .describe = cuda_describe,
    .fingerprint = cuda_fingerprint,
};

const BackendVTable *backend_cuda_table(void)
{
    return &vtable;
}

static Status find_device(CudaBackend *b, int device)
{
    char why[256];
    int count = visible_devices(why, sizeof why);
    if (!count) return fail(ERR_ENV, "%s", why);
    if (device < 0 || device >= count)
        return fail(ERR_ENV, "CUDA device %d does not exist: %d visible, counted from 0", device,
                    count);
    return cuda_properties_of_device(b, device);
}

static Status open_parts(CudaBackend *b, const CudaOptions *o)
{
    TRY(o->properties ? cuda_properties_of_text(b, o->properties) : find_device(b, o->device));
    TRY(cuda_properties_set_precision(b, o->precision));
    const size_t usual = b->compute == DTYPE_F32 ? WORKSPACE_LIMIT_32 : WORKSPACE_LIMIT_16;
    b->workspace_limit = o->workspace_limit ? o->workspace_limit : usual;
    TRY(cudnn_context_create(&b->cudnn, b, o->properties, o->plan_cache));
    return lt_gemm_context_create(&b->lt, b);
}

Status backend_cuda_create(Backend **out, const CudaOptions *o)
{
    *out = NULL;
    CudaBackend *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->base.v = &vtable;
    b->options = *o;
    b->options.plan_cache = b->options.properties = NULL;
    Status status = open_parts(b, o);
    if (status != OK) {
        cuda_destroy(&b->base);
        return status;
    }
    *out = &b->base;
    return OK;
}
