/* energy.h - what this host spends on a run: joules of the GPUs that its ranks compute on, each
 * once however many ranks share it, joules of its CPUs, and time.
 *
 * GPUs: NVML's counter of the whole board; where there is none, power summed up once a second.
 * CPUs: powercap.h; where that has nothing, cost.host_watts times the time, told apart as assumed.
 * The first rank of each host has an Energy. A thread of its own looks once a second at what must
 * be looked at (power, counters that go round); there is none where nothing must. */
#ifndef CONVOY_TRAINER_ENGINE_ENERGY_ENERGY_H
#define CONVOY_TRAINER_ENGINE_ENERGY_ENERGY_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/plan/cost.h"

enum { ENERGY_UUID_BYTES = 48, ENERGY_TEXT_BYTES = 192 };

typedef struct Energy Energy;
/* CPUs and time count from here on. *out NULL: not the first rank of its host; all functions take
 * that. Counters that cannot be read are no error: rank 0 says so. ERR_MEMORY, ERR_ENV. */
Status energy_open(Energy **out, const Config *c, const Comm *comm);
void energy_close(Energy *e); /* NULL ok */

typedef struct EnergyCover { /* what is known of all hosts together */
    int64_t hosts, cpu_hosts, assumed_hosts;
    int64_t gpus, counting_gpus, power_gpus; /* gpus: that ranks compute on */
} EnergyCover;
/* Collective and agreed. uuid: of the GPU that this rank computes on, as NVML has it, or "". GPUs
 * count from here on. ERR_MEMORY, ERR_ENV. */
Status energy_add_gpus(Energy *e, Comm *comm, const char *uuid, EnergyCover *out);
/* "2 GPUs by NVML's counter, CPUs of 1 of 2 hosts by RAPL"; "" where nothing is measured. */
void energy_describe(const EnergyCover *cover, char out[ENERGY_TEXT_BYTES]);

/* Since the beginning; host_s: this host's. Zeros for NULL. From any thread. */
void energy_read(Energy *e, Spent *out);
#endif
