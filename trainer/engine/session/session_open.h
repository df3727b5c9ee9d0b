/* session_open.h - a Session from a Config, on all ranks together. Errors are agreed, as session.h
 * says. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_SESSION_OPEN_H
#define CONVOY_TRAINER_ENGINE_SESSION_SESSION_OPEN_H
#include "trainer/engine/session/session.h"

/* Opens datasets, makes the run plan, creates the backend and prepares the programs. Allocates no
 * slab yet. ERR_MEMORY naming train.batch_per_rank where even that was too much for the device. */
Status session_open_plan(Session *s, const Config *c, Comm *comm, SessionUse use);
/* The same for a session that is to run: ERR_MEMORY also where the plan does not fit the device, or
 * the host where that computes. learnt: classes of a checkpoint, on rank 0, whose labels the images
 * are to have; NULL: the set's own. */
Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use,
                    const ClassList *learnt);
/* The same for one that is to be measured: a training set of one class is as good. */
Status session_open_bench(Session *s, const Config *c, Comm *comm, SessionUse use);
/* Only the training set, the run plan and the threads: for benchmarks of the input. */
Status session_open_data(Session *s, const Config *c, Comm *comm);
#endif
