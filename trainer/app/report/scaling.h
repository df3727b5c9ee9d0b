/* scaling.h - epoch time against the number of ranks, from runs that differ in nothing else. The
 * terms and intervals are defined in docs/watching.md; for points of convoy scale that count steps,
 * a value is the mean step after the warm-up times the steps of an epoch. */
#ifndef CONVOY_TRAINER_APP_REPORT_SCALING_H
#define CONVOY_TRAINER_APP_REPORT_SCALING_H
#include "trainer/app/report/report_run.h"
#include "trainer/app/report/statistics.h"

#define SCALING_ROWS_MAX 64

typedef struct ScalingRow {
    int64_t ranks, hosts, global_batch, compute_threads;
    int runs;
    bool oversubscribed;
    bool by_run;              /* a value is a run; else an epoch */
    StatisticsSample epoch_s; /* T(n) */
    double cold_s;            /* mean of first epochs; NaN: none was complete */
    double images_per_s;      /* over all ranks */
    double tokens_per_s;      /* NaN where they read images */
    double speedup;
    Ratio efficiency;        /* the interval of the base itself is NaN */
    double joules_per_image; /* of steps, those that do not count too; NaN: not measured */
    double epoch_cost;       /* T(n) on its hosts, and those joules, by cost.*; NaN: no price */
    double data_share, comm_share, loss; /* shares of the step time; loss: mean of the last steps */
} ScalingRow;

typedef struct Scaling {
    ScalingRow rows[SCALING_ROWS_MAX]; /* ascending in ranks */
    int count;
    int64_t images; /* of an epoch */
    const Units *units;
    Line fit;        /* T = constant + slope / n, of the rows that are not oversubscribed */
    int fitted;      /* how many those are */
    int most_fitted; /* the row with the most ranks of them */
    bool from_steps; /* times are of counted steps, not of epochs */
    bool same_rank_batch, same_global_batch;
    StrBuf notes; /* sentences, one a line: what was left out, and what to keep in mind */
} Scaling;

double scaling_speed(const ScalingRow *r); /* images/s or tokens/s */
/* Groups the runs that can be compared. Fewer than two different numbers of ranks: count below
 * 2. */
Status scaling_make(Scaling *out, const ReportRun *runs, int count);
void scaling_free(Scaling *s);
#endif
