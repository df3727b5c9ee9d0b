/* collect.h - the runs that a report is about, from the folders that the user named. */
#ifndef CONVOY_TRAINER_APP_REPORT_COLLECT_H
#define CONVOY_TRAINER_APP_REPORT_COLLECT_H
#include "trainer/app/report/report_run.h"

#define PREDICTION_POINTS_MAX 16
#define PREDICTIONS_MAX       8

typedef struct Prediction { /* of one fabric, by convoy scale --predict */
    char fabric[64];
    int count;
    int64_t ranks[PREDICTION_POINTS_MAX];
    double epoch_s[PREDICTION_POINTS_MAX], efficiency[PREDICTION_POINTS_MAX];
} Prediction;

typedef struct RunSet {
    ReportRun *runs; /* owned, count of them */
    int count;       /* ... by their number of ranks, where that differs */
    bool ranks_differ;
    bool scale;         /* a folder of convoy scale is among the inputs */
    int64_t points_due; /* of such folders: points that are not finished */
    Prediction *predictions;
    int prediction_count;
    StrBuf notes; /* sentences, one a line: what could not be read */
} RunSet;

/* ERR_DATA naming the first input that is neither a run nor a folder of convoy scale. */
Status collect_runs(RunSet *out, const char *const *inputs, int count);
void collect_free(RunSet *s);
#endif
