/* class_weights.h - train.class_weights as the loss takes them: a number for each class
 * (docs/recipes.md).
 *
 * torch divides the weighted cross entropy of a batch by the sum of its labels' weights. Here the
 * weights are divided by their mean over the training images, and the batch by its images, so
 * neither ranks nor micro-batches have to know each other's labels. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_CLASS_WEIGHTS_H
#define CONVOY_TRAINER_ENGINE_SESSION_CLASS_WEIGHTS_H
#include "data/data.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

/* *out [classes], mem_free; NULL where the key is empty. Collective, agreed. ERR_USAGE or ERR_DATA
 * name the key, and the file's line. */
Status class_weights_open(float **out, const Config *c, const Dataset *train, int64_t classes,
                          Comm *comm);
#endif
