/* driver_shim.c - stands for NVIDIA's driver library, libcuda.so.1, where a test wants cuDNN to
 * compile its kernels on a machine without a GPU.
 *
 * cuDNN's runtime-compiled engines ask the driver for a number of functions before they offer
 * themselves, and hand it the compiled module when a plan is finalised. This library has the
 * functions, accepts any module without looking at it, and says that there is no device: plans can
 * be made and saved, nothing can run. Tests alone load it, by its path; cuDNN then finds it under
 * the driver's name. It is never installed. Its types are plain: handles are pointers, results are
 * ints. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { RESULT_SUCCESS = 0, RESULT_NO_DEVICE = 100, RESULT_NOT_FOUND = 500 };
enum { DRIVER_VERSION = 13000 };

static char handle_target; /* what all handles point at */

/* ---- what is called ---- */

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return RESULT_NO_DEVICE;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = 0;
    return RESULT_NO_DEVICE;
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    (void)device;
    (void)ordinal;
    return RESULT_NO_DEVICE;
}

int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id)
{
    (void)table;
    (void)id;
    return RESULT_NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = DRIVER_VERSION;
    return RESULT_SUCCESS;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    (void)error;
    *text = "no device: this is a test's stand-in for the driver";
    return RESULT_SUCCESS;
}

int cuGetErrorName(int error, const char **text);
int cuGetErrorName(int error, const char **text)
{
    (void)error;
    *text = "DRIVER_SHIM";
    return RESULT_SUCCESS;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found)
{
    (void)version;
    (void)flags;
    /* this library, which is loaded under that name */
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *function = self && strncmp(name, "cu", 2) == 0 ? dlsym(self, name) : NULL;
    if (self) dlclose(self);
    if (found) *found = *function ? 0 : 1;
    return *function ? RESULT_SUCCESS : RESULT_NOT_FOUND;
}

int cuLibraryLoadData(void **library, const void *code);
int cuLibraryLoadData(void **library, const void *code)
{
    (void)code;
    *library = &handle_target;
    return RESULT_SUCCESS;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    (void)name;
    *kernel = &handle_target;
    return RESULT_SUCCESS;
}

int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library)
{
    (void)library;
    return RESULT_SUCCESS;
}

/* ---- what is only asked for, never called without a device ---- */

#define NEVER_CALLED(name)                                                                         \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return RESULT_NO_DEVICE;                                                                   \
    }

NEVER_CALLED(cuCtxGetCurrent)
NEVER_CALLED(cuCtxGetLimit)
NEVER_CALLED(cuCtxPopCurrent)
NEVER_CALLED(cuCtxPushCurrent)
NEVER_CALLED(cuStreamGetCtx)
NEVER_CALLED(cuLinkCreate)
NEVER_CALLED(cuLinkAddData)
NEVER_CALLED(cuLinkComplete)
NEVER_CALLED(cuLinkDestroy)
NEVER_CALLED(cuLaunchKernel)
NEVER_CALLED(cuLaunchCooperativeKernel)
NEVER_CALLED(cuLaunchKernelEx)
NEVER_CALLED(cuLibraryLoadFromFile)
NEVER_CALLED(cuKernelGetAttribute)
NEVER_CALLED(cuKernelSetAttribute)
NEVER_CALLED(cuOccupancyMaxPotentialClusterSize)
