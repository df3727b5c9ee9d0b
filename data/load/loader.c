/* loader.c - readers and decode threads between a dataset and the batch ring.
 *
 * Which sample goes where is arithmetic on the batch number (data.h, THE STREAM), so a ticket is
 * all that a thread needs: it finds the sample, makes of it what belongs in the slot, straight
 * there (sample_maker.h), and reports done. Nothing depends on which thread does it or when. Where
 * sources are files, reader threads (readers.h) have read the ticket's sample by then; sources in
 * memory are read by the decode thread itself.
 *
 * Bad samples. Training: replaced by sample Philox(REPLACE, attempt, id) mod N with the
 * replacement's label and draws, the same on every rank and for any number of threads; too many end
 * the run. Evaluation: the image stays zero with label -1 and is counted in Batch.bad. Each is
 * reported once in the life of the dataset. A failing file system (ERR_IO of a source) ends the run
 * in both.
 *
 * A thread that fails hands its status and sentence to the ring, where loader_next finds them.
 * Counters belong to one thread each and are added up when somebody asks. */
#include "data/load/loader.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "base/trace.h"
#include "data/load/bad_list.h"
#include "data/load/balance.h"
#include "data/load/dataset_internal.h"
#include "data/load/readers.h"
#include "data/load/ring.h"
#include "data/load/sample_maker.h"
#include "data/load/sampler.h"
#include "data/source/source_fairseq.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define REPLACE_TRIES    100
#define MAX_NAME_BYTES   768
#define READ_AHEAD_BYTES ((size_t)64 << 20)

typedef struct Job { /* one decode thread */
    Loader *loader;
    int index;
    SampleTask task; /* what it is making */
    pthread_t thread;
    bool started;
    int lane;              /* of the trace */
    LatencyCounter decode; /* one count per image that could be decoded */
    _Atomic int64_t images, bytes, hits, replaced;
} Job;

struct Loader {
    const Dataset *dataset;
    const Source *source;
    const SampleMaker *maker;
    BatchLayout layout;
    LoaderOptions o;
    bool training; /* by the dataset's role */
    Ring *ring;
    Readers *readers; /* NULL: the source is in memory */
    BadList *bad;
    Balance *balance; /* NULL: samples are shuffled */
    Job *jobs;
    int64_t micros;       /* micro-batches of a step on this rank */
    int64_t first, end;   /* evaluation: positions of this rank */
    int64_t batches;      /* of the ring; INT64_MAX = endless */
    int64_t epoch_images; /* N */
};

typedef struct Place { /* what a ticket asks for */
    int64_t id;        /* -1: padding */
    uint32_t epoch, repeat;
} Place;

/* Training with repeats: a global batch is the same samples many times, one whole set behind the
 * other, so that a rank's share holds as few of them twice as it can. An epoch sees as many images
 * as without, 1/repeats of the samples: the first ones of its permutation. */
static Place find_repeated(const Loader *l, int64_t step, int64_t in_step)
{
    int64_t distinct = l->o.global_batch / l->o.repeats, of_epoch = l->epoch_images / l->o.repeats;
    int64_t at = step * distinct + l->o.shift / l->o.repeats + in_step % distinct;
    int64_t epoch = at / of_epoch;
    return (Place){ .id = sampler_id(l->o.seed, l->epoch_images,
                                     epoch * l->epoch_images + at % of_epoch),
                    .epoch = (uint32_t)epoch,
                    .repeat = (uint32_t)(in_step / distinct) };
}

/* Training: where in the stream the step begins. */
static int64_t first_of_step(const Loader *l, int64_t step)
{
    return step * l->o.global_batch + l->o.shift;
}

/* Training: index of the micro-batch's first image in its global batch. */
static int64_t first_in_step(const Loader *l, int64_t micro)
{
    return l->o.rank * (l->o.global_batch / l->o.world) + micro * l->o.batch;
}

static Place find_place(const Loader *l, const RingTicket *t)
{
    int64_t in_batch = t->index;
    if (!l->training) {
        int64_t position = l->first + t->batch * l->o.batch + in_batch;
        return (Place){ .id = position < l->end ? position : -1 };
    }
    int64_t step = l->o.first_step + t->batch / l->micros, micro = t->batch % l->micros;
    int64_t in_step = first_in_step(l, micro) + in_batch,
            position = first_of_step(l, step) + in_step;
    if (l->o.repeats > 1) return find_repeated(l, step, in_step);
    /* a sample comes more than once in an epoch, so its draws go by the position instead */
    if (l->balance)
        return (Place){ .id = balance_id(l->balance, l->o.seed, position),
                        .epoch = (uint32_t)position };
    return (Place){ .id = sampler_id(l->o.seed, l->epoch_images, position),
                    .epoch = (uint32_t)(position / l->epoch_images) };
}

/* The sample that a read asks for (readers.h): reads are numbered as tickets are. */
static int64_t sample_at(void *cookie, int64_t number)
{
    const Loader *l = cookie;
    RingTicket ticket = { .batch = number / l->o.batch, .index = number % l->o.batch };
    return find_place(l, &ticket).id;
}

/* To a counter of the calling thread's own. */
static void add_count(_Atomic int64_t *counter, int64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* sample: NULL where this thread has to read it. */
static Status make_sample(Job *job, int64_t id, const Place *place, const Sample *sample)
{
    const Loader *l = job->loader;
    Sample own;
    double start_s = clock_s();
    if (!sample) {
        bool hit = false;
        TRY(dataset_read(l->dataset, id, l->o.view.image_size, worker_bytes(job->task.worker), &own,
                         &hit));
        add_count(&job->bytes, hit ? 0 : (int64_t)source_sample_bytes(&own));
        add_count(&job->hits, hit);
        sample = &own;
    }
    job->task.sample = sample;
    job->task.draw = (AugmentDraw){
        .seed = l->o.seed, .epoch = place->epoch, .sample = id, .repeat = place->repeat
    };
    TRY(l->maker->make(&job->task));
    double end_s = clock_s();
    latency_counter_add(&job->decode, end_s - start_s);
    trace_add(l->o.trace, job->lane, "decode", id, start_s, end_s);
    add_count(&job->images, 1);
    return OK;
}

/* Makes the sample that a ticket asks for from what the readers have read for it. *running is false
 * where the loader is being destroyed. */
static Status make_asked(Job *job, const RingTicket *t, const Place *place, bool *running)
{
    const Loader *l = job->loader;
    if (!l->readers) return make_sample(job, place->id, place, NULL);
    int64_t number = t->batch * l->o.batch + t->index;
    Sample sample;
    Status status;
    *running = readers_take(l->readers, job->index, number, &sample, &status);
    if (!*running) return OK;
    double start_s = clock_s();
    if (status == OK && place->id >= 0) status = make_sample(job, place->id, place, &sample);
    readers_release(l->readers, number, clock_s() - start_s);
    return status;
}

/* Notes the bad sample whose reason is this thread's sentence, and says once what becomes of it.
 * replacement -1: counted as wrong. */
static Status report_bad(Loader *l, int64_t id, int64_t replacement)
{
    char reason[1024], name[MAX_NAME_BYTES];
    snprintf(reason, sizeof reason, "%s", status_message());
    bool first = false;
    Status status = bad_list_add(l->bad, id, &first);
    first = first && dataset_first_report(l->dataset, id);
    if (first && replacement >= 0) {
        dataset_describe_sample(l->dataset, replacement, name, sizeof name);
        log_warning_here("%s; replaced by %s", reason, name);
    } else if (first) {
        log_warning_here("%s; counted as wrong", reason);
    }
    return status == OK ? OK : fail_note(status, "%s", l->dataset->path);
}

/* bad: the sample that it stands for, place id's own or one that replaced it. */
static int64_t replacement_of(const Loader *l, int64_t id, uint32_t attempt, int64_t bad)
{
    Rng rng = rng_at(l->o.seed, RNG_REPLACE, attempt, (uint32_t)id);
    const int64_t next = (int64_t)rng_below(&rng, (uint64_t)l->epoch_images);
    return next != bad ? next : (bad + 1) % l->epoch_images;
}

/* Training: the sample that could not be shown (status) gives way to others. *shown is the sample
 * that stands in its place. */
static Status replace(Job *job, const Place *place, Status status, int64_t *shown)
{
    Loader *l = job->loader;
    for (uint32_t attempt = 0; attempt < REPLACE_TRIES; attempt++) {
        if (status != ERR_DATA) return status;
        int64_t next = replacement_of(l, place->id, attempt, *shown);
        TRY(report_bad(l, *shown, next));
        *shown = next;
        status = make_sample(job, next, place, NULL);
    }
    if (status != ERR_DATA) return status;
    return fail(ERR_DATA, "%s: no readable sample in %d tries", l->dataset->path, REPLACE_TRIES);
}

/* Evaluation: an image that cannot be decoded counts as wrong. */
static Status count_as_wrong(Loader *l, const Place *place, Status status, int64_t *shown)
{
    if (status != ERR_DATA) return status;
    *shown = -1;
    return report_bad(l, place->id, -1);
}

static Status fill_ticket(Job *job, const RingTicket *t, bool *running)
{
    Loader *l = job->loader;
    Place place = find_place(l, t);
    int64_t shown = place.id;
    Status status = OK;
    job->task.block = t->slot->block;
    job->task.index = t->index;
    if (place.id >= 0 || l->readers) status = make_asked(job, t, &place, running);
    if (!*running) return OK;
    if (place.id >= 0 && l->training) TRY(replace(job, &place, status, &shown));
    else if (place.id >= 0) TRY(count_as_wrong(l, &place, status, &shown));
    if (shown < 0) {
        job->task.sample = NULL;
        TRY(l->maker->make(&job->task));
    }
    t->slot->sample_ids[t->index] = place.id;
    bool bad = place.id >= 0 && shown != place.id;
    if (bad && shown >= 0) add_count(&job->replaced, 1);
    ring_done(l->ring, t, shown >= 0, bad);
    return OK;
}

static void *run_job(void *arg)
{
    Job *job = arg;
    Loader *l = job->loader;
    RingTicket ticket;
    bool running = true;
    while (running && ring_take_ticket(l->ring, &ticket)) {
        Status status = fill_ticket(job, &ticket, &running);
        if (status == OK) continue;
        /* Inside data/, ERR_IO tells a failing file system from a bad file; outside, what cannot be
         * read is ERR_DATA. */
        ring_fail(l->ring, status == ERR_IO ? ERR_DATA : status, status_message());
        break;
    }
    return NULL;
}

static void plan_training(Loader *l)
{
    const LoaderOptions *o = &l->o;
    l->micros = o->global_batch / (o->batch * o->world);
    l->batches = INT64_MAX;
    if (o->last_step >= 0)
        l->batches = o->last_step > o->first_step ? (o->last_step - o->first_step) * l->micros : 0;
}

static void plan_evaluation(Loader *l)
{
    int64_t n = l->epoch_images, world = l->o.world, largest = (n + world - 1) / world;
    l->first = n * l->o.rank / world;
    l->end = n * (l->o.rank + 1) / world;
    l->batches = (largest + l->o.batch - 1) / l->o.batch;
}

static void check_options(const Loader *l)
{
    const LoaderOptions *o = &l->o;
    ASSERT(o->threads >= 1 && o->slots >= 3 && o->batch >= 1 && o->rank >= 0 && o->rank < o->world);
    ASSERT(o->tokens > 0 || (o->view.image_size >= 1 && o->view.eval_resize >= 0 &&
                             (o->view.channels == 1 || o->view.channels == 3)));
    if (!l->training) return;
    ASSERT(o->global_batch % (o->batch * o->world) == 0 && o->global_batch > 0 &&
           o->global_batch <= l->epoch_images && o->first_step >= 0 &&
           (o->repeats <= 1 || (o->order == ORDER_SHUFFLE && o->global_batch % o->repeats == 0)));
}

/* Options and samples are of one kind. Commands that know better words say it before. */
static Status check_kind(const Loader *l)
{
    const LoaderOptions *o = &l->o;
    const FairseqSource *text = source_fairseq_of(l->source);
    const char *path = l->dataset->path;
    ASSERT((l->source->labels != NULL) == (o->classes > 0) &&
           l->source->label_bytes <= index_label_bytes(o->classes));
    if (!text && o->tokens == 0) return OK;
    if (!text || o->tokens == 0)
        return fail(ERR_USAGE, "%s: these are %s, but the network requires %s", path,
                    text ? "sequences of tokens" : "images",
                    text ? "images" : "sequences of tokens");
    const bool classified = text->labels, masked = o->masked > 0;
    if (classified == masked)
        return fail(ERR_USAGE, "%s: the sequences have %s, but the network requires %s", path,
                    classified ? "classes" : "no classes",
                    classified ? "words to be masked" : "classes");
    if (!classified && o->order == ORDER_BALANCED)
        return fail(ERR_USAGE, "%s: data.order balanced requires classes", path);
    ASSERT(o->tokens >= text->o.tokens);
    return OK;
}

static Status start_readers(Loader *l)
{
    const LoaderOptions *o = &l->o;
    ReadersOptions readers = {
        .dataset = l->dataset,
        .threads = o->readers,
        .ahead_bytes = o->read_ahead_bytes > 0 ? o->read_ahead_bytes : READ_AHEAD_BYTES,
        .decoders = o->threads,
        .reads = l->batches < INT64_MAX / o->batch ? l->batches * o->batch : INT64_MAX,
        .sample_at = sample_at,
        .trace = o->trace,
        .cookie = l
    };
    return l->source->kind->in_memory ? OK : readers_create(&l->readers, &readers);
}

static Status start_threads(Loader *l)
{
    l->jobs = mem_calloc((size_t)l->o.threads, sizeof *l->jobs);
    if (!l->jobs) return ERR_MEMORY;
    for (int i = 0; i < l->o.threads; i++) {
        Job *job = &l->jobs[i];
        char name[24];
        snprintf(name, sizeof name, "decode-%d", i);
        job->loader = l;
        job->index = i;
        job->lane = trace_lane(l->o.trace, name, false);
        job->task = (SampleTask){
            .o = &l->o, .source = l->source, .layout = &l->layout, .training = l->training
        };
        TRY(worker_create(&job->task.worker, dataset_seeks(l->dataset)));
        TRY(thread_start(&job->thread, name, run_job, job));
        job->started = true;
    }
    return OK;
}

static Status build_loader(Loader *l)
{
    const LoaderOptions *o = &l->o;
    l->source = dataset_source(l->dataset);
    l->layout = loader_layout(o);
    l->epoch_images = dataset_images(l->dataset);
    l->training = l->dataset->role == DATA_TRAIN;
    check_options(l);
    TRY(check_kind(l));
    if (l->training && o->order == ORDER_BALANCED) TRY(balance_create(&l->balance, l->dataset));
    if (l->training) plan_training(l);
    else plan_evaluation(l);
    TRY(bad_list_create(&l->bad, l->epoch_images, l->training ? o->max_bad_fraction : -1));
    RingOptions ring = { .slots = o->slots,
                         .batch = o->batch,
                         .block_bytes = l->layout.bytes,
                         .batches = l->batches,
                         .allocator = o->allocator };
    TRY(ring_create(&l->ring, &ring));
    TRY(start_readers(l));
    return start_threads(l);
}

static const SampleMaker *maker_of(const LoaderOptions *o)
{
    return o->tokens > 0 ? &sample_tokens : &sample_images;
}

BatchLayout loader_layout(const LoaderOptions *o)
{
    return maker_of(o)->layout(o);
}

Status loader_create(Loader **out, const Dataset *d, const LoaderOptions *o)
{
    *out = NULL;
    Loader *l = mem_calloc(1, sizeof *l);
    if (!l) return ERR_MEMORY;
    l->dataset = d;
    l->maker = maker_of(o);
    l->o = *o;
    Status status = build_loader(l);
    if (status == OK) *out = l;
    else loader_destroy(l);
    return status;
}

void loader_destroy(Loader *l)
{
    if (!l) return;
    if (l->ring) ring_stop(l->ring);
    readers_stop(l->readers);
    for (int i = 0; l->jobs && i < l->o.threads; i++) {
        if (l->jobs[i].started) pthread_join(l->jobs[i].thread, NULL);
        worker_destroy(l->jobs[i].task.worker);
    }
    readers_destroy(l->readers);
    mem_free(l->jobs);
    ring_destroy(l->ring);
    bad_list_destroy(l->bad);
    balance_destroy(l->balance);
    mem_free(l);
}

Status loader_next(Loader *l, Batch *batch, bool *more, double *wait_s)
{
    int slot = 0;
    TRY(ring_next(l->ring, &slot, more, wait_s));
    if (!*more) return OK;
    const RingSlot *s = ring_slot(l->ring, slot);
    *batch = (Batch){ .layout = &l->layout,
                      .block = s->block,
                      .sample_ids = s->sample_ids,
                      .count = s->count,
                      .bad = s->bad,
                      .step = l->training ? l->o.first_step + s->number / l->micros : s->number,
                      .micro = l->training ? s->number % l->micros : 0,
                      .slot = slot };
    l->maker->finish(&l->o, batch, first_in_step(l, batch->micro),
                     l->training ? first_of_step(l, batch->step) / l->epoch_images : -1);
    return OK;
}

void loader_release(Loader *l, const Batch *batch)
{
    ring_release(l->ring, batch->slot);
}

const void *loader_field(const Batch *batch, const char *name)
{
    return batch_layout_at(batch->layout, batch->block, name);
}

int loader_ready_batches(Loader *l)
{
    return ring_ready_slots(l->ring);
}

/* ---- counters ---- */

static void add_readers(Loader *l, LoaderStats *s)
{
    ReadersStats r;
    if (!l->readers) return;
    readers_stats(l->readers, &r);
    s->bytes_read += r.bytes;
    s->cache_hits += r.hits;
    s->starved_s = r.starved_s;
    s->read = r.reads;
    s->readers = r.threads;
    s->storage_limit = r.saturated;
}

void loader_stats(Loader *l, LoaderStats *out)
{
    RingStats ring;
    *out = (LoaderStats){ .decode_threads = l->o.threads, .bad = bad_list_count(l->bad) };
    ring_stats(l->ring, &ring);
    out->batches = ring.taken;
    out->batches_waited = ring.waited;
    out->ready_batches = ring.ready;
    out->wait_s = ring.wait_s;
    for (int i = 0; i < l->o.threads; i++) {
        const Job *job = &l->jobs[i];
        latency_counter_read(&job->decode, &out->decode);
        out->images += atomic_load_explicit(&job->images, memory_order_relaxed);
        out->bytes_read += atomic_load_explicit(&job->bytes, memory_order_relaxed);
        out->cache_hits += atomic_load_explicit(&job->hits, memory_order_relaxed);
        out->replaced += atomic_load_explicit(&job->replaced, memory_order_relaxed);
    }
    add_readers(l, out);
}

void loader_stats_subtract(LoaderStats *s, const LoaderStats *earlier)
{
    s->images -= earlier->images;
    s->bytes_read -= earlier->bytes_read;
    s->bad -= earlier->bad;
    s->replaced -= earlier->replaced;
    s->cache_hits -= earlier->cache_hits;
    s->batches -= earlier->batches;
    s->batches_waited -= earlier->batches_waited;
    s->ready_batches -= earlier->ready_batches;
    s->wait_s -= earlier->wait_s;
    s->starved_s -= earlier->starved_s;
    latency_counts_subtract(&s->decode, &earlier->decode);
    latency_counts_subtract(&s->read, &earlier->read);
}
