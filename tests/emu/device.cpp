// device.cpp - the emulated device's properties, and errors.
//
// Three multiprocessors: few, so that grids made for the device are small, and odd, so that shares
// come out uneven.
#include "runtime.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emu {

static thread_local cudaError_t last_error = cudaSuccess;

[[noreturn]] void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("emulated device: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    abort();
}

cudaError_t error(cudaError_t e, const char *format, ...)
{
    if (format) {
        va_list args;
        va_start(args, format);
        fputs("emulated device: ", stderr);
        vfprintf(stderr, format, args);
        fputs("\n", stderr);
        va_end(args);
    }
    last_error = e;
    return e;
}

struct ErrorText {
    cudaError_t error;
    const char *name, *text;
};
static const ErrorText error_texts[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
      "invalid configuration argument" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
      "operation would result in a merge of two captures" },
    { cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
      "capture was not initiated in this stream" },
    { cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
      "capturing stream has unjoined work" },
    { cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
      "dependency created on uncaptured work in another stream" },
    { cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
      "operation would make the legacy stream depend on a capturing blocking stream" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
      "operation not permitted on an event last recorded in a capturing stream" },
    { cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
      "attempt to terminate a thread-local capture sequence from another thread" },
};

static const ErrorText *find_text(cudaError_t e)
{
    for (const ErrorText &t : error_texts)
        if (t.error == e) return &t;
    return nullptr;
}

struct Attribute {
    cudaDeviceAttr attribute;
    int value;
};
static const Attribute attributes[] = {
    { cudaDevAttrMaxThreadsPerBlock, 1024 },
    { cudaDevAttrMaxSharedMemoryPerBlock, 49152 },
    { cudaDevAttrWarpSize, 32 },
    { cudaDevAttrMaxRegistersPerBlock, 65536 },
    { cudaDevAttrClockRate, 1000000 },
    { cudaDevAttrMultiProcessorCount, 3 },
    { cudaDevAttrPciBusId, 1 },
    { cudaDevAttrPciDeviceId, 0 },
    { cudaDevAttrTccDriver, 0 },
    { cudaDevAttrMemoryClockRate, 1000000 },
    { cudaDevAttrGlobalMemoryBusWidth, 256 },
    { cudaDevAttrL2CacheSize, 1 << 20 },
    { cudaDevAttrMaxThreadsPerMultiProcessor, 2048 },
    { cudaDevAttrPciDomainId, 0 },
    { cudaDevAttrComputeCapabilityMajor, 9 },
    { cudaDevAttrComputeCapabilityMinor, 0 },
    { cudaDevAttrMaxSharedMemoryPerMultiprocessor, 233472 },
    { cudaDevAttrMaxRegistersPerMultiprocessor, 65536 },
    { cudaDevAttrCooperativeLaunch, 1 },
    { cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448 },
    { cudaDevAttrMaxBlocksPerMultiprocessor, 32 },
    { cudaDevAttrReservedSharedMemoryPerBlock, 1024 },
};

static int attribute_value(cudaDeviceAttr attribute)
{
    for (const Attribute &a : attributes)
        if (a.attribute == attribute) return a.value;
    die("device attribute %d is not known", int(attribute));
}

} // namespace emu

using namespace emu;

extern "C" {

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

const char *cudaGetErrorName(cudaError_t e)
{
    const ErrorText *t = find_text(e);
    return t ? t->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e)
{
    const ErrorText *t = find_text(e);
    return t ? t->text : "unrecognized error code";
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* CONVOY_EMU_DEVICES: to be counted; only the first is there. */
cudaError_t cudaGetDeviceCount(int *count)
{
    const char *text = getenv("CONVOY_EMU_DEVICES");
    *count = text ? (int)strtol(text, nullptr, 10) : 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : error(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    return flags <= 0x0F ? cudaSuccess : error(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    if (device != 0) return error(cudaErrorInvalidDevice);
    *value = attribute_value(attribute);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    if (device != 0) return error(cudaErrorInvalidDevice);
    size_t free_bytes, total_bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    cudaDeviceProp p;
    memset(&p, 0, sizeof p);
    snprintf(p.name, sizeof p.name, "emulated device");
    p.totalGlobalMem = total_bytes;
    p.sharedMemPerBlock = size_t(attribute_value(cudaDevAttrMaxSharedMemoryPerBlock));
    p.regsPerBlock = attribute_value(cudaDevAttrMaxRegistersPerBlock);
    p.warpSize = attribute_value(cudaDevAttrWarpSize);
    p.maxThreadsPerBlock = attribute_value(cudaDevAttrMaxThreadsPerBlock);
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024, p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 2147483647, p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.totalConstMem = 65536;
    p.major = attribute_value(cudaDevAttrComputeCapabilityMajor);
    p.minor = attribute_value(cudaDevAttrComputeCapabilityMinor);
    p.multiProcessorCount = attribute_value(cudaDevAttrMultiProcessorCount);
    p.concurrentKernels = p.unifiedAddressing = p.streamPrioritiesSupported = 1;
    p.pciBusID = attribute_value(cudaDevAttrPciBusId);
    p.asyncEngineCount = 3;
    p.memoryBusWidth = attribute_value(cudaDevAttrGlobalMemoryBusWidth);
    p.l2CacheSize = attribute_value(cudaDevAttrL2CacheSize);
    p.maxThreadsPerMultiProcessor = attribute_value(cudaDevAttrMaxThreadsPerMultiProcessor);
    p.sharedMemPerMultiprocessor =
        size_t(attribute_value(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
    p.regsPerMultiprocessor = attribute_value(cudaDevAttrMaxRegistersPerMultiprocessor);
    p.cooperativeLaunch = attribute_value(cudaDevAttrCooperativeLaunch);
    p.sharedMemPerBlockOptin = size_t(attribute_value(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    p.maxBlocksPerMultiProcessor = attribute_value(cudaDevAttrMaxBlocksPerMultiprocessor);
    p.reservedSharedMemPerBlock = size_t(attribute_value(cudaDevAttrReservedSharedMemoryPerBlock));
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int device)
{
    if (device != 0) return error(cudaErrorInvalidDevice);
    snprintf(out, size_t(bytes), "0000:01:00.0");
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
}
