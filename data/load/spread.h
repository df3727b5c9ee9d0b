/* spread.h - some samples of a dataset as evaluation would show them: taken from all over it, for
 * what is measured of the data before training; or named, for pages. */
#ifndef CONVOY_DATA_LOAD_SPREAD_H
#define CONVOY_DATA_LOAD_SPREAD_H
#include "data/load/dataset.h"

/* index: how many-th sample asked for; pixels: [image_size, image_size, channels], borrowed until
 * it returns. */
typedef void (*SpreadTake)(void *cookie, int64_t index, const uint8_t *pixels);

/* Hands the views of count samples (of fewer: all), evenly spread over the dataset, to take(), in
 * their order. Where samples lie class by class all classes have their share. Bad samples are left
 * out; other errors of reading end it. */
Status spread_views(const Dataset *d, int64_t count, const ViewOptions *o, SpreadTake take,
                    void *cookie);
/* The same of the samples ids[count]. */
Status spread_views_of(const Dataset *d, const int64_t *ids, int64_t count, const ViewOptions *o,
                       SpreadTake take, void *cookie);
#endif
