/* augmentation.h - the augmentation keys of a Config as the loader takes them. */
#ifndef CONVOY_TRAINER_AUGMENTATION_H
#define CONVOY_TRAINER_AUGMENTATION_H
#include "data/data.h"
#include "trainer/config/config.h"

/* Training images lose a box, or are mixed with others. */
bool augmentation_erases(const Config *c);
bool augmentation_mixes(const Config *c);
/* Fills what concerns the augmentation of training images beyond crop and flip. */
void augmentation_options(const Config *c, LoaderOptions *out);
#endif
