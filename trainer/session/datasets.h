/* datasets.h - opens data.train or data.val on all ranks: rank 0 finds out what is there, the
 * others get its index. */
#ifndef CONVOY_TRAINER_DATASETS_H
#define CONVOY_TRAINER_DATASETS_H
#include "data/data.h"
#include "trainer/comm/comm.h"
#include "trainer/config/config.h"

/* Collective and agreed: all ranks return the same status. */
Status datasets_open(Dataset **out, const Config *c, DataRole role, Comm *comm);
/* Where data.index says that indexes are kept; *out NULL for nowhere. mem_free. */
Status datasets_index_place(char **out, const Config *c);
#endif
