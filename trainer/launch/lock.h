/* lock.h - one supervisor for one run.
 *
 * launch.lock in the run folder is held by flock() while a supervisor lives, and names host, process and a time that is
 * renewed: on file systems that do not carry flock() from host to host, another host's time younger than LOCK_FRESH_S
 * means the same. A server of files may also hold the lock for minutes on behalf of a host that died; nobody renews
 * such a lock. */
#ifndef CONVOY_TRAINER_LAUNCH_LOCK_H
#define CONVOY_TRAINER_LAUNCH_LOCK_H
#include "base/status.h"
#include <stdbool.h>

#define LOCK_FRESH_S 60.0

typedef struct LaunchLock LaunchLock;
/* run_dir exists. A lock of another host is waited for, at most wait_s, as long as nobody renews it. ERR_ENV naming who
 * has it, ERR_STOPPED (asked to stop, trainer/signals.h), ERR_IO. */
Status lock_take(LaunchLock **out, const char *run_dir, double wait_s);
/* Call at least every LOCK_FRESH_S / 3. false: another host has taken it, because this process was suspended for longer
 * than it was fresh. */
bool lock_renew(LaunchLock *l);
void lock_release(LaunchLock *l);           /* NULL ok */
const char *lock_host(const LaunchLock *l); /* this host's name */
/* Whether the supervisor lives that said so on host at time_s (Unix): on this host its lock tells, elsewhere the
 * time. */
bool lock_holder_lives(const char *run_dir, const char *host, double time_s);
#endif
