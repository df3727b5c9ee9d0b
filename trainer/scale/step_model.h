/* step_model.h - a model of the time of a training step on many ranks.
 *
 * A step computes for a time that does not depend on the number of ranks: forward, then backward,
 * which finishes gradients one after the other. When the last gradient of a bucket is there, the
 * bucket is summed by a ring all-reduce, one at a time, while backward goes on. The step ends when
 * both are done. What it leaves out: the optimizer's share behind the last sum, ranks that wait for
 * the slowest, computation that the sums slow down, trees and in-network sums (which NCCL may
 * prefer for small buckets), and the input.
 *
 * When a gradient is there is told by the operations' FLOPs, forward and backward together taking
 * the whole time. Of networks that are not ours only the numbers of parameters are known: there a
 * third of the time is forward, all layers take the same, and their gradients come one layer at a
 * time, from the last to the first; then those of the embedding. */
#ifndef CONVOY_TRAINER_SCALE_STEP_MODEL_H
#define CONVOY_TRAINER_SCALE_STEP_MODEL_H
#include "trainer/config/config.h"
#include "trainer/scale/fabric.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct Gradient {
    double elements;
    double ready; /* share of the computation behind which it is there */
} Gradient;

typedef struct StepModel {
    Gradient *gradients; /* owned; in the order of backward */
    int count;
    /* elements of running statistics, summed behind the last bucket */
    double statistics;
    double bucket_mb, first_bucket_mb; /* MiB of fp32 gradients, as comm.* */
    int64_t tokens;                    /* of a sample of text; 0: samples are images */
} StepModel;

/* The network, images and buckets of a config. ERR_USAGE. */
Status step_model_create(StepModel *out, const Config *c);
/* The same of another network: one of ours by its name, or roberta-base, roberta-large. ERR_USAGE
 * where there is none of that name. */
Status step_model_create_like(StepModel *out, const Config *c, const char *network);
void step_model_destroy(StepModel *m);

/* A bucket as training makes them (reducer_caps()); zeroed before the first. */
typedef struct StepBucket {
    double elements, ready;
    int gradients; /* in it and all before it */
} StepBucket;
/* Goes on to the next one; false where there is none. */
bool step_model_next_bucket(const StepModel *m, StepBucket *b);

typedef struct StepTime {
    double step_s, compute_s, allreduce_s; /* allreduce_s: of all all-reduces, hidden or not */
    int buckets;
    double efficiency; /* compute_s / step_s */
} StepTime;
/* element_bytes: of a gradient where it is summed, 4 or 2. */
StepTime step_model_predict(const StepModel *m, const Fabric *f, double compute_s, int64_t ranks,
                            double element_bytes);
#endif
