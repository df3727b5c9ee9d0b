/* lock.h - one supervisor for one run.
 *
 * launch.lock in the run folder is held by flock() while a supervisor lives, and names host,
 * process and a time that is renewed. Not every file system carries flock() from host to host, and
 * a server of files may hold the lock for minutes on behalf of a host that died: so another host's
 * lock means a supervisor that lives if it is renewed, and only then. To take it clocks of
 * different hosts are not compared; to ask whether it is held they are, to a minute. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_LOCK_H
#define CONVOY_TRAINER_APP_LAUNCH_LOCK_H
#include "base/status.h"
#include <stdbool.h>

#define LOCK_RENEW_S  10.0
#define LOCK_SILENT_S 30.0

typedef struct LaunchLock LaunchLock;
/* run_dir exists. Another host's lock is watched for silent_s; unless it is renewed, it is taken as
 * soon as it is free too, at most wait_s from now (or silent_s, if that is longer). ERR_ENV naming
 * who has it, ERR_STOPPED (asked to stop, trainer/engine/guard/signals.h), ERR_IO. */
Status lock_take(LaunchLock **out, const char *run_dir, double silent_s, double wait_s);
/* Call every LOCK_RENEW_S. false: another host has taken it, because this process was suspended for
 * longer than LOCK_SILENT_S. */
bool lock_renew(LaunchLock *l);
void lock_release(LaunchLock *l);       /* NULL ok */
bool lock_is_held(const char *run_dir); /* by a supervisor that lives */
/* Whether the supervisor lives that said so on host at time_s (Unix): on this host its lock tells,
 * elsewhere and where there are no locks whether it is young. */
bool lock_holder_lives(const char *run_dir, const char *host, double time_s);
#endif
