/* rank_epochs.h - an epoch as every rank saw it, brought together. */
#ifndef CONVOY_TRAINER_TRAIN_RANK_EPOCHS_H
#define CONVOY_TRAINER_TRAIN_RANK_EPOCHS_H
#include "kernels/backend.h"
#include "trainer/comm/comm.h"
#include "trainer/log/console.h"

/* Collective and agreed. *out: one of each rank, on all of them; mem_free. seconds: this rank's. */
Status rank_epochs_gather(RankEpoch **out, Comm *comm, const Backend *backend, double seconds);
#endif
