/* session_open.h - a Session from a Config, on all ranks together. Errors are agreed, as session.h
 * says. */
#ifndef CONVOY_TRAINER_SESSION_SESSION_OPEN_H
#define CONVOY_TRAINER_SESSION_SESSION_OPEN_H
#include "trainer/session/session.h"

/* Opens datasets, makes the run plan, creates the backend and prepares the programs. Allocates no
 * slab yet. ERR_USAGE naming train.batch_per_rank where that does not fit the device. */
Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use);
/* Only the training set, the run plan and the threads: for benchmarks of the input. */
Status session_open_data(Session *s, const Config *c, Comm *comm);
#endif
