/* first_weights.h - first values of parameters that are made of the training images (INIT_WHITEN),
 * when a run begins that has no weights yet. */
#ifndef CONVOY_TRAINER_TRAIN_FIRST_WEIGHTS_H
#define CONVOY_TRAINER_TRAIN_FIRST_WEIGHTS_H
#include "trainer/session/session.h"

bool first_weights_needed(const Session *s); /* the network has such parameters; all ranks alike */
/* On rank 0, after session_commit(): from FIRST_WEIGHTS_IMAGES training images, taken from all over
 * the set and shown as in evaluation. To be broadcast. */
enum { FIRST_WEIGHTS_IMAGES = 5000 };
Status first_weights_make(const Session *s);
#endif
