/* train_plan.h - the arithmetic of a run: batches, steps, epochs. Pure functions of config, world
 * size and dataset size.
 */
#ifndef CONVOY_TRAINER_CONFIG_TRAIN_PLAN_H
#define CONVOY_TRAINER_CONFIG_TRAIN_PLAN_H
#include "trainer/config/config.h"

typedef struct TrainPlan {
    int64_t images;       /* in the training set */
    int64_t batch;        /* images of one micro-batch of one rank */
    int64_t accumulate;   /* micro-batches per step */
    int64_t global_batch; /* batch * accumulate * world */
    int64_t total_steps;  /* of the whole run */
} TrainPlan;

/* batch_mode per_rank: global batch = batch_per_rank * accumulate * world. global: every rank takes
 * global_batch / world in equal micro-batches of at most batch_per_rank images. Steps: the first at
 * which train.epochs whole passes are complete, or max_steps. ERR_USAGE naming the key where that
 * cannot be: not divisible, a global batch larger than the dataset, sam_rho with micro-batches. */
Status train_plan_make(TrainPlan *out, const Config *c, int world, int64_t images);
/* ERR_USAGE naming model.bn_group where world ranks cannot be cut into such groups. Not part of a
 * plan, which one process may make of a run of many ranks. */
Status train_plan_check_norms(const Config *c, int world);

/* Epochs that are complete after steps steps; also the epoch in which step number steps (0-based)
 * begins. */
int64_t train_plan_epoch(const TrainPlan *p, int64_t steps);
/* True if the end of step (0-based) is the first to complete another multiple of every_epochs
 * passes; false for every_epochs <= 0. */
bool train_plan_due(const TrainPlan *p, int64_t step, double every_epochs);
#endif
