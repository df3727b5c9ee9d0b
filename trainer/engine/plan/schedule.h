/* schedule.h - the learning rate as a pure function of the step: nothing is kept, so resume and a
 * change of world size need nothing. */
#ifndef CONVOY_TRAINER_ENGINE_PLAN_SCHEDULE_H
#define CONVOY_TRAINER_ENGINE_PLAN_SCHEDULE_H
#include "trainer/engine/plan/train_plan.h"

typedef struct Schedule {
    ScheduleShape name;
    double peak_lr; /* after lr_scaling */
    double min_lr, power, gamma;
    double decay_epochs;   /* exponential */
    ConfigList milestones; /* epochs */
    double warmup_steps, total_steps;
    TrainPlan plan;     /* which epoch a step lies in */
    double warmup_lr;   /* of step 0; below 0: peak / warmup_steps, and the peak a step earlier */
    double decay_start; /* cosine, poly, triangular: the step at which they leave the peak ... */
    double decay_steps; /* ... and how many they take */
} Schedule;

/* The run's schedule, of world ranks. Warns where warm-up is no shorter than the run. */
Schedule schedule_from_config(const Config *c, const TrainPlan *plan, int world);
/* Learning rate of step (0-based). Warm-up is linear: step s of w uses peak (s+1)/w (Goyal et al.
 * 2017, 2.2, starting near 0), or, from a start value, start + (peak - start) s/w. Behind it cosine
 * (Loshchilov and Hutter 2017, no restarts), poly (1 - s/length)^power, triangular (poly of power
 * 1), step (gamma at each milestone), exponential (gamma every decay_epochs, as TensorFlow's
 * EfficientNet) or constant. Epochs are always counted from the start of the run. */
double schedule_lr(const Schedule *s, int64_t step);
#endif
