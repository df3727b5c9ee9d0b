/* loader.h - a range of the training stream (data.h), or one pass of evaluation, as batches: decode
 * threads work ahead on step N+1 while the caller trains step N. */
#ifndef CONVOY_DATA_LOAD_LOADER_H
#define CONVOY_DATA_LOAD_LOADER_H
#include "data/augment/mix.h"
#include "data/batch_layout.h"
#include "data/load/dataset.h"
#include "data/load/latency.h"

typedef struct LoaderOptions {
    ViewOptions view; /* of images */
    /* Of sequences of tokens: the longest one, 0 of images; how many masked tokens a batch has
     * places for (batch * mask_most()), 0: labels are classes; whether a sequence has segments. */
    int64_t tokens, masked;
    bool segments;
    /* of the network, if samples have several labels each; 0: one label each */
    int64_t classes;
    /* training: how often a sample comes in a global batch; 0 and 1 are once */
    int repeats;
    MixOptions mix;    /* training */
    SampleOrder order; /* training; repeats are of shuffled samples */
    uint64_t seed;
    int threads;             /* decode threads, >= 1 */
    int readers;             /* threads that read ahead of them; 0: as many as it takes */
    size_t read_ahead_bytes; /* how far; 0 = 64 MiB */
    int slots;               /* batches in flight, >= 3 */
    int64_t batch;           /* images per slot (micro-batch of this rank) */
    int rank, world;
    /* training: G; batch * world * k for a whole k, a multiple of repeats, at most the dataset */
    int64_t global_batch;
    int64_t first_step; /* training: global step to start at (resume) */
    /* training: step s begins at image s * G + this of the stream: steps before were larger */
    int64_t shift;
    int64_t last_step;       /* training: stop after this many global steps in all; -1 = endless */
    double max_bad_fraction; /* training: more bad samples than max(10, this * N) is ERR_DATA */
    SlotAllocator allocator; /* zero: plain memory */
    /* where decode and read threads tell what they do; NULL: nowhere; borrowed */
    struct Trace *trace;
} LoaderOptions;

/* Of batches by these options. images: uint8_t [batch, image_size, image_size, channels]; labels:
 * int32_t [batch], -1 = padding, or bad in evaluation; where the options want them, targets: rows
 * of bits [batch, (classes + 7) / 8] (then labels are 0, or -1), erase: EraseBox [batch], what is
 * erased once normalised; mix: MixValues.
 *
 * Of sequences all are int32_t, and T = batch * tokens places. The sequences lie one behind the
 * other without padding; places behind the last are nobody's. ids [T], -1: nobody's; where [T, 2],
 * sequence in the batch (-1: nobody's) and position in it; starts [batch + 1], first place of each
 * sequence, the last one's end; order [T], places sorted by id, those of one id in increasing order
 * and nobody's last; segments [T], 0 or 1; labels: the classes [batch] as above, or of masked
 * tokens rows [masked], their places in increasing order, -1 behind the last, and labels [masked],
 * the words to be found, -1 behind the last. */
BatchLayout loader_layout(const LoaderOptions *o);

typedef struct Batch {
    /* both borrowed until loader_release */
    const BatchLayout *layout;
    void *block;
    /* [batch]; the sample asked for (not its replacement); -1 = padding */
    const int64_t *sample_ids;
    int64_t count; /* images that are not padding and could be decoded */
    /* evaluation: images that could not be decoded (label -1 here): they count as wrong; training:
     * samples replaced */
    int64_t bad;
    /* global step and micro-batch within it; evaluation: batch number, 0 */
    int64_t step, micro;
    int64_t tokens, masked; /* of sequences: in all of them, with <s> and </s>; masked of these */
    int slot;
} Batch;

typedef struct Loader Loader;
Status loader_create(Loader **out, const Dataset *d,
                     const LoaderOptions *o); /* borrows d until destroyed; starts the threads */
void loader_destroy(Loader *l);               /* stops threads wherever they are; NULL ok */
FREED_BY_POINTER(Loader, loader_destroy)
/* Waits for the next batch in order. *more is false at the end of evaluation or after last_step.
 * wait_s: time spent waiting (added to). */
Status loader_next(Loader *l, Batch *batch, bool *more, double *wait_s);
void loader_release(Loader *l, const Batch *batch);             /* the slot may be refilled */
const void *loader_field(const Batch *batch, const char *name); /* NULL: it has no such field */

/* Counters since creation, for logs and bench. Two of them, taken at different times, may be
 * subtracted. */
typedef struct LoaderStats {
    int64_t images, bytes_read, bad, replaced;
    int64_t cache_hits;              /* reads that the cache answered */
    int64_t batches, batches_waited; /* handed out; of these, not ready when asked for */
    /* that were ready when one was asked for, summed over batches */
    int64_t ready_batches;
    double wait_s;    /* the caller's, for batches */
    double starved_s; /* decode threads' time without bytes to decode, summed */
    /* per image; decode includes reading where sources are in memory */
    LatencyCounts decode, read;
    int decode_threads, readers; /* now */
    /* decode threads lack bytes, and more readers brought nothing; now */
    bool storage_limit;
} LoaderStats;
void loader_stats(Loader *l, LoaderStats *out);
void loader_stats_subtract(LoaderStats *s, const LoaderStats *earlier);
int loader_ready_batches(Loader *l); /* cheap: for polling */
#endif
