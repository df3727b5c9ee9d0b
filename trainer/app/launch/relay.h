/* relay.h - what a child prints, passed on for as long as somebody reads it.
 *
 * mpirun aborts its ranks after about ten writes to a stream that nobody reads any more, as behind
 * convoy launch ... | head. So it writes to pipes, and a thread passes that on to the supervisor's
 * own stdout and stderr; once one of them takes no more, the rest for it is dropped. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_RELAY_H
#define CONVOY_TRAINER_APP_LAUNCH_RELAY_H
#include "base/status.h"
#include <sys/types.h>

typedef struct Relay Relay;
/* child_start() of argv. *out is to be finished where this fails, too. */
Status relay_start(Relay **out, pid_t *child, const char *const argv[]);
/* Once the child has ended: passes on what is left. *r NULL ok; it is after. */
void relay_finish(Relay **r);
#endif
