/* supervisor.h - keeps a run going over mpirun: starts it on the hosts that answer, and starts it
 * again from its last checkpoint on those that are left, or on more when they come.
 *
 * It repairs nothing inside a run: on any failure all ranks leave, and the next start is a new one.
 * Needs neither MPI nor a GPU in its own process.
 *
 *   discover   the hosts script is run; what does not cool down is asked "true" through the agent,
 *              all at once. Where that is too few, so are hosts that have cooled down for half of
 *              wait_hosts_s
 *   start      mpirun on the hosts that answered, at least min_hosts of them, once nobody holds the
 *              run folder's lock; otherwise wait, at most wait_hosts_s
 *   watch      mpirun's end; every poll_s the script and the hosts in use again:
 *              a host gone or silent for lost_after_s ends mpirun (TERM, then KILL), whatever
 *              mpirun believes; hosts that make a larger world for grow_after_s since the start:
 *              USR1, a checkpoint, a new start
 *   judge      exit 0: done. 75: again. 64, 65, 71, 78: stop, as it would end the same again.
 *              Anything else: again, counted against max_restarts; after a pause, but for the
 *              first failure at a step. Hosts that were lost cool down, and what is held against
 *              those that have held out for grow_after_s is forgotten. Three failures at one step
 *              with all hosts answering: stop, since it is not the hosts.
 *   asked to stop (USR1, TERM, INT): USR1 to mpirun, grace_s for the checkpoint, then as for a lost
 *   host. */
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
