/* evaluate.h - evaluation that counts every image exactly once on any number of ranks. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_EVALUATE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_EVALUATE_H
#include "trainer/engine/events/records.h"
#include "trainer/engine/session/session.h"

typedef struct EvalResult {
    int64_t images; /* = the dataset's, always */
    /* of them could not be decoded: they count as wrong and are not in the loss */
    int64_t bad;
    double loss, top1, top5; /* mean over decoded images; fractions of all images */
    /* of images with any number of labels, which have no top1 and top5: mean of the average
     * precisions of map_classes classes (ranking.h); one that could not be decoded comes last */
    double map;
    int64_t map_classes;
    /* of networks that read text; loss, top1 and top5 are of the masked words, where they learn to
     * fill those in */
    int64_t tokens, masked;
} EvalResult;

/* Collective: all ranks get the same result or the same error. Sums are exact (counts) or double
 * (loss), reduced once at the end. */
Status evaluate(Session *s, EvalResult *out);
/* What an eval record tells of a result, of its weights alone; its place is the caller's. */
EvalRecord evaluate_record(const Session *s, const EvalResult *r);
void evaluate_add_ema(EvalRecord *e, const EvalResult *r); /* of averaged weights */
/* Of images with any number of labels, with the average precisions: ap [s->classes], on all ranks,
 * NaN of a class that no image has. */
Status evaluate_classes(Session *s, EvalResult *out, double *ap);
/* What the network says of one image. */
typedef struct EvalImage {
    double predicted;  /* its class; -1: it could not be decoded, or a logit is not finite */
    double confidence; /* the probability of that class */
    double given;      /* the probability of the image's own class */
} EvalImage;
/* The same, and what it says of each image: images [dataset_images(s->val)], on all ranks. */
Status evaluate_images(Session *s, EvalResult *out, EvalImage *images);
#endif
