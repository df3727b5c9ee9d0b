/* loop_divergence.h - a training whose loss, parameters or statistics are no finite numbers any
 * more: noticing it, telling of it, going back to a checkpoint.
 *
 * A step's loss is known to all ranks anyway, so a bad one is noticed at once and costs nothing.
 * What a finite loss hides (a bad weight behind a ReLU) is found before an evaluation and in the
 * copy that a checkpoint is written from, which then is not written. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_LOOP_DIVERGENCE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_LOOP_DIVERGENCE_H
#include "trainer/engine/train/loop_state.h"

/* Whether a finished step says so; the same on all ranks. */
bool loop_divergence_in(const StepResult *r);
/* Collective; ERR_DIVERGED, after finding the first bad tensor: l->divergence tells of it. No step
 * is under way. */
Status loop_divergence_end(Loop *l, const StepResult *r);
/* Collective: ERR_DIVERGED, as above, where the state after steps steps is not finite. */
Status loop_divergence_check(Loop *l, int64_t steps);
/* Collective, after ERR_DIVERGED: records it, and goes back where train.on_nan says so. OK: the run
 * goes on from l->start. Else ERR_DIVERGED with the sentence for the user. */
Status loop_divergence_go_back(Loop *l);
#endif
