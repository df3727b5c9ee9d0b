/* first_weights.h - the weights that a new run begins with, where they are not drawn: those of
 * model.init, or parameters that are made of the training images (INIT_WHITEN). */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_FIRST_WEIGHTS_H
#define CONVOY_TRAINER_ENGINE_TRAIN_FIRST_WEIGHTS_H
#include "trainer/engine/session/session.h"

/* Parameters are whitened by this many training images, taken from all over the set and shown as in
 * evaluation. */
enum { FIRST_WEIGHTS_IMAGES = 5000 };
bool first_weights_needed(const Session *s); /* some are not drawn; all ranks alike */
/* On rank 0, after session_draw(); to be broadcast. */
Status first_weights_make(const Session *s);
#endif
