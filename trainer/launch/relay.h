/* relay.h - what a child prints, passed on for as long as somebody reads it.
 *
 * mpirun aborts its ranks after about ten writes to a stream that nobody reads any more, as behind
 * convoy launch ... | head. So it writes to pipes, and a thread passes that on to the supervisor's
 * own stdout and stderr; once one of them takes no more, the rest for it is dropped. */
#ifndef CONVOY_TRAINER_LAUNCH_RELAY_H
#define CONVOY_TRAINER_LAUNCH_RELAY_H
#include "base/status.h"

typedef struct Relay Relay;
Status relay_create(Relay **out);
/* What the child writes to in place of stdout (0) and stderr (1). */
int relay_end(const Relay *r, int stream);
/* Once the child has them: the ends are closed here. */
void relay_close_ends(Relay *r);
/* Once the child has ended: passes on what is left. NULL ok. */
void relay_finish(Relay *r);
#endif
