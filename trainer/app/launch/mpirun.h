/* mpirun.h - the command line of mpirun for a supervised start, and what its exit code means. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_MPIRUN_H
#define CONVOY_TRAINER_APP_LAUNCH_MPIRUN_H
#include "trainer/app/launch/relay.h"
#include "trainer/app/launch/supervisor.h"
#include <sys/types.h>

/* The mpirun in this program's own folder, where pip or a packager has put both; else "mpirun",
 * which PATH finds. Static. */
const char *mpirun_path(void);
/* Writes run_dir/launch.hosts and starts mpirun with a rank in every slot, which prints through
 * *relay (relay_finish(), whatever this returns). ERR_ENV, ERR_IO. */
Status mpirun_start(pid_t *out, Relay **relay, const LaunchOptions *options, const HostList *hosts);
/* OK for 0; the status whose exit code it is; ERR_ENV for 127, no mpirun; ERR_PEER for what only
 * mpirun or a signal says (1, 9, 137, 205, ...). */
Status mpirun_status(int code);
#endif
