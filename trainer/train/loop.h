/* loop.h - a whole training run: from an opened session to the last checkpoint. */
#ifndef CONVOY_TRAINER_TRAIN_LOOP_H
#define CONVOY_TRAINER_TRAIN_LOOP_H
#include "trainer/log/runlog.h"
#include "trainer/monitor/energy.h"
#include "trainer/monitor/monitor.h"
#include "trainer/session/session.h"

/* Collective. Resumes where checkpoint.resume says, trains, evaluates, saves; leaves one summary
 * line. ERR_STOPPED after a requested stop with the checkpoint on disk. log: rank 0's run folder.
 * run_dir: where checkpoints go. */
/* monitor, energy NULL: none here */
Status loop_run(Session *s, RunLog *log, Monitor *monitor, Energy *energy, const char *run_dir);
#endif
