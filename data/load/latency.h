/* latency.h - how long things take, for percentiles, without keeping each time.
 *
 * Buckets grow by an eighth of an octave (9 %) from one microsecond up, so a percentile is right to
 * a few percent and two snapshots can be subtracted. LatencyCounter has one writer and may be read
 * by anyone meanwhile; LatencyCounts is plain data. */
#ifndef CONVOY_DATA_LOAD_LATENCY_H
#define CONVOY_DATA_LOAD_LATENCY_H
#include <stdint.h>

#define LATENCY_BUCKETS 256 /* the last one: over an hour */

typedef struct LatencyCounts {
    int64_t counts[LATENCY_BUCKETS];
    double seconds; /* of all */
} LatencyCounts;

typedef struct LatencyCounter { /* zero-initialise */
    _Atomic int64_t counts[LATENCY_BUCKETS];
    _Atomic double seconds;
} LatencyCounter;

void latency_counter_add(LatencyCounter *c, double seconds);            /* by its one writer */
void latency_counter_read(const LatencyCounter *c, LatencyCounts *sum); /* adds what c has */
void latency_counts_add(LatencyCounts *c, double seconds);
void latency_counts_subtract(LatencyCounts *c, const LatencyCounts *earlier);
int64_t latency_counts_total(const LatencyCounts *c);
/* Seconds that a share (0 .. 1) of all does not exceed; 0 if there are none. */
double latency_counts_percentile(const LatencyCounts *c, double share);
#endif
