/* train_state.h - a training state and its checkpoint: which tensors it has, copying them out
 * between two steps, putting them back. */
#ifndef CONVOY_TRAINER_TRAIN_TRAIN_STATE_H
#define CONVOY_TRAINER_TRAIN_TRAIN_STATE_H
#include "trainer/exec/executor.h"
#include "trainer/files/checkpoint.h"
#include "trainer/train/averages.h"
#include "trainer/train/optimizer.h"

/* Names and shapes of everything a checkpoint holds: parameters, buffers, then
 * "optimizer.<state>.<parameter>", "lookahead.<state>", "ema.<state>". optim and averages may be
 * NULL (weights only). returns to caller (mem_free, one block). */
Status train_state_list(const Executor *x, const Optimizer *optim, const Averages *averages,
                        SafeTensor **out, int *count);
#define TRAIN_STATE_NAME_BYTES 160
/* The first tensor, in that order, with an element that is infinite or NaN: its name in bad, "" if
 * there is none. Allocates; waits for the device. */
Status train_state_find_bad(const Executor *x, const Optimizer *optim, const Averages *averages,
                            Backend *backend, char bad[TRAIN_STATE_NAME_BYTES]);
/* Copies the state into the writer's staging memory (waits for the file before). ERR_DIVERGED, and
 * bad as above, where it is not finite: it must not be submitted. */
Status train_state_stage(const Executor *x, const Optimizer *optim, const Averages *averages,
                         Backend *backend, CheckpointWriter *w, char bad[TRAIN_STATE_NAME_BYTES]);
/* Copies a checkpoint into the executor and, where they are not NULL, optimizer and averages; a
 * copy of which it holds nothing starts at the weights. ERR_DATA naming path and the first tensor
 * that is missing or has another shape; nothing is changed then. */
Status train_state_restore(Executor *x, Optimizer *optim, Averages *averages, Backend *backend,
                           const SafeFile *file, const char *path);
#endif
