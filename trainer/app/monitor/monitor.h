/* monitor.h - other views of a run than its folder: TensorBoard, Prometheus, CloudWatch, GPUs.
 *
 * One process of each host has a Monitor: rank 0, for the run, and the first rank of every other
 * host, for its GPUs. The training thread writes event files itself; a thread of the Monitor's does
 * the rest. What cannot be written costs one warning and never fails the run. */
#ifndef CONVOY_TRAINER_APP_MONITOR_MONITOR_H
#define CONVOY_TRAINER_APP_MONITOR_MONITOR_H
#include "trainer/app/monitor/gauges.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/energy/energy.h"
#include "trainer/engine/events/records.h"

typedef struct Monitor Monitor;
/* *out NULL: nothing is asked for, or not of this rank; all functions take that. gpu: the run
 * computes on GPUs. ERR_ENV where monitor.gpu is on and NVML is not there, ERR_IO, ERR_USAGE. */
Status monitor_create(Monitor **out, const Config *c, const Comm *comm, bool gpu);
/* Writes what there is a last time. */
void monitor_destroy(Monitor *m); /* NULL ok */

/* energy: what this host spends is told too; it outlives m. */
void monitor_run(Monitor *m, int64_t total_steps, Energy *energy);
/* The run begins behind this step, and only now writes to its folder. resumed: readers shall drop
 * what earlier files say of later ones. ERR_IO. */
Status monitor_begin(Monitor *m, bool resumed, int64_t step);
/* The run goes on behind this step, from before where it was. */
void monitor_go_back(Monitor *m, int64_t step);
void monitor_step(Monitor *m, const StepRecord *s); /* a recorded one goes to the event file */
void monitor_eval(Monitor *m, const EvalRecord *e);
void monitor_checkpoint(Monitor *m, int64_t step);
/* GPUs of this host as of the last period, once each period: for metrics.jsonl. Texts are m's.
 * False: nothing new. */
bool monitor_take_gpus(Monitor *m, GpuRecord out[GAUGES_GPUS_MAX], int *count);
#endif
