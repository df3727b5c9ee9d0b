/* probe.h - asks the world which hosts there are: runs the hosts script, and asks hosts through the
 * agent whether they answer. Keeps the last good list while the script fails, and says each problem
 * once. A request to stop (signals.h) cuts both short. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_PROBE_H
#define CONVOY_TRAINER_APP_LAUNCH_PROBE_H
#include "trainer/app/launch/supervisor.h"

#define PROBE_SCRIPT_S 10.0 /* a hosts script that takes longer is killed */
#define PROBE_HOST_S   5.0  /* a host that takes longer does not answer */

typedef struct Probe Probe;
Status probe_create(Probe **out, const LaunchOptions *options); /* borrows options */
void probe_destroy(Probe *p);                                   /* NULL ok */
/* Runs the script. The list it prints, or that of its last success (at first none), also where it
 * names no host; borrowed until the next call. Where options tell of ranks, this
 * host alone. */
const HostList *probe_discover(Probe *p);
/* Asks all hosts of the list at once and takes those out that do not answer. This host itself is
 * not asked. False: they could not be asked, and the list is as it was; or we were asked to stop
 * meanwhile, and it is too short. */
bool probe_ask(Probe *p, HostList *hosts);
/* of the last discover and ask, in one sentence; "" for none */
const char *probe_problem(const Probe *p);
/* ERR_USAGE where the script or the agent is no program, ERR_ENV where ssh is not there: waiting
 * does not help. What has worked once is waited for. */
Status probe_hopeless(const Probe *p);
#endif
