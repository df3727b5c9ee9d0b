/* schedule.h - the learning rate as a pure function of the step: nothing is kept, so resume and a
 * change of world size need nothing. */
#ifndef CONVOY_TRAINER_CONFIG_SCHEDULE_H
#define CONVOY_TRAINER_CONFIG_SCHEDULE_H
#include "trainer/config/config.h"

typedef struct Schedule {
    ScheduleShape name;
    double peak_lr; /* after lr_scaling */
    double min_lr, power, gamma;
    ConfigList milestones; /* epochs */
    double warmup_steps, total_steps, steps_per_epoch;
} Schedule;

/* The run's schedule. steps_per_epoch = images / global batch, a fraction as a rule. Warns where
 * warm-up is no shorter than the run. */
Schedule schedule_from_config(const Config *c, int64_t global_batch, int world,
                              int64_t dataset_images, int64_t total_steps);
/* Learning rate of step (0-based). Warm-up is linear: step s of w uses peak (s+1)/w (Goyal et al.
 * 2017, 2.2, starting near 0); behind it cosine (Loshchilov and Hutter 2017, no restarts), poly (1
 * - s/total)^power, step (gamma at each milestone) or constant, counted from the end of warm-up
 * where they depend on the length. */
double schedule_lr(const Schedule *s, int64_t step);
#endif
