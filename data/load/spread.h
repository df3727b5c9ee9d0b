/* spread.h - some samples of a dataset, taken from all over it, as evaluation would show them: for
 * what is measured of the data before training. */
#ifndef CONVOY_DATA_LOAD_SPREAD_H
#define CONVOY_DATA_LOAD_SPREAD_H
#include "data/load/dataset.h"

/* Hands the views of count samples (of fewer: all), evenly spread over the dataset, to take(), in
 * their order: pixels [image_size, image_size, channels], borrowed until it returns. Where samples
 * lie class by class all classes have their share. Bad samples are left out; other errors of
 * reading end it. */
Status spread_views(const Dataset *d, int64_t count, const ViewOptions *o,
                    void (*take)(void *cookie, const uint8_t *pixels), void *cookie);
#endif
