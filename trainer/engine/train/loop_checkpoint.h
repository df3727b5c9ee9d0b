/* loop_checkpoint.h - checkpoints of a run: saving, telling of them, and going on from one. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_LOOP_CHECKPOINT_H
#define CONVOY_TRAINER_ENGINE_TRAIN_LOOP_CHECKPOINT_H
#include "trainer/engine/train/loop_state.h"

/* Collective: a checkpoint after steps steps. wait: return only when the file is on disk.
 * ERR_DIVERGED where the state is not finite: nothing is written, l->divergence tells of it. */
Status loop_checkpoint_save(Loop *l, int64_t steps, bool best, bool eval_due, bool wait);
/* Records a checkpoint once it is on disk, and a failed write as this rank's pending error. */
Status loop_checkpoint_poll(const Loop *l);
/* Collective: waits for checkpoint.on_save, at the end of a run. */
Status loop_checkpoint_finish(Loop *l);
/* Collective: the state that checkpoint.resume or model.init name, and where the run goes on from
 * it. */
Status loop_checkpoint_resume(Loop *l);
/* Collective: back to the newest checkpoint of this run of a step before below (of that step, where
 * it is the oldest), with that factor. */
Status loop_checkpoint_go_back(Loop *l, int64_t below, double lr_factor);
#endif
