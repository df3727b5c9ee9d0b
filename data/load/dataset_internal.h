/* dataset_internal.h - what the loader may know of a Dataset beyond dataset.h. */
#ifndef CONVOY_DATA_LOAD_DATASET_INTERNAL_H
#define CONVOY_DATA_LOAD_DATASET_INTERNAL_H
#include "data/decode/seek_store.h"
#include "data/load/dataset.h"
#include "data/source/source.h"

typedef struct Learned { /* by the loaders, for those to come */
    _Atomic int readers; /* that the last one came to need; 0: not known */
} Learned;

struct Dataset {
    Source *source;
    Index *index; /* NULL for formats without */
    DataRole role;
    char *path;               /* for messages; "synthetic" if the images are generated */
    struct BadList *reported; /* bad samples that a warning has named */
    Learned *learned;
    DataCache cache_kind;
    struct SampleCache *cache; /* DATA_CACHE_RAM, DATA_CACHE_DISK */
    int64_t first_entry;
    SeekStore *seeks;
};

const Source *dataset_source(const Dataset *d);
SeekStore *dataset_seeks(const Dataset *d); /* NULL: none is kept */
/* Is this the first time that bad sample id is to be named? Asked by all loaders over the dataset,
 * from any thread. */
bool dataset_first_report(const Dataset *d, int64_t id);
/* Reads a sample as source_read does, through the cache that dataset_use_cache() gave, if any.
 * *hit: it was there. */
Status dataset_read(const Dataset *d, int64_t id, int size, ByteBuf *buf, Sample *out, bool *hit);
#endif
