/* nvml.c - see nvml.h. The library's few functions are declared here, so that a build needs no
 * header of the driver. */
#include "trainer/engine/energy/nvml.h"

#include "base/mem.h"
#include "base/process/library.h"
#include <math.h>
#include <string.h>

typedef struct nvmlDevice_st *NvmlDevice;
typedef struct NvmlUtilization {
    unsigned gpu, memory; /* per cent */
} NvmlUtilization;
typedef struct NvmlMemory {
    unsigned long long total, free, used;
} NvmlMemory;

enum {
    GPUS_MAX = 64,
    NVLINKS_MAX = 18,
    TEMPERATURE_GPU = 0,
    CLOCK_SM = 1,
    ECC_UNCORRECTED = 1,
    ECC_VOLATILE = 0
};

/* Type, name here, arguments, name there, and whether a library may lack it. */
#define FUNCTIONS(X)                                                                               \
    X(int, init, (void), nvmlInit_v2, false)                                                       \
    X(int, shutdown, (void), nvmlShutdown, false)                                                  \
    X(const char *, error_string, (int), nvmlErrorString, false)                                   \
    X(int, driver_version, (char *, unsigned), nvmlSystemGetDriverVersion, false)                  \
    X(int, count, (unsigned *), nvmlDeviceGetCount_v2, false)                                      \
    X(int, handle, (unsigned, NvmlDevice *), nvmlDeviceGetHandleByIndex_v2, false)                 \
    X(int, name, (NvmlDevice, char *, unsigned), nvmlDeviceGetName, false)                         \
    X(int, uuid, (NvmlDevice, char *, unsigned), nvmlDeviceGetUUID, false)                         \
    X(int, utilization, (NvmlDevice, NvmlUtilization *), nvmlDeviceGetUtilizationRates, true)      \
    X(int, memory, (NvmlDevice, NvmlMemory *), nvmlDeviceGetMemoryInfo, true)                      \
    X(int, power, (NvmlDevice, unsigned *), nvmlDeviceGetPowerUsage, true)               /* mW */  \
    X(int, power_limit, (NvmlDevice, unsigned *), nvmlDeviceGetEnforcedPowerLimit, true) /* mW */  \
    X(int, temperature, (NvmlDevice, int, unsigned *), nvmlDeviceGetTemperature, true)             \
    X(int, clock, (NvmlDevice, int, unsigned *), nvmlDeviceGetClockInfo, true)        /* MHz */    \
    X(int, clock_max, (NvmlDevice, int, unsigned *), nvmlDeviceGetMaxClockInfo, true) /* MHz */    \
    X(int, throttle, (NvmlDevice, unsigned long long *),                                           \
      nvmlDeviceGetCurrentClocksThrottleReasons, true)                                             \
    X(int, ecc, (NvmlDevice, int, int, unsigned long long *), nvmlDeviceGetTotalEccErrors, true)   \
    X(int, pcie_generation, (NvmlDevice, unsigned *), nvmlDeviceGetCurrPcieLinkGeneration, true)   \
    X(int, pcie_generation_max, (NvmlDevice, unsigned *), nvmlDeviceGetMaxPcieLinkGeneration,      \
      true)                                                                                        \
    X(int, pcie_width, (NvmlDevice, unsigned *), nvmlDeviceGetCurrPcieLinkWidth, true)             \
    X(int, pcie_width_max, (NvmlDevice, unsigned *), nvmlDeviceGetMaxPcieLinkWidth, true)          \
    X(int, energy, (NvmlDevice, unsigned long long *), nvmlDeviceGetTotalEnergyConsumption,        \
      true) /* mJ */                                                                               \
    X(int, nvlink, (NvmlDevice, unsigned, unsigned *), nvmlDeviceGetNvLinkState, true)
#define POINTER(type, name, arguments, symbol, optional) type(*name) arguments;
#define SYMBOL(type, name, arguments, symbol, optional)  { #symbol, &n->f.name, optional },

typedef struct Functions {
    FUNCTIONS(POINTER)
} Functions;

struct Nvml {
    void *library;
    Functions f;
    bool started;
    int count;
    NvmlDevice device[GPUS_MAX];
    char driver[NVML_TEXT_BYTES];
};

static Status open_library(Nvml *n, const char *path)
{
    const LibrarySymbol symbols[] = { FUNCTIONS(SYMBOL) };
    const char *const names[] = { path ? path : "libnvidia-ml.so.1", NULL };
    const LibrarySpec spec = { .title = "NVML",
                               .file_names = names,
                               .symbols = symbols,
                               .symbol_count = (int)(sizeof symbols / sizeof symbols[0]) };
    return library_open(&n->library, &spec);
}

static Status start(Nvml *n)
{
    unsigned count = 0;
    int error = n->f.init();
    if (error) return fail(ERR_ENV, "NVML cannot start: %s", n->f.error_string(error));
    n->started = true;
    error = n->f.count(&count);
    if (error) return fail(ERR_ENV, "NVML cannot count GPUs: %s", n->f.error_string(error));
    for (unsigned i = 0; i < count && n->count < GPUS_MAX; i++) {
        error = n->f.handle(i, &n->device[n->count]);
        if (error)
            return fail(ERR_ENV, "NVML cannot reach GPU %u: %s", i, n->f.error_string(error));
        n->count++;
    }
    if (n->f.driver_version(n->driver, sizeof n->driver)) n->driver[0] = '\0';
    return OK;
}

Status nvml_open(Nvml **out, const char *path)
{
    *out = NULL;
    Nvml *n = mem_calloc(1, sizeof *n);
    if (!n) return ERR_MEMORY;
    Status status = open_library(n, path);
    if (status == OK) status = start(n);
    if (status != OK) nvml_close(n);
    else *out = n;
    return status;
}

void nvml_close(Nvml *n)
{
    if (!n) return;
    if (n->started) n->f.shutdown();
    library_close(n->library);
    mem_free(n);
}

int nvml_gpus(const Nvml *n)
{
    return n->count;
}

const char *nvml_driver(const Nvml *n)
{
    return n->driver;
}

typedef int (*AskNumber)(NvmlDevice, unsigned *);
typedef int (*AskKind)(NvmlDevice, int, unsigned *);

static double number(AskNumber ask, NvmlDevice d, double factor)
{
    unsigned value = 0;
    return ask && ask(d, &value) == 0 ? factor * value : (double)NAN;
}

static double number_of(AskKind ask, NvmlDevice d, int kind)
{
    unsigned value = 0;
    return ask && ask(d, kind, &value) == 0 ? (double)value : (double)NAN;
}

static void text(int (*ask)(NvmlDevice, char *, unsigned), NvmlDevice d, char out[NVML_TEXT_BYTES])
{
    if (ask(d, out, NVML_TEXT_BYTES)) memcpy(out, "?", 2);
}

void nvml_facts(const Nvml *n, int gpu, GpuFacts *out)
{
    NvmlDevice d = n->device[gpu];
    NvmlMemory memory = { 0 };
    text(n->f.name, d, out->name);
    text(n->f.uuid, d, out->uuid);
    out->memory_bytes =
        n->f.memory && n->f.memory(d, &memory) == 0 ? (double)memory.total : (double)NAN;
    out->power_limit_w = number(n->f.power_limit, d, 1e-3);
    out->sm_clock_max_mhz = number_of(n->f.clock_max, d, CLOCK_SM);
    out->pcie_generation_max = number(n->f.pcie_generation_max, d, 1);
    out->pcie_width_max = number(n->f.pcie_width_max, d, 1);
}

void nvml_state(const Nvml *n, int gpu, GpuState *out)
{
    NvmlDevice d = n->device[gpu];
    NvmlUtilization used = { 0 };
    NvmlMemory memory = { 0 };
    unsigned long long reasons = 0, errors = 0;
    const bool tells = n->f.utilization && n->f.utilization(d, &used) == 0;
    out->utilization = tells ? 0.01 * used.gpu : (double)NAN;
    out->memory_utilization = tells ? 0.01 * used.memory : (double)NAN;
    out->memory_used_bytes =
        n->f.memory && n->f.memory(d, &memory) == 0 ? (double)memory.used : (double)NAN;
    out->power_w = number(n->f.power, d, 1e-3);
    out->temperature_c = number_of(n->f.temperature, d, TEMPERATURE_GPU);
    out->sm_clock_mhz = number_of(n->f.clock, d, CLOCK_SM);
    out->pcie_generation = number(n->f.pcie_generation, d, 1);
    out->pcie_width = number(n->f.pcie_width, d, 1);
    bool counts = n->f.ecc && n->f.ecc(d, ECC_UNCORRECTED, ECC_VOLATILE, &errors) == 0;
    out->ecc_errors = counts ? (double)errors : (double)NAN;
    out->throttle_reasons = n->f.throttle && n->f.throttle(d, &reasons) == 0 ? reasons : 0;
}

bool nvml_energy(const Nvml *n, int gpu, double *joules)
{
    unsigned long long millijoules = 0;
    if (!n->f.energy || n->f.energy(n->device[gpu], &millijoules) != 0) return false;
    *joules = 1e-3 * (double)millijoules;
    return true;
}

int nvml_links(const Nvml *n, int gpu)
{
    int count = 0;
    for (unsigned i = 0; n->f.nvlink && i < NVLINKS_MAX; i++) {
        unsigned active = 0;
        count += n->f.nvlink(n->device[gpu], i, &active) == 0 && active == 1;
    }
    return count;
}
