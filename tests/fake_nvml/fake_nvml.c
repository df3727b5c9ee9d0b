/* fake_nvml.c - stands in for libnvidia-ml.so.1 in tests: two GPUs, made up. The second tells no
 * utilization, as a MIG slice does, runs hot, has a link that is narrower than it could be,
 * and does not count its energy. The counter of the first is 312.5 W times the clock, or what the
 * file says that FAKE_NVML_MJ names. Never linked. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { GPUS = 2, NOT_SUPPORTED = 3, INVALID = 2 };

typedef struct Device {
    unsigned index;
} Device;
static Device devices[GPUS] = { { 0 }, { 1 } };

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int error);
int nvmlSystemGetDriverVersion(char *out, unsigned bytes);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out);
int nvmlDeviceGetName(Device *d, char *out, unsigned bytes);
int nvmlDeviceGetUUID(Device *d, char *out, unsigned bytes);
int nvmlDeviceGetUtilizationRates(Device *d, unsigned out[2]);
int nvmlDeviceGetMemoryInfo(Device *d, unsigned long long out[3]);
int nvmlDeviceGetPowerUsage(Device *d, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *milliwatts);
int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *celsius);
int nvmlDeviceGetClockInfo(Device *d, int clock, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(Device *d, int clock, unsigned *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, unsigned long long *reasons);
int nvmlDeviceGetTotalEccErrors(Device *d, int type, int counter, unsigned long long *errors);
int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *out);
int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *out);
int nvmlDeviceGetTotalEnergyConsumption(Device *d, unsigned long long *millijoules);
int nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *active);

/* Twelve links; the second GPU has lost one. */
int nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *active)
{
    if (link >= 12) return INVALID;
    *active = !(d->index == 1 && link == 5);
    return 0;
}

static int set(unsigned *out, unsigned value)
{
    *out = value;
    return 0;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int error)
{
    return error == NOT_SUPPORTED ? "Not Supported" : "made-up error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
    return snprintf(out, bytes, "555.42.06") < 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    return set(count, GPUS);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out)
{
    if (index >= GPUS) return INVALID;
    *out = &devices[index];
    return 0;
}

int nvmlDeviceGetName(Device *d, char *out, unsigned bytes)
{
    return snprintf(out, bytes, "Made-up GPU %u", d->index) < 0;
}

int nvmlDeviceGetUUID(Device *d, char *out, unsigned bytes)
{
    return snprintf(out, bytes, "GPU-00000000-0000-0000-0000-00000000000%u", d->index) < 0;
}

int nvmlDeviceGetUtilizationRates(Device *d, unsigned out[2])
{
    if (d->index == 1) return NOT_SUPPORTED;
    out[0] = 97;
    out[1] = 41;
    return 0;
}

int nvmlDeviceGetMemoryInfo(Device *d, unsigned long long out[3])
{
    out[0] = 80ULL << 30;
    out[2] = (10ULL + d->index) << 30;
    out[1] = out[0] - out[2];
    return 0;
}

int nvmlDeviceGetPowerUsage(Device *d, unsigned *milliwatts)
{
    return set(milliwatts, 312500 + d->index * 1000);
}

int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *milliwatts)
{
    (void)d;
    return set(milliwatts, 700000);
}

int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *celsius)
{
    return sensor != 0 ? INVALID : set(celsius, d->index ? 88 : 54);
}

int nvmlDeviceGetClockInfo(Device *d, int clock, unsigned *mhz)
{
    return clock != 1 ? INVALID : set(mhz, d->index ? 1005 : 1755);
}

int nvmlDeviceGetMaxClockInfo(Device *d, int clock, unsigned *mhz)
{
    (void)d;
    return clock != 1 ? INVALID : set(mhz, 1980);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, unsigned long long *reasons)
{
    *reasons = d->index ? 0x40 : 0x1; /* hot; idle */
    return 0;
}

int nvmlDeviceGetTotalEccErrors(Device *d, int type, int counter, unsigned long long *errors)
{
    (void)d;
    *errors = 0;
    return type != 1 || counter != 0 ? INVALID : 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *out)
{
    (void)d;
    return set(out, 5);
}

int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *out)
{
    (void)d;
    return set(out, 5);
}

int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *out)
{
    return set(out, d->index ? 8 : 16);
}

int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *out)
{
    (void)d;
    return set(out, 16);
}

int nvmlDeviceGetTotalEnergyConsumption(Device *d, unsigned long long *millijoules)
{
    const char *path = getenv("FAKE_NVML_MJ");
    struct timespec now;
    if (d->index == 1) return NOT_SUPPORTED;
    timespec_get(&now, TIME_UTC);
    const double ms = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
    *millijoules = (unsigned long long)(312.5 * ms);
    FILE *f = path ? fopen(path, "r") : NULL;
    int read = f ? fscanf(f, "%llu", millijoules) : 1;
    if (f) fclose(f);
    return read == 1 ? 0 : NOT_SUPPORTED;
}
