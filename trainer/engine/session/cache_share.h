/* cache_share.h - one cache of files for all ranks of a node (data.cache: ram, disk). */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_CACHE_SHARE_H
#define CONVOY_TRAINER_ENGINE_SESSION_CACHE_SHARE_H
#include "data/cache/cache.h"
#include "data/data.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

/* Collective and agreed. Sets what data.cache says for both datasets (NULL ok); *out is the cache,
 * NULL where there is none. ERR_USAGE where data.cache_mb is more than a node has left; of a
 * file as cache_open_file(). */
Status cache_share(SampleCache **out, Comm *comm, const Config *c, Dataset *train, Dataset *val);
#endif
