/* supervisor.h - keeps a run going over mpirun: starts it on the hosts that answer, and again from
 * its last checkpoint on the remaining ones, or on more when they come (docs/launch.md).
 *
 * It repairs nothing inside a run: on any failure all ranks leave, and the next start is a new one.
 * Needs neither MPI nor a GPU in its own process. It runs the hosts script and asks the hosts,
 * starts mpirun once nobody holds the run folder's lock, watches both, judges the exit code, and
 * begins again. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_SUPERVISOR_H
#define CONVOY_TRAINER_APP_LAUNCH_SUPERVISOR_H
#include "trainer/app/launch/hosts.h"

typedef struct LaunchOptions { /* strings are borrowed */
    const char *hosts_script;  /* for sh -c; unused where ranks is set */
    const char *agent;         /* NULL: ssh without questions, and mpirun's own default */
    const char *mpirun_args;   /* blank-separated, "" for none */
    const char *program;       /* absolute path of convoy on all hosts */
    char **command;            /* train CONFIG ... */
    int command_count;
    const char *run_dir;
    HostsWanted wanted;
    int slots, max_restarts;
    int ranks;   /* on this host alone; 0: on the hosts that the script tells of */
    bool prefix; /* each line that a rank prints names it */
    double wait_hosts_s, cooldown_s, grow_after_s, lost_after_s, grace_s, poll_s;
} LaunchOptions;

/* Returns when the run is done (OK) or cannot go on: ERR_STOPPED where the same command goes on
 * later (asked to stop, too few hosts), else the error of the run. Leaves no process behind on this
 * machine. */
Status supervisor_run(const LaunchOptions *options);
#endif
