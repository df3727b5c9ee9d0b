/* progress.h - what a supervisor reads of the run itself, from metrics.jsonl in its folder: how far
 * it has come, and whether somebody writes there. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_PROGRESS_H
#define CONVOY_TRAINER_APP_LAUNCH_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

/* How far the last start has come that metrics.jsonl tells of: the furthest step of its step,
 * checkpoint and resume records; 0 for none. */
int64_t progress_last_step(const char *run_dir);
/* The exit code of a run whose own last record, whatever convoy eval has added, says that it has
 * ended; -1 where it does not. */
int progress_exit_code(const char *run_dir);
/* Whether a rank 0 holds the folder's lock (runlog.c); a server of files may hold it for minutes on
 * behalf of a host that died. *bytes: how long metrics.jsonl is now, -1 where there is none; NULL
 * ok. */
bool progress_is_locked(const char *run_dir, int64_t *bytes);
#endif
