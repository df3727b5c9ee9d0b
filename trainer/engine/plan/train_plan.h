/* train_plan.h - the arithmetic of a run: batches, steps, epochs. Pure functions of config, world
 * size and dataset size.
 *
 * Where train.accumulate is a list (fairseq's --update-freq), a step has the value of the epoch in
 * which it begins, the last value in all further ones. Steps of one value in a row are a phase; the
 * stream of images goes on from one to the next.
 */
#ifndef CONVOY_TRAINER_ENGINE_PLAN_TRAIN_PLAN_H
#define CONVOY_TRAINER_ENGINE_PLAN_TRAIN_PLAN_H
#include "trainer/engine/config/config.h"

typedef struct TrainPhase {
    int64_t first_step, first_image; /* of the run, and of the training stream */
    int64_t accumulate, global_batch;
} TrainPhase;

typedef struct TrainPlan {
    int64_t images; /* in the training set */
    int64_t batch;  /* images of one micro-batch of one rank */
    /* Those of the phase at hand, at first that of step 0. */
    int64_t accumulate;   /* micro-batches per step */
    int64_t global_batch; /* batch * accumulate * world */
    int64_t total_steps;  /* of the whole run */
    TrainPhase phases[CONFIG_LIST_MAX];
    int phase_count; /* 0: all steps are alike */
} TrainPlan;

/* batch_mode per_rank: global batch = batch_per_rank * accumulate * world. global: every rank takes
 * global_batch / world in equal micro-batches of at most batch_per_rank images. Steps: the first at
 * which train.epochs whole passes are complete, or max_steps. ERR_USAGE naming the key where that
 * cannot be: not divisible, a global batch larger than the dataset, sam_rho with micro-batches. */
Status train_plan_make(TrainPlan *out, const Config *c, int world, int64_t images);
/* ERR_USAGE naming model.bn_group where world ranks cannot be cut into such groups. Not part of a
 * plan, which one process may make of a run of many ranks. */
Status train_plan_check_norms(const Config *c, int world);

/* Makes the phase of step (0-based) the one at hand. */
void train_plan_enter(TrainPlan *p, int64_t step);
/* The first step behind the phase of step, total_steps in the last. */
int64_t train_plan_phase_end(const TrainPlan *p, int64_t step);
/* The least and the most micro-batches that a step of the run has. */
void train_plan_micros(const TrainPlan *p, int64_t *least, int64_t *most);

/* Position in the training stream after steps steps. */
int64_t train_plan_images(const TrainPlan *p, int64_t steps);
/* The first step that begins at this position or behind it. */
int64_t train_plan_step_at(const TrainPlan *p, int64_t image);
/* Steps that this many epochs take, usually a fraction. */
double train_plan_steps(const TrainPlan *p, double epochs);
/* Epochs that are complete after steps steps; also the epoch in which step number steps (0-based)
 * begins. */
int64_t train_plan_epoch(const TrainPlan *p, int64_t steps);
/* True if the end of step (0-based) is the first to complete another multiple of every_epochs
 * passes; false for every_epochs <= 0. */
bool train_plan_due(const TrainPlan *p, int64_t step, double every_epochs);
/* Whether what the keys ask for would ever have its turn; evaluates: there are images for that.
 * ERR_USAGE naming the key. */
Status train_plan_check_turns(const Config *c, const TrainPlan *p, bool evaluates);
#endif
