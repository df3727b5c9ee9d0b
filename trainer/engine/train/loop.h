/* loop.h - a whole training run: from an opened session to the last checkpoint. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_LOOP_H
#define CONVOY_TRAINER_ENGINE_TRAIN_LOOP_H
#include "trainer/engine/events/run_events.h"
#include "trainer/engine/session/session.h"

/* Collective. Resumes where checkpoint.resume says, trains, evaluates, saves. ERR_STOPPED after a
 * requested stop with the checkpoint on disk. energy NULL: none here. Checkpoints go to run.dir. */
Status loop_run(Session *s, const RunEvents *events, Energy *energy);
#endif
