/* loader.c - decode threads between a dataset and the batch ring.
 *
 * Which sample goes where is arithmetic on the batch number (data.h, THE STREAM), so a ticket is all that a thread
 * needs: it finds the sample, makes its view straight into the slot and reports done. Nothing depends on which thread
 * does it or when.
 *
 * Bad samples. Training: replaced by sample Philox(REPLACE, attempt, id) mod N with the replacement's label and draws,
 * the same on every rank and for any number of threads; too many end the run. Evaluation: the image stays zero with
 * label -1 and is counted in Batch.bad. Each is reported once in the life of the dataset. A failing file system (ERR_IO
 * of a source) ends the run in both.
 *
 * A thread that fails hands its status and sentence to the ring, where loader_next finds them. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/bad_list.h"
#include "data/dataset.h"
#include "data/pipeline.h"
#include "data/ring.h"
#include <stdio.h>
#include <string.h>

#define REPLACE_TRIES  100
#define MAX_NAME_BYTES 768

typedef struct Job { /* one thread */
    Loader *loader;
    Worker *worker;
    pthread_t thread;
    bool started;
} Job;

struct Loader {
    const Dataset *dataset;
    const Source *source;
    LoaderOptions o;
    ViewOptions view;
    Ring *ring;
    BadList *bad;
    Job *jobs;
    int64_t micros;       /* micro-batches of a step on this rank */
    int64_t first, end;   /* evaluation: positions of this rank */
    int64_t batches;      /* of the ring; INT64_MAX = endless */
    int64_t epoch_images; /* N */
    size_t image_bytes;
    pthread_mutex_t stats_lock;
    bool has_stats_lock;
    LoaderStats stats;
};

typedef struct Place { /* what a ticket asks for */
    int64_t id;        /* -1: padding */
    uint32_t epoch;
} Place;

static Place find_place(const Loader *l, const RingTicket *t)
{
    int64_t in_batch = t->index;
    if (!l->view.training) {
        int64_t position = l->first + t->batch * l->o.batch + in_batch;
        return (Place){ .id = position < l->end ? position : -1 };
    }
    int64_t step = l->o.first_step + t->batch / l->micros, micro = t->batch % l->micros;
    int64_t share = l->o.global_batch / l->o.world;
    int64_t position = step * l->o.global_batch + l->o.rank * share + micro * l->o.batch + in_batch;
    return (Place){ .id = sampler_id(l->o.seed, l->epoch_images, position),
                    .epoch = (uint32_t)(position / l->epoch_images) };
}

static Status make_view(Loader *l, Worker *w, int64_t id, uint32_t epoch, uint8_t *out)
{
    AugmentDraw draw = { .seed = l->o.seed, .epoch = epoch, .sample = id };
    size_t bytes_read = 0;
    double start_s = clock_s();
    Status status = worker_make_view(w, l->source, id, &l->view, &draw, out, &bytes_read);
    double seconds = clock_s() - start_s;
    pthread_mutex_lock(&l->stats_lock);
    l->stats.decode_s += seconds;
    l->stats.bytes_read += (int64_t)bytes_read;
    l->stats.images += status == OK;
    pthread_mutex_unlock(&l->stats_lock);
    return status;
}

/* Notes the bad sample whose reason is this thread's sentence, and says once what becomes of it. replacement -1:
 * counted as wrong. */
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
    return status == OK ? OK : fail_note(status, "%s", dataset_path(l->dataset));
}

static int64_t replacement_of(const Loader *l, int64_t id, uint32_t attempt)
{
    Rng rng = rng_at(l->o.seed, RNG_REPLACE, attempt, (uint32_t)id);
    return (int64_t)rng_below(&rng, (uint64_t)l->epoch_images);
}

/* Training: the sample or what replaces it. *shown is the sample whose pixels and label are used. */
static Status fill_training(Loader *l, Worker *w, const Place *place, uint8_t *out, int64_t *shown)
{
    *shown = place->id;
    for (uint32_t attempt = 0; attempt < REPLACE_TRIES; attempt++) {
        Status status = make_view(l, w, *shown, place->epoch, out);
        if (status != ERR_DATA) return status;
        int64_t next = replacement_of(l, place->id, attempt);
        TRY(report_bad(l, *shown, next));
        *shown = next;
    }
    return fail(ERR_DATA, "%s: found no good sample in %d tries", dataset_path(l->dataset), REPLACE_TRIES);
}

static Status fill_evaluation(Loader *l, Worker *w, const Place *place, uint8_t *out, int64_t *shown)
{
    Status status = make_view(l, w, place->id, 0, out);
    *shown = place->id;
    if (status != ERR_DATA) return status;
    memset(out, 0, l->image_bytes);
    *shown = -1;
    return report_bad(l, place->id, -1);
}

static Status fill_ticket(Loader *l, Worker *w, const RingTicket *t)
{
    Place place = find_place(l, t);
    uint8_t *out = t->slot->images + (size_t)t->index * l->image_bytes;
    int64_t shown = -1;
    if (place.id < 0) memset(out, 0, l->image_bytes);
    else if (l->view.training) TRY(fill_training(l, w, &place, out, &shown));
    else TRY(fill_evaluation(l, w, &place, out, &shown));
    t->slot->labels[t->index] = shown < 0 ? -1 : dataset_label(l->dataset, shown);
    t->slot->sample_ids[t->index] = place.id;
    bool bad = place.id >= 0 && shown != place.id;
    if (bad && shown >= 0) {
        pthread_mutex_lock(&l->stats_lock);
        l->stats.replaced++;
        pthread_mutex_unlock(&l->stats_lock);
    }
    ring_done(l->ring, t, shown >= 0, bad);
    return OK;
}

static void *run_job(void *arg)
{
    Job *job = arg;
    Loader *l = job->loader;
    RingTicket ticket;
    while (ring_take_ticket(l->ring, &ticket)) {
        Status status = fill_ticket(l, job->worker, &ticket);
        if (status == OK) continue;
        /* Inside data/, ERR_IO tells a failing file system from a bad file; outside, what cannot be read is ERR_DATA.
         * */
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
    if (o->last_step >= 0) l->batches = o->last_step > o->first_step ? (o->last_step - o->first_step) * l->micros : 0;
}

static void plan_evaluation(Loader *l)
{
    int64_t n = l->epoch_images, world = l->o.world, largest = (n + world - 1) / world;
    l->first = n * l->o.rank / world;
    l->end = n * (l->o.rank + 1) / world;
    l->batches = (largest + l->o.batch - 1) / l->o.batch;
}

static Status check_options(const Loader *l)
{
    const LoaderOptions *o = &l->o;
    ASSERT(o->threads >= 1 && o->slots >= 3 && o->batch >= 1 && o->rank >= 0 && o->rank < o->world);
    ASSERT(o->image_size >= 1 && o->eval_resize >= 0 && (o->channels == 1 || o->channels == 3));
    if (!l->view.training) return OK;
    ASSERT(o->global_batch % (o->batch * o->world) == 0 && o->global_batch > 0 && o->first_step >= 0);
    if (o->global_batch > l->epoch_images)
        return fail(ERR_USAGE, "global batch of %lld images is larger than the dataset (%lld images in %s)",
                    (long long)o->global_batch, (long long)l->epoch_images, dataset_path(l->dataset));
    return OK;
}

static Status start_threads(Loader *l)
{
    if (pthread_mutex_init(&l->stats_lock, NULL)) return fail(ERR_INTERNAL, "cannot make a mutex");
    l->has_stats_lock = true;
    l->jobs = mem_calloc((size_t)l->o.threads, sizeof *l->jobs);
    if (!l->jobs) return ERR_MEMORY;
    for (int i = 0; i < l->o.threads; i++) {
        Job *job = &l->jobs[i];
        char name[24];
        snprintf(name, sizeof name, "decode-%d", i);
        job->loader = l;
        TRY(worker_create(&job->worker));
        TRY(thread_start(&job->thread, name, run_job, job));
        job->started = true;
    }
    return OK;
}

static Status build(Loader *l)
{
    const LoaderOptions *o = &l->o;
    l->source = dataset_source(l->dataset);
    l->epoch_images = dataset_images(l->dataset);
    l->view = (ViewOptions){ .image_size = o->image_size,
                             .eval_resize = o->eval_resize,
                             .channels = o->channels,
                             .augment = o->augment,
                             .training = dataset_role(l->dataset) == DATA_TRAIN };
    l->image_bytes = (size_t)o->image_size * (size_t)o->image_size * (size_t)o->channels;
    TRY(check_options(l));
    if (l->view.training) plan_training(l);
    else plan_evaluation(l);
    TRY(bad_list_create(&l->bad, l->epoch_images, l->view.training ? o->max_bad_fraction : -1));
    RingOptions ring = { .slots = o->slots,
                         .batch = o->batch,
                         .image_bytes = l->image_bytes,
                         .batches = l->batches,
                         .allocator = o->allocator };
    TRY(ring_create(&l->ring, &ring));
    return start_threads(l);
}

Status loader_create(Loader **out, const Dataset *d, const LoaderOptions *o)
{
    *out = NULL;
    Loader *l = mem_calloc(1, sizeof *l);
    if (!l) return ERR_MEMORY;
    l->dataset = d;
    l->o = *o;
    Status status = build(l);
    if (status != OK) {
        loader_destroy(l);
        return status;
    }
    *out = l;
    return OK;
}

void loader_destroy(Loader *l)
{
    if (!l) return;
    if (l->ring) ring_stop(l->ring);
    for (int i = 0; l->jobs && i < l->o.threads; i++) {
        if (l->jobs[i].started) pthread_join(l->jobs[i].thread, NULL);
        worker_destroy(l->jobs[i].worker);
    }
    mem_free(l->jobs);
    ring_destroy(l->ring);
    bad_list_destroy(l->bad);
    if (l->has_stats_lock) pthread_mutex_destroy(&l->stats_lock);
    mem_free(l);
}

Status loader_next(Loader *l, Batch *batch, bool *more, double *wait_s)
{
    int slot = 0;
    TRY(ring_next(l->ring, &slot, more, wait_s));
    if (!*more) return OK;
    const RingSlot *s = ring_slot(l->ring, slot);
    *batch = (Batch){ .images = s->images,
                      .labels = s->labels,
                      .sample_ids = s->sample_ids,
                      .count = s->count,
                      .bad = s->bad,
                      .step = l->view.training ? l->o.first_step + s->number / l->micros : s->number,
                      .micro = l->view.training ? s->number % l->micros : 0,
                      .slot = slot };
    return OK;
}

void loader_release(Loader *l, const Batch *batch)
{
    ring_release(l->ring, batch->slot);
}

int64_t loader_batches(const Loader *l)
{
    return l->batches;
}

void loader_stats(Loader *l, LoaderStats *out)
{
    pthread_mutex_lock(&l->stats_lock);
    *out = l->stats;
    pthread_mutex_unlock(&l->stats_lock);
    out->bad = bad_list_count(l->bad);
    out->ready_slots = ring_ready_slots(l->ring);
}
