/* reader_count.h - how many threads have to read at once for the decode threads never to wait for
 * bytes.
 *
 * A read takes its time, whoever waits for it; times the images that are decoded per second that is
 * the number of reads that must be under way (Little's law), and a quarter more covers their
 * scatter. The number only grows, and only while decode threads have waited for bytes. It stops
 * growing where twice as many readers brought nothing, or a few more did twice: then the storage,
 * not its latency, is the limit. Arithmetic only; readers.c measures and obeys. */
#ifndef CONVOY_DATA_LOAD_READER_COUNT_H
#define CONVOY_DATA_LOAD_READER_COUNT_H
#include <stdbool.h>

#define READERS_MAX   256
#define READERS_FIRST 2 /* where nothing is known yet */
/* least time between two measures, and four reads' time at least */
#define READER_COUNT_PERIOD_S   0.1
#define READER_COUNT_PATIENCE_S 20.0 /* until more are tried again where more brought nothing */

typedef struct ReaderMeasure { /* of one period */
    double now_s, seconds;
    double reads, read_s; /* reads that ended, and their time summed */
    double images, decode_s;
    double starved_s; /* decode threads' time without bytes, summed over them */
    int decoders;
} ReaderMeasure;

typedef struct ReaderCount { /* start with .count alone */
    int count;
    double rate;    /* reads/s before the last growth; 0: no growth to judge */
    int before;     /* count then */
    int failures;   /* growths in a row that brought nothing */
    double retry_s; /* no growth before this time */
    bool saturated; /* the storage gives no more */
} ReaderCount;

/* Takes a measure; true if count has grown. */
bool reader_count_update(ReaderCount *c, const ReaderMeasure *m);
#endif
