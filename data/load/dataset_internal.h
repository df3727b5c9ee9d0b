/* dataset_internal.h - what the loader may know of a Dataset beyond dataset.h. */
#ifndef CONVOY_DATA_LOAD_DATASET_INTERNAL_H
#define CONVOY_DATA_LOAD_DATASET_INTERNAL_H
#include "data/decode/seek_store.h"
#include "data/load/dataset.h"
#include "data/source/source.h"

const Source *dataset_source(const Dataset *d);
DataRole dataset_role(const Dataset *d);
SeekStore *dataset_seeks(const Dataset *d); /* NULL: none is kept */
const char *dataset_path(const Dataset *d); /* for messages; "synthetic" where there is no folder */
/* Is this the first time that bad sample id is to be named? Asked by all loaders over the dataset,
 * from any thread. */
bool dataset_first_report(const Dataset *d, int64_t id);
/* Reads a sample as Source.read does, through the cache that dataset_use_cache() gave, if any.
 * *hit: it was there. */
Status dataset_read(const Dataset *d, int64_t id, int image_size, ByteBuf *buf, Sample *out,
                    bool *hit);
/* How many reader threads the last loader over this dataset came to need; 0: not known. From any
 * thread. */
int dataset_readers(const Dataset *d);
void dataset_set_readers(const Dataset *d, int readers);
#endif
