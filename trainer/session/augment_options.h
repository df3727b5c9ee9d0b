/* augment_options.h - the augmentation keys of a Config as the loader takes them. */
#ifndef CONVOY_TRAINER_SESSION_AUGMENT_OPTIONS_H
#define CONVOY_TRAINER_SESSION_AUGMENT_OPTIONS_H
#include "data/data.h"
#include "trainer/config/config.h"

/* Training images lose a box, or are mixed with others. */
bool augment_options_erase(const Config *c);
bool augment_options_mix(const Config *c);
/* Fills what concerns the augmentation of training images beyond crop and flip. */
void augment_options_fill(const Config *c, LoaderOptions *out);
#endif
