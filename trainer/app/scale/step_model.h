/* step_model.h - a model of the time of a training step on many ranks.
 *
 * A step computes for a time that does not depend on the number of ranks: forward, then backward,
 * which finishes gradients one after the other. When the last gradient of a bucket is there, the
 * bucket is summed by a ring all-reduce, one at a time, while backward goes on. The step ends when
 * both are done. What it leaves out: computation that the sums slow down, sums in switches, and the
 * input; and unless they are given (StepTerms) what of a step does not depend on its images, and
 * ranks that wait for the slowest.
 *
 * When a gradient is there is told by the operations' FLOPs, forward and backward together taking
 * the whole time. */
#ifndef CONVOY_TRAINER_APP_SCALE_STEP_MODEL_H
#define CONVOY_TRAINER_APP_SCALE_STEP_MODEL_H
#include "trainer/app/scale/fabric.h"
#include "trainer/engine/config/config.h"
#include <stdbool.h>

typedef struct Gradient {
    double elements;
    double ready; /* share of the computation behind which it is there */
} Gradient;

/* What a prediction adds when it is told; all 0: nothing. */
typedef struct StepTerms {
    double operation_s; /* of each operation of the step, whatever its images: launch, gap, ramp */
    double fixed_s;     /* of a step besides, such as the optimizer's */
    double spread;      /* standard deviation of the ranks' times over their mean */
    bool no_overlap;    /* all is summed at once, when backward has ended */
} StepTerms;

typedef struct StepModel {
    Gradient *gradients; /* owned; in the order of backward */
    int count;
    /* elements of running statistics, summed behind the last bucket */
    double statistics;
    double bucket_mb, first_bucket_mb; /* MiB of fp32 gradients, as comm.* */
    int64_t tokens;                    /* of a sample of text; 0: samples are images */
    /* batch norms, forward and backward, that sum over norm_ranks; 0 where none does (model.bn) */
    int norms;
    int64_t norm_ranks; /* 0: all */
    int operations;     /* of the step, without the optimizer's; 0: not known */
    StepTerms terms;
} StepModel;

/* The network, images and buckets of a config. ERR_USAGE. */
Status step_model_create(StepModel *out, const Config *c);
/* The same of another network, by its name. ERR_USAGE where there is none of that name. */
Status step_model_create_like(StepModel *out, const Config *c, const char *network);
void step_model_destroy(StepModel *m);

/* A bucket as training makes them (reducer_caps()); zeroed before the first. */
typedef struct StepBucket {
    double elements, ready;
    int gradients; /* in it and all before it */
} StepBucket;
/* Goes on to the next one; false where there is none. */
bool step_model_next_bucket(const StepModel *m, StepBucket *b);

/* Seconds of a step of images images where one of rate_images does images_per_s: what does not
 * depend on images, and the rest in proportion to them. NaN where the former is all of that step or
 * more. */
double step_model_compute_s(const StepModel *m, double images, double images_per_s,
                            double rate_images);

typedef struct StepTime {
    double step_s, compute_s, allreduce_s; /* allreduce_s: of all all-reduces, hidden or not */
    int buckets;
    double efficiency; /* compute_s / step_s */
} StepTime;
/* compute_s: of the mean rank by itself; the step is that of the slowest of ranks, whose times are
 * normal. element_bytes: of a gradient where it is summed, 4 or 2. */
StepTime step_model_predict(const StepModel *m, const Fabric *f, double compute_s, int64_t ranks,
                            double element_bytes);
#endif
