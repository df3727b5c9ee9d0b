/* scaling.h - epoch time against the number of ranks, from runs that differ in nothing else.
 *
 * DEFINITIONS. T(n): mean time of an epoch's training at n ranks. Values are whole epochs behind
 * the first one of a process (that one is told apart, as cold), scaled to the images of an epoch
 * since epochs end on whole steps; or, for points of convoy scale that count steps, the mean step
 * behind the warm-up times the steps of an epoch. Where three runs or more have the same n, each
 * run's mean is a value, else each epoch is one. Interval: 95 %, Student's t, from three values on.
 * With n0 the smallest n measured: speed-up T(n0) / T(n), efficiency n0 T(n0) / (n T(n)) with
 * Fieller's interval, ideal line T(n0) n0 / n. */
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
