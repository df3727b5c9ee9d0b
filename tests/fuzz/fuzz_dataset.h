/* fuzz_dataset.h - opens the folder of the fuzzed files as a dataset and reads all of it. */
#ifndef CONVOY_TESTS_FUZZ_FUZZ_DATASET_H
#define CONVOY_TESTS_FUZZ_FUZZ_DATASET_H
#include "data/data.h"

/* most: no encoded sample can be longer than all there is. */
void fuzz_dataset(DataFormat format, size_t most);
#endif
