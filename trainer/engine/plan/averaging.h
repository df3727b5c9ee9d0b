/* averaging.h - averaged copies of a run's weights: which there are, and how much of a step's
 * weights goes into each. Pure functions of the step, so that resume needs nothing but the copies.
 *
 * A weight w stands for average += w (weights - average); below 0 the step has no turn. update is
 * the number of updates done, this step's included: of a step that a loss scale skips there is none
 * (OP_LERP then does nothing). */
#ifndef CONVOY_TRAINER_ENGINE_PLAN_AVERAGING_H
#define CONVOY_TRAINER_ENGINE_PLAN_AVERAGING_H
#include "base/str.h"
#include "trainer/engine/plan/train_plan.h"

/* In the order in which they act. */
typedef enum AverageKind { AVERAGE_LOOKAHEAD, AVERAGE_EMA, AVERAGE_KIND_COUNT } AverageKind;

typedef struct AverageTraits {
    const char *prefix;      /* of its tensors in a checkpoint */
    bool wanted, statistics; /* running statistics have a copy too */
} AverageTraits;
AverageTraits averaging_traits(const Config *c, AverageKind kind);

/* w of step (0-based, in the run's plan). EMA by timm (ModelEmaV3: decay 0 in update 1, then
 * ema.decay, with ema.warmup at most 1 - update^(-2/3)) or torchvision (its train.py: counted
 * within an epoch, 1 - w = 1 - min(1, (1 - ema.decay) global batch x ema.every / epochs), copying
 * while the learning rate warms up). Lookahead by timm (its first turn copies) or airbench (w = 1 -
 * .95^steps (t/T)^3; 0 after the last step). */
double averaging_weight(const Config *c, const TrainPlan *p, AverageKind kind, int64_t step,
                        int64_t update);

/* The share of an average that is what it began with, or was last a copy of, at step since. */
typedef struct AverageRest {
    double share;
    int64_t since;
} AverageRest;
/* r behind steps from to to - 1. */
AverageRest averaging_rest(const Config *c, const TrainPlan *p, AverageKind kind, AverageRest r,
                           int64_t from, int64_t to);
/* Adds a warning where the run, at step from, is too short for an average: then, its rest there,
 * would be a tenth of it and more at the end. Else nothing. */
void averaging_warn_text(StrBuf *out, const Config *c, const TrainPlan *p, AverageKind kind,
                         AverageRest then, int64_t from);
#endif
