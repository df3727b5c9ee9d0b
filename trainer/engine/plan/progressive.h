/* progressive.h - the size of training images by epoch (data.progressive_sizes, progressive_until,
 * train_size).
 *
 * A stage is a stretch of steps whose images have one size. Stage i has the i-th of the listed
 * sizes and ends where its epochs do; the last stage has data.train_size, or data.image_size where
 * that is 0, and ends with the run. A run without the keys is its last stage alone. Evaluation
 * always has data.image_size. Pure functions of config and run plan, so a resumed run is where it
 * would be.
 */
#ifndef CONVOY_TRAINER_ENGINE_PLAN_PROGRESSIVE_H
#define CONVOY_TRAINER_ENGINE_PLAN_PROGRESSIVE_H
#include "trainer/engine/plan/train_plan.h"

int progressive_stage_count(const Config *c);               /* 1..PROGRESSIVE_STAGES_MAX */
int64_t progressive_image_size(const Config *c, int stage); /* pixels, height and width */
int64_t progressive_largest_size(const Config *c);          /* of all sizes */
/* the one that step (0-based) belongs to */
int progressive_stage_at(const Config *c, const TrainPlan *p, int64_t step);
/* The first step behind the stage: the one that begins after the last of its epochs is complete. */
int64_t progressive_stage_end(const Config *c, const TrainPlan *p, int stage);
#endif
