/* evaluate.h - evaluation that counts every image exactly once on any number of ranks. */
#ifndef CONVOY_TRAINER_TRAIN_EVALUATE_H
#define CONVOY_TRAINER_TRAIN_EVALUATE_H
#include "trainer/session/session.h"

typedef struct EvalResult {
    int64_t images; /* = the dataset's, always */
    /* of them could not be decoded: they count as wrong and are not in the loss */
    int64_t bad;
    double loss, top1, top5; /* mean over decoded images; fractions of all images */
} EvalResult;

/* Collective: all ranks get the same result or the same error. Sums are exact (counts) or double
 * (loss), reduced once at the end. */
Status evaluate(Session *s, EvalResult *out);
/* The same, and how often images of a class (row) were taken for another (column): confusion
 * [classes * classes], zero before; whole numbers on all ranks. Images that could not be decoded
 * are in no row. */
Status evaluate_confusion(Session *s, EvalResult *out, double *confusion);
#endif
