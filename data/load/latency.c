/* latency.c - see latency.h. */
#include "data/load/latency.h"
#include <math.h>
#include <stdatomic.h>

#define PER_OCTAVE 8
#define UNIT_S     1e-6

static int bucket_of(double seconds)
{
    double octaves = seconds > UNIT_S ? log2(seconds / UNIT_S) : 0;
    int bucket = (int)(octaves * PER_OCTAVE);
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

void latency_counter_add(LatencyCounter *c, double seconds)
{
    _Atomic int64_t *count = &c->counts[bucket_of(seconds)];
    double sum = atomic_load_explicit(&c->seconds, memory_order_relaxed);
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&c->seconds, sum + seconds, memory_order_relaxed);
}

void latency_counter_read(const LatencyCounter *c, LatencyCounts *sum)
{
    for (int i = 0; i < LATENCY_BUCKETS; i++)
        sum->counts[i] += atomic_load_explicit(&c->counts[i], memory_order_relaxed);
    sum->seconds += atomic_load_explicit(&c->seconds, memory_order_relaxed);
}

void latency_counts_add(LatencyCounts *c, double seconds)
{
    c->counts[bucket_of(seconds)]++;
    c->seconds += seconds;
}

void latency_counts_subtract(LatencyCounts *c, const LatencyCounts *earlier)
{
    for (int i = 0; i < LATENCY_BUCKETS; i++) c->counts[i] -= earlier->counts[i];
    c->seconds -= earlier->seconds;
}

int64_t latency_counts_total(const LatencyCounts *c)
{
    int64_t total = 0;
    for (int i = 0; i < LATENCY_BUCKETS; i++) total += c->counts[i];
    return total;
}

double latency_counts_percentile(const LatencyCounts *c, double share)
{
    int64_t total = latency_counts_total(c), below = 0;
    if (total == 0) return 0;
    int bucket = 0;
    for (; bucket < LATENCY_BUCKETS - 1; bucket++) {
        below += c->counts[bucket];
        if ((double)below >= share * (double)total) break;
    }
    return UNIT_S * exp2((bucket + 0.5) / PER_OCTAVE); /* the middle of the bucket */
}
