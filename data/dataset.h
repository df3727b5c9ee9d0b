/* dataset.h - what the loader may know of a Dataset beyond data.h. */
#ifndef CONVOY_DATA_DATASET_H
#define CONVOY_DATA_DATASET_H
#include "data/source.h"

const Source *dataset_source(const Dataset *d);
DataRole dataset_role(const Dataset *d);
const char *dataset_path(const Dataset *d); /* for messages; "synthetic" where there is no folder */
/* Is this the first time that bad sample id is to be named? Asked by all loaders over the dataset, from any thread. */
bool dataset_first_report(const Dataset *d, int64_t id);
#endif
