/* launcher.h - the mpirun that started this rank, seen from the rank's host.
 *
 * A daemon of mpirun runs on every other host. It ends its ranks and itself when its connection to
 * mpirun breaks; but where the host was cut off while something was on its way (a line of output,
 * word of a rank's end), the kernel gives the connection up only after a quarter of an hour. So
 * ranks find out by a connection of their own; it says nothing.
 *
 * Open MPI 4 tells ranks its address, Open MPI 5 only its daemon. Where there is none, nothing is
 * asked and nobody is ended. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_LAUNCHER_H
#define CONVOY_TRAINER_ENGINE_COMM_LAUNCHER_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* environment variable: "4711.0;tcp://10.0.0.1,10.1.0.1:38107" */
#define LAUNCHER_ADDRESS "OMPI_MCA_orte_hnp_uri"

/* The same on the command line of a daemon of Open MPI 5, which is its ranks' parent:
 * "... prte_hnp_uri prterun-host-4711@0.0;tcp://10.0.0.1:38107:24;tcp6://..." False
 * where that process was told none, or it is longer than out. */
bool launcher_of_daemon(pid_t daemon, char *out, size_t bytes);
/* Whether one of the address's IPv4 hosts takes a connection within this many seconds. False where
 * it holds none. */
bool launcher_answers(const char *address, double seconds);
/* Asks this rank's parent to end, with its other ranks, if it is a daemon of mpirun. Does not
 * wait. */
void launcher_end_daemon(void);
#endif
