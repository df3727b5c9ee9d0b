/* histogram.h - how long things take, for percentiles, without keeping each time.
 *
 * Buckets grow by an eighth of an octave (9 %) from one microsecond up, so a percentile is right to
 * a few percent and two snapshots can be subtracted. TimeCounter has one writer and may be read by
 * anyone meanwhile; TimeCounts is plain data. */
#ifndef CONVOY_DATA_HISTOGRAM_H
#define CONVOY_DATA_HISTOGRAM_H
#include <stdint.h>

#define TIME_BUCKETS 256 /* the last one: over an hour */

typedef struct TimeCounts {
    int64_t counts[TIME_BUCKETS];
    double seconds; /* of all */
} TimeCounts;

typedef struct TimeCounter { /* zero-initialise */
    _Atomic int64_t counts[TIME_BUCKETS];
    _Atomic double seconds;
} TimeCounter;

void time_counter_add(TimeCounter *c, double seconds);         /* by its one writer */
void time_counter_read(const TimeCounter *c, TimeCounts *sum); /* adds what c has */
void time_counts_add(TimeCounts *c, double seconds);
void time_counts_subtract(TimeCounts *c, const TimeCounts *earlier);
int64_t time_counts_total(const TimeCounts *c);
/* Seconds that a share (0 .. 1) of all does not exceed; 0 if there are none. */
double time_counts_percentile(const TimeCounts *c, double share);
#endif
