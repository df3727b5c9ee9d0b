/* statistics.h - means with their uncertainty, for reports of repeated measurements.
 *
 * Intervals are two-sided, 95 %, by Student's t, so they hold for few values; below
 * STATISTICS_MIN_VALUES there is none. What cannot be said is NaN. Pure functions. */
#ifndef CONVOY_TRAINER_APP_REPORT_STATISTICS_H
#define CONVOY_TRAINER_APP_REPORT_STATISTICS_H
#include <stdint.h>

#define STATISTICS_MIN_VALUES 3

typedef struct StatisticsSample {
    int64_t count;
    double mean, deviation; /* of a single value, with count - 1; NaN below two values */
    /* the interval is mean +- half; NaN below STATISTICS_MIN_VALUES values */
    double half;
} StatisticsSample;
StatisticsSample statistics_sample(const double *values, int64_t count);

/* The 97.5 % quantile of Student's t with this many degrees of freedom, a fraction allowed; NaN
 * below 1. */
double statistics_t(double degrees);

typedef struct Ratio {
    double value, low, high; /* low and high NaN where there is no bounded interval */
} Ratio;
/* factor * a / b for independent samples, with Fieller's interval and Welch's degrees of
 * freedom. */
Ratio statistics_ratio(const StatisticsSample *a, const StatisticsSample *b, double factor);

typedef struct Line {
    double constant, slope; /* y = constant + slope x; NaN for fewer than two different x */
} Line;
Line statistics_line(const double *x, const double *y, int count);

/* The middle value, or the mean of the middle two; values that are not finite do not count. Sorts
 * values. NaN for none.
 */
double statistics_median(double *values, int64_t count);
#endif
