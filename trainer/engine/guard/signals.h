/* signals.h - USR1, TERM, INT and HUP (a lost terminal) ask for a checkpoint and a clean exit with
 * 75. Handlers only set a flag; a second TERM or INT ends at once. */
#ifndef CONVOY_TRAINER_ENGINE_GUARD_SIGNALS_H
#define CONVOY_TRAINER_ENGINE_GUARD_SIGNALS_H
#include <stdbool.h>
/* first thing in main: a file size limit is a failed write, not a kill */
void signals_ignore_size_limit(void);
/* first thing in main for convoy train, in convoy launch and scale before they start anything;
 * other commands end as the signal says */
void signals_install(void);
void signals_request_stop(void); /* as USR1 does; any thread */
void signals_forget_stop(void);  /* a run has ended: the next one of this process was not asked */
/* this rank was asked to stop; rides in the step's metrics so that all ranks agree */
bool signals_stop_requested(void);
#endif
