/* gauges.h - what a run is doing now, as numbers, and two texts that say so: Prometheus' and
 * CloudWatch's.
 *
 * Numbers that are not known are NaN and are left out of both texts. */
#ifndef CONVOY_TRAINER_APP_MONITOR_GAUGES_H
#define CONVOY_TRAINER_APP_MONITOR_GAUGES_H
#include "base/str.h"
#include "trainer/engine/energy/nvml.h"
#include "trainer/engine/events/records.h"

enum { GAUGES_GPUS_MAX = 64 };

typedef struct GpuGauges {
    int index;
    GpuFacts facts;
    /* the last look; utilizations and power are means of the looks */
    GpuState state;
    double utilization_min, utilization_max; /* of the looks since the text before */
} GpuGauges;

typedef struct GaugeMean { /* over the looks at which the value was known */
    double sum;
    int known;
} GaugeMean;

typedef struct GpuSamples { /* at one GPU; zeros: none yet */
    GaugeMean utilization, memory_utilization, power_w;
    double utilization_min, utilization_max;
} GpuSamples;

typedef struct Gauges {
    const char *run, *model, *host, *version;
    bool text;   /* the run's network reads it: its images are sequences */
    bool trains; /* this process tells of the run, not only of its host's GPUs */
    double start_unix_s, update_unix_s;
    double step, total_steps, epoch, world;
    StepRecord recorded; /* the last by log.every; NaN: not known */
    /* sums over this process's steps */
    double images, tokens, step_seconds, data_wait_seconds, comm_wait_seconds;
    EvalRecord eval; /* the last */
    double eval_step, checkpoint_step, checkpoint_unix_s;
    Spent spent;          /* by this host since this process started */
    const Config *prices; /* borrowed */
    int gpu_count;
    GpuGauges gpu[GAUGES_GPUS_MAX];
} Gauges;

void gauges_init(Gauges *g); /* everything unknown, sums 0 */
/* Adds what a look has seen and writes state and extremes of *out. Means are of the looks at which
 * the value was known, NaN where it never was. */
void gauges_add_sample(GpuGauges *out, GpuSamples *looks, const GpuState *seen);
/* The text exposition format, for node_exporter's textfile collector or any other reader. */
void gauges_add_prometheus(const Gauges *g, StrBuf *out);
/* A line of CloudWatch's embedded metric format for the run (if it trains) and one for each GPU.
 * now_s: Unix seconds.
 */
void gauges_add_emf(const Gauges *g, double now_s, StrBuf *out);
#endif
