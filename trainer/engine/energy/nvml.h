/* nvml.h - what NVIDIA's management library says of the GPUs of this host. Opened at run time: the
 * driver brings it.
 *
 * GPUs are numbered as nvidia-smi numbers them, whatever CUDA_VISIBLE_DEVICES hides. What a GPU or
 * its driver does not tell (a MIG slice has no utilization) is NaN. */
#ifndef CONVOY_TRAINER_ENGINE_ENERGY_NVML_H
#define CONVOY_TRAINER_ENGINE_ENERGY_NVML_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Nvml Nvml;
enum { NVML_TEXT_BYTES = 96 };

typedef struct GpuFacts { /* what does not change while the machine runs */
    char name[NVML_TEXT_BYTES], uuid[NVML_TEXT_BYTES];
    double memory_bytes, power_limit_w, sm_clock_max_mhz, pcie_generation_max, pcie_width_max;
} GpuFacts;
typedef struct GpuState {
    /* 0 to 1: share of the last moments in which some kernel was resident, no more than that */
    double utilization;
    double memory_utilization; /* the same of reads and writes of its memory */
    double memory_used_bytes, power_w, temperature_c, sm_clock_mhz;
    double pcie_generation, pcie_width;
    double ecc_errors;         /* uncorrected ones since the driver was loaded */
    uint64_t throttle_reasons; /* NVML_THROTTLE_ */
} GpuState;

/* Bits of throttle_reasons that slow a GPU down against its will. */
#define NVML_THROTTLE_POWER_CAP   0x04U
#define NVML_THROTTLE_HW_SLOWDOWN 0x08U
#define NVML_THROTTLE_SW_THERMAL  0x20U
#define NVML_THROTTLE_HW_THERMAL  0x40U
#define NVML_THROTTLE_POWER_BRAKE 0x80U

/* path: the library, or NULL for libnvidia-ml.so.1 where the system finds it. ERR_ENV with the
 * reason. */
Status nvml_open(Nvml **out, const char *path);
void nvml_close(Nvml *n); /* NULL ok */
FREED_BY_POINTER(Nvml, nvml_close)
int nvml_gpus(const Nvml *n);
const char *nvml_driver(const Nvml *n); /* "550.54.15" */
void nvml_facts(const Nvml *n, int gpu, GpuFacts *out);
void nvml_state(const Nvml *n, int gpu, GpuState *out);
/* What the whole board has used since its driver was loaded; false where it does not count (before
 * Volta, slices of a MIG). */
bool nvml_energy(const Nvml *n, int gpu, double *joules);
/* NVLinks of a GPU that are up; 0 where it has none, or does not tell. */
int nvml_links(const Nvml *n, int gpu);
#endif
