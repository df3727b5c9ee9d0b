/* train_run.h - a training run: opens what it needs, trains to the end, closes it. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_TRAIN_RUN_H
#define CONVOY_TRAINER_ENGINE_TRAIN_TRAIN_RUN_H
#include "trainer/engine/events/run_events.h"

/* Collective and agreed; the ranks have met (meet.h). Errors as loop_run() has them, and those of
 * data, network and device that do not open. */
Status train_run(Comm *comm, const Config *c, const RunEvents *events);
#endif
