/* presence.h - how a run that goes on is found and asked to stop by who knows its folder alone.
 *
 * Each rank keeps the folder open, which the kernel tells in /proc (convoy drain --run). Whoever
 * heads the run, rank 0 or the supervisor over it, looks for a file there that asks to stop, and
 * renames it when it has seen it (convoy stop): from any host that shares the folder. */
#ifndef CONVOY_TRAINER_ENGINE_GUARD_PRESENCE_H
#define CONVOY_TRAINER_ENGINE_GUARD_PRESENCE_H
#include "base/status.h"

#define PRESENCE_RUN    "stop" /* what rank 0 looks for */
#define PRESENCE_LAUNCH "launch.stop"
#define PRESENCE_SEEN   ".seen" /* behind the name of a request that was seen */

typedef struct Presence Presence;
/* run_dir exists, but for ranks that do not share it. request: the file to look for, which is
 * removed first; NULL: none. One that comes asks this process as a signal does (signals.h).
 * ERR_ENV, ERR_MEMORY. */
Status presence_begin(Presence **out, const char *run_dir, const char *request);
void presence_end(Presence *p); /* NULL ok; removes the request: it was heard to the end */
#endif
