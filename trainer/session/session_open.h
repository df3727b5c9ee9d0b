/* session_open.h - a Session from a Config, on all ranks together. Errors are agreed, as session.h
 * says. */
#ifndef CONVOY_TRAINER_SESSION_SESSION_OPEN_H
#define CONVOY_TRAINER_SESSION_SESSION_OPEN_H
#include "trainer/session/session.h"

/* Opens datasets, makes the run plan, creates the backend and prepares the programs. Allocates no
 * slab yet. ERR_MEMORY naming train.batch_per_rank where even that was too much for the device. */
Status session_open_plan(Session *s, const Config *c, Comm *comm, SessionUse use);
/* The same for a session that is to run: ERR_MEMORY also where the plan does not fit the device, or
 * the host where that computes. */
Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use);
/* The same for one that is to be measured: a training set of one class is as good. */
Status session_open_bench(Session *s, const Config *c, Comm *comm, SessionUse use);
/* The same for evaluation alone, of data.val by the labels of a checkpoint: names, on rank 0, are
 * of its classes, one a line; NULL: the set's own. */
Status session_open_eval(Session *s, const Config *c, Comm *comm, const char *names);
/* Only the training set, the run plan and the threads: for benchmarks of the input. */
Status session_open_data(Session *s, const Config *c, Comm *comm);
#endif
