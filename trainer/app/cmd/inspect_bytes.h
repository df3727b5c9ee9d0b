/* inspect_bytes.h - convoy inspect model NAME --bytes --gpu FILE: what a training step moves and
 * computes on a GPU that need not be here, and how long that would take by a model. */
#ifndef CONVOY_TRAINER_APP_CMD_INSPECT_BYTES_H
#define CONVOY_TRAINER_APP_CMD_INSPECT_BYTES_H
#include "trainer/app/cmd/args.h"

/* args: those of convoy inspect model. Errors are printed (command_run.h). */
Status inspect_bytes(const Args *args);
#endif
