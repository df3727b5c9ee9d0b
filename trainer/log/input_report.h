/* input_report.h - what the input did while training went on: how often and why the step waited for
 * it, and what would help. */
#ifndef CONVOY_TRAINER_LOG_INPUT_REPORT_H
#define CONVOY_TRAINER_LOG_INPUT_REPORT_H
#include "data/data.h"
#include "trainer/comm/comm.h"
#include "trainer/log/records.h"

typedef struct InputReport { /* of all ranks: sums, or the rank that fared worst */
    double wait_share;       /* of the time: the step waited for a batch */
    double ready;            /* batches that were ready when one was asked for, mean */
    /* per image; read 0 where sources are in memory */
    double decode_p50_s, decode_p99_s, read_p50_s, read_p99_s;
    double read_bytes_per_s;               /* from storage */
    int64_t reads, cache_hits, replaced;   /* reads: for batches of later, too */
    int decode_threads, readers;           /* of a rank */
    int more_decode_threads, more_readers; /* of a rank, that would have kept up; 0: none */
    bool storage_limit;                    /* the storage gives no more, whatever reads */
} InputReport;

#define INPUT_LIMITS_SHARE 0.05 /* a wait_share above this deserves a warning */

/* From one rank's counters of a stretch of so many seconds. */
void input_report_make(InputReport *out, const LoaderStats *s, double seconds);
void input_report_merge(InputReport *r, Comm *comm); /* collective */
/* Into the record of an epoch. */
void input_report_record(const InputReport *r, EpochRecord *out);
/* "waited 0.3 % of the time, 1.9 batches ready, ...". */
void input_report_describe(const InputReport *r, char *out, size_t bytes);
/* Warns on rank 0 if the input limits training, with what would help. allowed_cpus: what this rank
 * may use. True if it warned. */
bool input_report_warn(const InputReport *r, int allowed_cpus);
#endif
