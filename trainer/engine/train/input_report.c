/* input_report.c - see input_report.h.
 *
 * WHAT WOULD HELP. Without waiting, a rank would have used images at the rate of the time that it
 * did not wait. Each of them costs decode seconds; rate times cost is the number of decode threads
 * that keep up, and a tenth more covers their scatter. Where decode threads themselves lacked bytes
 * for a fifth of their time, the same with reading and readers. */
#include "trainer/engine/train/input_report.h"
#include "base/log.h"
#include <math.h>
#include <stdio.h>

#define DECODE_MARGIN 1.1
#define READ_MARGIN   1.25
#define STARVED_SHARE 0.2 /* of the decode threads' time */
#define LEAST_BUSY    0.01

static int missing(double rate, double cost_s, double margin, int have)
{
    double want = ceil(rate * cost_s * margin);
    return want > have ? (int)want - have : 0;
}

void input_report_make(InputReport *out, const LoaderStats *s, double seconds)
{
    int64_t reads = latency_counts_total(&s->read);
    *out = (InputReport){ .decode_p50_ms = 1e3 * latency_counts_percentile(&s->decode, 0.5),
                          .decode_p99_ms = 1e3 * latency_counts_percentile(&s->decode, 0.99),
                          .read_p50_ms = 1e3 * latency_counts_percentile(&s->read, 0.5),
                          .read_p99_ms = 1e3 * latency_counts_percentile(&s->read, 0.99),
                          .reads = reads > 0 ? reads : s->images,
                          .cache_hits = s->cache_hits,
                          .replaced = s->replaced,
                          .decode_threads = s->decode_threads,
                          .readers = s->readers };
    if (seconds <= 0 || s->batches == 0 || s->images == 0) return;
    out->ready_batches = (double)s->ready_batches / (double)s->batches;
    out->read_mb_per_s = 1e-6 * (double)s->bytes_read / seconds;
    const double wait_share = s->wait_s < seconds ? s->wait_s / seconds : 1;
    out->data_wait_percent = 100 * wait_share;
    if (out->data_wait_percent <= INPUT_LIMITS_PERCENT) return;
    double busy_s = seconds * (1 - wait_share);
    if (busy_s < LEAST_BUSY * seconds) busy_s = LEAST_BUSY * seconds;
    double rate = (double)s->images / busy_s;
    bool starved = s->starved_s > STARVED_SHARE * s->decode_threads * seconds;
    out->storage_limit = starved && s->storage_limit;
    if (starved && reads > 0)
        out->more_readers = missing(rate, s->read.seconds / (double)reads, READ_MARGIN, s->readers);
    out->more_decode_threads =
        missing(rate, s->decode.seconds / (double)s->images, DECODE_MARGIN, s->decode_threads);
}

void input_report_merge(InputReport *r, Comm *comm)
{
    double sums[] = { r->read_mb_per_s, (double)r->reads, (double)r->cache_hits,
                      (double)r->replaced };
    double most[] = { r->data_wait_percent,    -r->ready_batches,      r->decode_p50_ms,
                      r->decode_p99_ms,        r->read_p50_ms,         r->read_p99_ms,
                      (double)r->readers,      r->more_decode_threads, r->more_readers,
                      (double)r->storage_limit };
    comm_allreduce(comm, sums, sizeof sums / sizeof *sums, COMM_F64, COMM_SUM, "input sums");
    comm_allreduce(comm, most, sizeof most / sizeof *most, COMM_F64, COMM_MAX, "input maxima");
    *r = (InputReport){ .read_mb_per_s = sums[0],
                        .reads = (int64_t)sums[1],
                        .cache_hits = (int64_t)sums[2],
                        .replaced = (int64_t)sums[3],
                        .data_wait_percent = most[0],
                        .ready_batches = -most[1],
                        .decode_p50_ms = most[2],
                        .decode_p99_ms = most[3],
                        .read_p50_ms = most[4],
                        .read_p99_ms = most[5],
                        .readers = (int)most[6],
                        .more_decode_threads = (int)most[7],
                        .more_readers = (int)most[8],
                        .storage_limit = most[9] > 0,
                        .decode_threads = r->decode_threads };
}

void input_report_describe(const InputReport *r, char *out, size_t bytes)
{
    int n = snprintf(
        out, bytes,
        "data wait %.1f %%, %.1f batches ready, decode %.2f/%.2f ms (p50/p99) on %lld threads",
        r->data_wait_percent, r->ready_batches, r->decode_p50_ms, r->decode_p99_ms,
        (long long)r->decode_threads);
    if (r->readers > 0 && n > 0 && (size_t)n < bytes)
        n +=
            snprintf(out + n, bytes - (size_t)n, ", read %.2f/%.2f ms with %lld readers, %.1f MB/s",
                     r->read_p50_ms, r->read_p99_ms, (long long)r->readers, r->read_mb_per_s);
    if (r->cache_hits > 0 && n > 0 && (size_t)n < bytes)
        n += snprintf(out + n, bytes - (size_t)n, ", %.1f %% from the cache",
                      100 * (double)r->cache_hits / (double)(r->reads > 0 ? r->reads : 1));
    if (r->replaced > 0 && n > 0 && (size_t)n < bytes)
        snprintf(out + n, bytes - (size_t)n, ", %lld replaced", (long long)r->replaced);
}

bool input_report_warn(const InputReport *r, int allowed_cpus)
{
    char advice[256] = "only the slowest images hold it up; larger batches would even this out";
    if (r->data_wait_percent <= INPUT_LIMITS_PERCENT) return false;
    if (r->more_readers > 0 && r->storage_limit) {
        snprintf(advice, sizeof advice,
                 "the storage delivers at most %.1f MB/s, however many readers there are",
                 r->read_mb_per_s);
    } else if (r->more_readers > 0) {
        snprintf(advice, sizeof advice, "%d more readers would be enough (data.readers: %lld)",
                 r->more_readers, (long long)r->readers + r->more_readers);
    } else if (r->more_decode_threads > 0) {
        const int want = (int)r->decode_threads + r->more_decode_threads;
        snprintf(advice, sizeof advice,
                 "%d more decode threads would be enough (data.threads: %d%s)",
                 r->more_decode_threads, want,
                 want > allowed_cpus ? "; a rank may not use that many CPUs" : "");
    }
    log_warning("the input limits training, which waits %.0f %% of the time: %s",
                r->data_wait_percent, advice);
    return true;
}
