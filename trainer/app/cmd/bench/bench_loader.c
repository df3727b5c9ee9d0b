/* bench_loader.c - the speed of the training input alone, and the checksums of its batches.
 *
 * Three inputs, after DS-Analyzer (Mohan et al. 2021); the files of the measured steps are read
 * cold first and are in the page cache thereafter.
 *
 * CHECKSUMS. One CRC-32C per global step: over the CRC-32Cs of its images, in the order of the
 * stream, each over pixels and label. So it does not depend on how ranks, micro-batches and threads
 * share the step. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/session/session_open.h"

typedef enum Input { INPUT_COLD, INPUT_CACHED, INPUT_SYNTHETIC, INPUT_NOW, INPUT_COUNT } Input;

const char *const bench_inputs[] = { [INPUT_COLD] = "cold",
                                     [INPUT_CACHED] = "cached",
                                     [INPUT_SYNTHETIC] = "synthetic",
                                     [INPUT_NOW] = "now",
                                     [INPUT_COUNT] = NULL };

typedef struct Rates { /* of one input, over all ranks */
    double images_per_s;
    LoaderStats stats; /* of this rank; .read counts the reads before, too: readers are far ahead */
    double seconds;
} Rates;

/* ---- measuring ---- */

static Status take_batches(Loader *loader, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        Batch batch;
        bool more = true;
        TRY(loader_next(loader, &batch, &more, NULL));
        ASSERT(more);
        loader_release(loader, &batch);
    }
    return OK;
}

static LoaderOptions loader_options(const Session *s, const BenchOptions *o)
{
    LoaderOptions options = session_loader_options(s, DATA_TRAIN);
    options.first_step = o->first;
    options.last_step = -1;
    return options;
}

/* Until o->steps batches of images were made meanwhile: of those taken some lay ready before. */
static Status run_loader(Session *s, const Dataset *data, const BenchOptions *o, Rates *r)
{
    Loader *loader FREED_BY(loader_destroy_at) = NULL;
    LoaderOptions options = loader_options(s, o);
    LoaderStats before;
    TRY(loader_create(&loader, data, &options));
    TRY(take_batches(loader, o->warmup));
    double start_s = clock_s();
    loader_stats(loader, &before);
    do {
        TRY(take_batches(loader, 1));
        loader_stats(loader, &r->stats);
    } while (r->stats.images - before.images < o->steps * s->plan.batch);
    r->seconds = clock_s() - start_s;
    before.read = (LatencyCounts){ 0 };
    loader_stats_subtract(&r->stats, &before);
    return OK;
}

static Status measure_loader(Session *s, const Dataset *data, const BenchOptions *o, Rates *r)
{
    comm_barrier(s->comm, "bench");
    TRY(comm_agree(s->comm, run_loader(s, data, o, r)));
    double slowest = r->seconds, images = (double)r->stats.images;
    comm_allreduce(s->comm, &slowest, 1, COMM_F64, COMM_MAX, "bench");
    comm_allreduce(s->comm, &images, 1, COMM_F64, COMM_SUM, "bench");
    r->images_per_s = images / slowest;
    return OK;
}

/* ---- the page cache ---- */

/* Has the page cache forget this rank's samples of the steps to come, readers' lead included.
 * *forgotten: it did. */
static void forget_samples(const Session *s, const BenchOptions *o, bool *forgotten)
{
    const int64_t images = dataset_images(s->train), global = s->plan.global_batch,
                  share = global / s->comm->world;
    int64_t steps = o->warmup + o->steps + (images + global - 1) / global;
    *forgotten = true;
    for (int64_t i = 0; i < steps * share && i < images; i++) {
        int64_t position = (o->first + i / share) * global + s->comm->rank * share + i % share;
        *forgotten = dataset_forget(
                         s->train, sampler_id((uint64_t)s->config->train.seed, images, position)) &&
                     *forgotten;
    }
}

static bool all_forgotten(const Session *s, const BenchOptions *o)
{
    bool forgotten = false;
    forget_samples(s, o, &forgotten);
    int64_t all = forgotten;
    comm_allreduce(s->comm, &all, 1, COMM_I64, COMM_MIN, "bench");
    return all != 0;
}

/* ---- printing ---- */

/* Mean number of tokens in that number of sequences. */
static double tokens_of(const Session *s, double sequences)
{
    SequenceFacts facts;
    return sequences_facts(s->train, &facts)
               ? sequences * (double)facts.tokens / (double)facts.sequences
               : 0;
}

static void print_rates(const Session *s, Input input, const Rates *r)
{
    const Units *u = units_of(s->config);
    const LoaderStats *t = &r->stats;
    const char *name = bench_inputs[input];
    log_info("%s_%s_per_s %.1f", name, u->many, r->images_per_s);
    if (s->words) log_info("%s_tokens_per_s %.0f", name, tokens_of(s, r->images_per_s));
    log_info("%s_decode_ms_p50 %.3f", name, 1e3 * latency_counts_percentile(&t->decode, 0.5));
    log_info("%s_decode_ms_p99 %.3f", name, 1e3 * latency_counts_percentile(&t->decode, 0.99));
    if (t->readers > 0) {
        log_info("%s_read_ms_p50 %.3f", name, 1e3 * latency_counts_percentile(&t->read, 0.5));
        log_info("%s_read_ms_p99 %.3f", name, 1e3 * latency_counts_percentile(&t->read, 0.99));
        log_info("%s_megabytes_per_s %.2f", name, 1e-6 * (double)t->bytes_read / r->seconds);
        log_info("%s_starved_percent %.2f", name,
                 100 * t->starved_s / (r->seconds * t->decode_threads));
        log_info("%s_cache_hits %lld", name, (long long)t->cache_hits);
        log_info("%s_readers %d", name, t->readers);
    }
}

/* The lines that do not say which input they are of: of the files as training finds them. */
static void print_main(const Session *s, const BenchOptions *o, const Rates *r)
{
    const LoaderStats *t = &r->stats;
    const Units *u = units_of(s->config);
    log_info("%s %lld", u->many, (long long)(o->steps * s->plan.batch * s->comm->world));
    log_info("decode_threads %d", t->decode_threads);
    log_info("readers %d", t->readers);
    log_info("%s_per_s %.1f", u->many, r->images_per_s);
    if (s->words) log_info("tokens_per_s %.0f", tokens_of(s, r->images_per_s));
    log_info("decode_ms_per_%s %.3f", u->one,
             t->images > 0 ? t->decode.seconds * 1e3 / (double)t->images : 0);
    log_info("megabytes_read %.2f", (double)t->bytes_read * 1e-6);
}

/* ---- inputs ---- */

static Status bench_cold(Session *s, const BenchOptions *o)
{
    Rates r;
    if (dataset_in_memory(s->train)) return OK;
    if (!all_forgotten(s, o)) {
        log_info("cold: not measured: the page cache does not drop these files");
        return OK;
    }
    TRY(measure_loader(s, s->train, o, &r));
    print_rates(s, INPUT_COLD, &r);
    return OK;
}

static Status bench_synthetic(Session *s, const BenchOptions *o)
{
    Rates r;
    Dataset *data FREED_BY(dataset_close_at) = NULL;
    DatasetOptions options = { .format = DATA_SYNTHETIC,
                               .role = DATA_TRAIN,
                               .labels = (LabelKind)s->config->data.labels,
                               .synthetic_images = dataset_images(s->train),
                               .synthetic_classes = dataset_classes(s->train),
                               .text = config_token_options(s->config) };
    if (s->words) options.text.words = (int)s->words;
    if (config_is_masked(s->config)) options.synthetic_classes = 0;
    TRY(comm_agree(s->comm, dataset_open(&data, &options)));
    TRY(measure_loader(s, data, o, &r));
    print_rates(s, INPUT_SYNTHETIC, &r);
    return OK;
}

static Status bench_cached(Session *s, Input input, const BenchOptions *o)
{
    Rates r;
    /* The first time brings in what is not there yet. */
    if (input == INPUT_CACHED && !dataset_in_memory(s->train))
        TRY(measure_loader(s, s->train, o, &r));
    TRY(measure_loader(s, s->train, o, &r));
    print_rates(s, input, &r);
    print_main(s, o, &r);
    return OK;
}

static Status bench_input(Session *s, Input input, const BenchOptions *o)
{
    switch (input) {
    case INPUT_COLD:
        return bench_cold(s, o);
    case INPUT_SYNTHETIC:
        return bench_synthetic(s, o);
    case INPUT_CACHED:
    case INPUT_NOW:
    case INPUT_COUNT:
        break;
    }
    return bench_cached(s, input, o);
}

/* ---- checksums ---- */

/* Of image i of a batch with its label or row of bits, or of the tokens of sequence i with its
 * labels. */
static uint32_t checksum_sample(const Batch *b, int64_t i, size_t image_bytes, size_t row_bytes)
{
    const uint8_t *images = loader_field(b, "images"), *targets = loader_field(b, "targets");
    const int32_t *labels = loader_field(b, "labels"), *ids = loader_field(b, "ids"),
                  *starts = loader_field(b, "starts"), *rows = loader_field(b, "rows");
    uint32_t crc = images ? crc32c_update(0, images + (size_t)i * image_bytes, image_bytes)
                          : crc32c_update(0, ids + starts[i],
                                          (size_t)(starts[i + 1] - starts[i]) * sizeof *ids);
    for (int64_t m = 0; rows && m < b->masked; m++)
        if (rows[m] >= starts[i] && rows[m] < starts[i + 1])
            crc = crc32c_update(crc, &labels[m], sizeof labels[m]);
    if (targets) crc = crc32c_update(crc, targets + (size_t)i * row_bytes, row_bytes);
    return rows ? crc : crc32c_update(crc, &labels[i], sizeof labels[i]);
}

/* The CRCs of this rank's images of one step, in order. */
static Status checksum_step(const Session *s, Loader *loader, uint32_t *crcs)
{
    const int64_t size = progressive_image_size(s->config, s->stage);
    const size_t image_bytes = (size_t)(size * size * s->config->model.in_channels);
    for (int64_t micro = 0; micro < s->plan.accumulate; micro++) {
        Batch batch;
        bool more = true;
        TRY(loader_next(loader, &batch, &more, NULL));
        ASSERT(more && batch.micro == micro);
        for (int64_t i = 0; i < s->plan.batch; i++)
            *crcs++ = checksum_sample(&batch, i, image_bytes, ((size_t)s->classes + 7) / 8);
        loader_release(loader, &batch);
    }
    return OK;
}

static Status checksum_steps(Session *s, const BenchOptions *o, Loader *loader, uint32_t *crcs)
{
    const size_t share = (size_t)(s->plan.batch * s->plan.accumulate),
                 own = share * (size_t)s->comm->rank;
    for (int64_t step = o->first; step < o->first + o->steps; step++) {
        TRY(comm_agree(s->comm, checksum_step(s, loader, crcs + own)));
        comm_allgather(s->comm, crcs, share * sizeof *crcs, "checksums");
        uint32_t all = crc32c_update(0, crcs, share * (size_t)s->comm->world * sizeof *crcs);
        log_info("step %lld crc %08x %s %lld", (long long)step, all, units_of(s->config)->many,
                 (long long)s->plan.global_batch);
    }
    return OK;
}

static Status bench_checksums(Session *s, const BenchOptions *o)
{
    Loader *loader FREED_BY(loader_destroy_at) = NULL;
    LoaderOptions options = loader_options(s, o);
    uint32_t *crcs FREED = mem_calloc((size_t)s->plan.global_batch, sizeof *crcs);
    TRY(comm_agree(s->comm, crcs ? loader_create(&loader, s->train, &options) : ERR_MEMORY));
    return checksum_steps(s, o, loader, crcs);
}

/* ---- the command ---- */

Status bench_loader(Comm *comm, const Config *c, const BenchOptions *o)
{
    Config local = bench_config(c);
    Session s FREED_BY(session_close) = { 0 };
    TRY(session_open_data(&s, &local, comm));
    if (o->crc) return bench_checksums(&s, o);
    if (o->one_input) return bench_input(&s, (Input)o->input, o);
    TRY(bench_input(&s, INPUT_COLD, o));
    TRY(bench_input(&s, INPUT_CACHED, o));
    return bench_input(&s, INPUT_SYNTHETIC, o);
}
