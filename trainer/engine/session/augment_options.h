/* augment_options.h - what a Config says of images, as the loader takes it. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_AUGMENT_OPTIONS_H
#define CONVOY_TRAINER_ENGINE_SESSION_AUGMENT_OPTIONS_H
#include "data/data.h"
#include "trainer/engine/config/config.h"

/* Training images lose a box, or are mixed with others. */
bool augment_options_erase(const Config *c);
bool augment_options_mix(const Config *c);
/* Fills the view of images of role, and for training what is mixed and repeated. */
void augment_options_fill(LoaderOptions *out, const Config *c, DataRole role);
#endif
