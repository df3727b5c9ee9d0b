/* peer_watchdog.h - what the watchdogs of comm_mpi.c and device_comm.c share: when patience has an
 * end, and the end. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_PEER_WATCHDOG_H
#define CONVOY_TRAINER_ENGINE_COMM_PEER_WATCHDOG_H
#include "trainer/engine/comm/comm.h"

enum { EXIT_PEER_LOST = 76 };

/* Seconds for which this process did not run (suspended by a scheduler, stopped in a debugger)
 * between two polls that are otherwise close together; its peers probably did not run either, so
 * they do not count against them. 0 for an ordinary distance. *polled_s: clock_s() of the last
 * poll; set to now. */
double peer_watchdog_pause_s(double *polled_s, double now);
/* since_s moved by a pause, but not into the future. */
double peer_watchdog_forgive(double since_s, double pause_s, double now);

/* Logs "rank R on HOST: no progress for W s in step N (PHASE), operation O: REASON" (waited_s 0:
 * "failure" for no progress) and says comm's last words, the two side by side; after 10 s what is
 * stuck is given up. Once a process: the first caller's words are said. Any thread; the process
 * must end next. */
void peer_watchdog_report(Comm *c, double waited_s, const char *operation, const char *reason);
/* Ends the process: an orderly end would wait for the peer that is gone. Two seconds later, so that
 * others whose patience ends too can say so before mpirun ends them; where mpirun is known and does
 * not answer, after up to 3 s more mpirun's daemon on this host is asked to end too. */
_Noreturn void peer_watchdog_exit(const Comm *c);
#endif
