/* predict.h - convoy scale --predict: the model of step time for fabrics, on any numbers of ranks,
 * beside what was measured. */
#ifndef CONVOY_TRAINER_APP_SCALE_PREDICT_H
#define CONVOY_TRAINER_APP_SCALE_PREDICT_H
#include "trainer/app/scale/series.h"
#include "trainer/app/scale/step_model.h"

enum { RANK_LIST_MAX = 64 };
typedef struct RankList {
    int64_t at[RANK_LIST_MAX];
    int count;
} RankList;
/* Of "12,24,160", in that order; NULL: 1, 2, 4 to 256. ERR_USAGE naming --ranks. */
Status predict_ranks(RankList *out, const char *text);
typedef struct PredictOptions {
    const char *fabrics; /* files, with commas between */
    /* of one rank by itself, computing only; 0: as the finished points with one rank did */
    double images_per_s;
    double rate_images; /* of a step at that rate; 0: train.batch_per_rank */
    RankList ranks;
    StepTerms terms;
} PredictOptions;
/* --rate IMAGES_PER_S[@BATCH]; NULL leaves both 0. ERR_USAGE. */
Status predict_rate(PredictOptions *out, const char *text);
/* Prints a table for each fabric, and keeps it as predictions.jsonl in the folder of the series for
 * convoy report. ERR_DATA without a rate, ERR_USAGE where a step at that rate is shorter than the
 * terms that it consists of. */
Status predict_print(const Series *s, const PredictOptions *o);
/* Bytes of a gradient where training would sum it: 2 where a GPU computes in 16 bits and the ranks
 * are few, or where asked for; else 4. */
double predict_element_bytes(const Config *c, bool on_cpu, int64_t ranks);
#endif
