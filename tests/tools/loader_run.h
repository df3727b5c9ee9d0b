/* loader_run.h - for tests of the loader: a folder of images, small views of it, runs over it. */
#ifndef CONVOY_TESTS_TOOLS_LOADER_RUN_H
#define CONVOY_TESTS_TOOLS_LOADER_RUN_H
#include "data/data.h"

/* NULL, and a failed check, if it cannot be opened. */
Dataset *loader_open_data(const char *path, DataRole role);
/* One rank, images of 24 x 24, without an end. */
LoaderOptions loader_options(int64_t batch, int threads);
/* Takes steps until the loader fails, but no more than `steps`; returns the status. */
Status loader_run(const Dataset *d, const LoaderOptions *o, int steps);
#endif
