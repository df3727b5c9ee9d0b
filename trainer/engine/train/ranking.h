/* ranking.h - average precision: whether the scores of a class put the images that have it before
 * the others. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_RANKING_H
#define CONVOY_TRAINER_ENGINE_TRAIN_RANKING_H
#include "data/data.h"
#include "trainer/engine/comm/comm.h"

typedef struct RankedImage {
    float score; /* no NaN */
    bool has;    /* the image has the class */
} RankedImage;

/* As scikit-learn's average_precision_score: the sum, from the highest score down, of the precision
 * at each score times what it adds to the recall; images of equal score count at once. Sorts
 * images. NaN: none has the class. */
double ranking_average_precision(RankedImage *images, int64_t count);
/* Collective, agreed: the average precision of each class, ap [classes], the same on all ranks and
 * for any number of them. scores: [share, classes] of this rank's share of d, which is that of
 * evaluation (data.h). Gathers few classes at a time. */
Status ranking_of_classes(double *ap, Comm *comm, const Dataset *d, const float *scores,
                          int64_t classes);
/* Over the classes that an image has, *count of them; NaN: none. */
double ranking_mean(const double *ap, int64_t classes, int64_t *count);
#endif
