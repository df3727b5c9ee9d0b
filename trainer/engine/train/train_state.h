/* train_state.h - a training state and its checkpoint: copying all states that are saved
 * (trainer/engine/exec/state.h) out between two steps, putting them back. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_TRAIN_STATE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_TRAIN_STATE_H
#include "trainer/engine/exec/state.h"
#include "trainer/engine/files/checkpoint.h"

/* Names and shapes of everything a checkpoint holds: parameters, buffers, then what rules have
 * added: "optimizer.<state>.<parameter>", "lookahead.<state>", "ema.<state>". returns to caller
 * (mem_free, one block). */
Status train_state_list(const Executor *x, SafeTensor **out, int *count);
/* The first tensor, in that order, with an element that is infinite or NaN: its name in bad, "" if
 * there is none. Allocates; waits for the device. */
Status train_state_find_bad(const Executor *x, char bad[STATE_NAME_BYTES]);
/* Copies the state into the writer's staging memory (waits for the file before). ERR_DIVERGED, and
 * bad as above, where it is not finite: it must not be submitted. */
Status train_state_stage(const Executor *x, CheckpointWriter *w, char bad[STATE_NAME_BYTES]);
/* Copies a checkpoint into all states; a copy of which it holds nothing starts at the weights.
 * ERR_DATA naming path and the first tensor that is missing or has another shape; nothing is
 * changed then. */
Status train_state_restore(Executor *x, const SafeFile *file, const char *path);
/* A new run: what follows the weights begins at them. */
Status train_state_begin(Executor *x);
#endif
