/* readers.h - threads that read samples ahead of the threads that decode them.
 *
 * The loader's tickets are numbered along the stream. Readers take the numbers in that order, read
 * the samples and keep them until a decode thread has used them up. How far they are ahead is
 * bounded by bytes (one block of memory, out of which samples are served; see byte_ring.h) and by
 * READERS_MAX_AHEAD samples. So a slow open or read costs decode threads nothing as long as enough
 * of them are under way at once; how many that is, is measured (reader_count.h).
 *
 * A read writes into its reader's own buffer and is copied to the block once its size is known (1 %
 * of what decoding costs; no source has to tell sizes beforehand). Memory that the source lends (a
 * cache, a mapped file) is passed on without a copy and counts nothing. A sample for which the
 * block has no room is passed on in the reader's buffer, so the sample that decode threads need
 * next can always come, however small the block. */
#ifndef CONVOY_DATA_LOAD_READERS_H
#define CONVOY_DATA_LOAD_READERS_H
#include "data/load/dataset_internal.h"
#include "data/load/latency.h"

#define READERS_MAX_AHEAD 4096 /* samples; what makes small files stop before the byte limit */

typedef struct ReadersOptions {
    const Dataset *dataset;
    /* 0: as many as it takes, starting with what the dataset's last loader found out */
    int threads;
    size_t ahead_bytes; /* > 0 */
    int decoders;       /* decode threads, numbered from 0 */
    int64_t reads;      /* in all; INT64_MAX = endless */
    /* The sample that read number asks for; -1: none (padding). Called by any reader. */
    int64_t (*sample_at)(void *cookie, int64_t number);
    void *cookie;
    struct Trace *trace; /* NULL: none */
} ReadersOptions;

typedef struct ReadersStats { /* since creation */
    int threads;
    bool saturated;      /* decode threads wait, and more readers brought nothing */
    int64_t bytes, hits; /* bytes read; samples that a cache had */
    double starved_s;    /* decode threads' time without bytes, summed */
    LatencyCounts reads;
} ReadersStats;

typedef struct Readers Readers;
Status readers_create(Readers **out, const ReadersOptions *o); /* starts the first threads */
/* wakes everybody: takes end. NULL ok */
void readers_stop(Readers *r);
void readers_destroy(Readers *r); /* NULL ok; stopped, and no decode thread is in it any more */

/* Waits for read number. false: stopped. *status is that of Source.read with its sentence as this
 * thread's; *sample is borrowed until readers_release(), which is owed whatever the status. Numbers
 * are asked for by at most one thread each and nearly in order. */
bool readers_take(Readers *r, int decoder, int64_t number, Sample *sample, Status *status);
/* decode_s: how long the caller worked on it. */
void readers_release(Readers *r, int64_t number, double decode_s);
void readers_stats(Readers *r, ReadersStats *out);
#endif
