/* unread.h - keys on the command line that a command does nothing with. */
#ifndef CONVOY_TRAINER_APP_CMD_UNREAD_H
#define CONVOY_TRAINER_APP_CMD_UNREAD_H
#include "trainer/app/cmd/args.h"

/* Of a run: what it writes beside its weights, and experiments about runs. */
#define UNREAD_BUT_IN_RUNS                                                                         \
    "checkpoint.every_epochs checkpoint.every_steps checkpoint.keep checkpoint.on_save monitor "   \
    "cost scale"

/* One warning that names those of args->sets that are among keys: keys and whole sections, between
 * blanks. advice: what is read in their place, or "". */
void unread_warn(const Args *args, const char *keys, const char *advice);
#endif
