/* rank_watchdog.h - ends a process whose main thread makes no progress: a read that never returns,
 * a device that hangs, a bug.
 *
 * comm's own watchdog sees peers that do not answer. This one sees the rank itself, in a run of one
 * rank too: each phase of a run (as told to comm_set_progress) has a limit for the time between two
 * signs of life. Beyond it one line names rank, host, step and phase, comm's last words are said,
 * and the process ends with 76. Time in which the whole process was suspended does not count.
 *
 * Of several ranks the one that hangs is seldom the first to give up: its peers miss it sooner, and
 * what started the ranks then asks the others to leave. A rank that is asked so while it makes no
 * progress says where it is as well.
 *
 * A rank that is asked to stop before the first step has nothing to save and leaves with 75,
 * whatever its main thread is about.
 *
 * One rank of a host also looks, while it makes no progress, whether mpirun still answers
 * (comm/launcher.h): of a host that was cut off nothing shall be left when the run has long gone on
 * elsewhere. */
#ifndef CONVOY_TRAINER_ENGINE_GUARD_RANK_WATCHDOG_H
#define CONVOY_TRAINER_ENGINE_GUARD_RANK_WATCHDOG_H
#include "trainer/engine/comm/comm.h"

typedef struct RankWatchdogLimits { /* seconds; 0: no limit */
    double start_s, step_s, evaluation_s, checkpoint_s, disconnect_s;
} RankWatchdogLimits;
typedef struct RankWatchdog RankWatchdog;
/* Watches comm, which is borrowed until rank_watchdog_stop(), and looks for its mpirun. run_dir:
 * where the ranks' hang reports go (hang_report.h); copied. */
Status rank_watchdog_start(RankWatchdog **out, Comm *comm, const RankWatchdogLimits *limits,
                           const char *run_dir);
void rank_watchdog_stop(RankWatchdog *w); /* NULL ok */
#endif
