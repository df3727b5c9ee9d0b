/* class_weights.h - train.class_weights as the loss takes them: a number for each class.
 *
 * auto: images / (classes x images of the class) over the classes that have images, which is
 * scikit-learn's "balanced" and has the mean 1 over the images; a class without images gets 1. A
 * file: a number a line, from 0 to 1e9, in the order of the classes; blank lines count for nothing.
 *
 * torch divides the weighted cross entropy of a batch by the sum of its labels' weights. Here the
 * divisor is what that sum is on average: for cross entropy the weights are divided by their mean
 * over the training images, and the batch by its images. So neither ranks nor micro-batches have to
 * know each other's labels; torch's value and this one are equal where the batch holds the classes
 * in the shares of the training set. Binary cross entropy takes the numbers as they are, as torch's
 * does. */
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
