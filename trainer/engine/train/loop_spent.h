/* loop_spent.h - what the parts of a run spend: read where one ends, never within a step.
 *
 * The sums are rank 0's, who keeps them in checkpoints: they go on where a run does. What a process
 * spent behind its last checkpoint is in the records of metrics.jsonl alone. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_LOOP_SPENT_H
#define CONVOY_TRAINER_ENGINE_TRAIN_LOOP_SPENT_H
#include "trainer/engine/train/loop_state.h"

/* Collective and agreed, before any other. */
Status loop_spent_begin(Loop *l, Energy *energy);
/* Collective: the run begins behind what it goes on from; what was spent so far went to
 * COST_START. */
void loop_spent_start(Loop *l);
/* Collective: what was spent since the last end went to this part (COST_TRAIN: and to COST_WAIT). A
 * record of it, but for training without a step, which the next end takes along. */
void loop_spent_end(Loop *l, CostPart part);
/* Collective: the last end, if there was a start. */
void loop_spent_finish(Loop *l);
#endif
