/* rank_dataset.h - opens data.train or data.val on all ranks: rank 0 finds out what is there, the
 * others get its index. */
#ifndef CONVOY_TRAINER_SESSION_RANK_DATASET_H
#define CONVOY_TRAINER_SESSION_RANK_DATASET_H
#include "data/data.h"
#include "trainer/comm/comm.h"
#include "trainer/config/config.h"

/* Collective and agreed: all ranks return the same status. */
Status rank_dataset_open(Dataset **out, const Config *c, DataRole role, Comm *comm);
#endif
