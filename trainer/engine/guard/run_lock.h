/* run_lock.h - one process at a time writes to a run folder. */
#ifndef CONVOY_TRAINER_ENGINE_GUARD_RUN_LOCK_H
#define CONVOY_TRAINER_ENGINE_GUARD_RUN_LOCK_H
#include "base/status.h"

#define RUN_LOCK_FILE "metrics.jsonl" /* in the run folder */

/* fd: of that file, which keeps the lock as long as it is open. Waits at most this long for another
 * process's end, less where this one is asked to stop (signals.h). ERR_IO naming dir. */
Status run_lock_take(int fd, const char *dir, double wait_s);
#endif
