/* device.h - what computes: the backend and the precision that a configuration means on this
 * machine. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_DEVICE_H
#define CONVOY_TRAINER_ENGINE_SESSION_DEVICE_H
#include "kernels/backend_cuda.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"
#include <stdbool.h>

typedef struct DeviceChoice {
    bool cuda;
    int index;   /* among the visible devices; -1: none */
    int sharers; /* ranks that use the same device, this one included; 1 before device_query */
    /* of the device, before any rank of this run took more than a context; 0: not known */
    size_t free_bytes;
    Precision precision;
    char reason[512];      /* "cuda in bf16: device.backend is auto and there is a CUDA device" */
    const char *warning;   /* what else is to be said of the precision; NULL: nothing */
    char plan_cache[1024]; /* folder; empty: none */
} DeviceChoice;

/* Collective: what the CPUs of all ranks have for bf16. */
CpuBf16 device_cpu_bf16(Comm *comm);
/* Settles device.backend, device.index, train.precision and device.plan_cache for rank local_rank
 * of this host. ERR_USAGE naming device.index where there is none of that number. ERR_ENV with the
 * reason where device.backend is cuda and there is no device, or train.precision is not to be had
 * (precision.h). cpu: of all ranks. */
Status device_choose(DeviceChoice *out, const Config *c, int local_rank, CpuBf16 cpu);
/* Collective. What train.precision auto means is chosen when a run begins, and kept in its folder.
 * What cannot be chosen is said when the session opens. */
void device_settle(Comm *comm, Config *c);
/* Collective, after all ranks have chosen and before any of them opens its device: who else uses
 * it, and how much of its memory is free. */
Status device_query(DeviceChoice *choice, const Config *c, Comm *comm);
/* Creates the backend that was chosen. threads: the CPU's compute team. */
Status device_open(Backend **out, const DeviceChoice *choice, const Config *c, int threads);
#endif
