/* meet.h - the first that ranks say to each other: all are one build and run one configuration. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_MEET_H
#define CONVOY_TRAINER_ENGINE_TRAIN_MEET_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

/* Collective and agreed. loaded: how c came to be on this rank; c may be NULL where it did not.
 * What c leaves to "auto" becomes what the run that it goes on has had. ERR_ENV for another build,
 * ERR_USAGE for another configuration. */
Status meet_ranks(Comm *comm, Config *c, Status loaded);
#endif
