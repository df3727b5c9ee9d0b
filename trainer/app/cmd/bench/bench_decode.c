/* bench_decode.c - decode: how fast one thread makes views of JPEG or PNG files that lie in memory,
 * and the views of a list, for comparisons with other programs.
 *
 * Files are read before anything is timed. A pass makes one view of each, with the crops of the
 * epoch of that number. Where seek indices are in use, those that do not come with the files are
 * made in the first warmup pass, as in training. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/augment/replay.h"
#include "data/decode/decoder.h"
#include "data/load/dataset_internal.h"
#include "data/load/worker.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/report/statistics.h"
#include "trainer/engine/session/augment_options.h"
#include "trainer/engine/session/session_open.h"
#include <string.h>

#define HELD_BYTES_MAX ((size_t)2 << 30)
#define SIZE_MAX_SHOWN 4096
#define REPLAY_STEP    8

typedef struct Held { /* samples in memory */
    Sample *samples;  /* [count]; their bytes are owned, but for sources that lend theirs */
    ByteBuf *bytes;   /* [count] */
    int64_t count;
    size_t total;
} Held;

static void held_free(Held *h)
{
    for (int64_t i = 0; h->bytes && i < h->count; i++) byte_buf_free(&h->bytes[i]);
    mem_free(h->bytes);
    mem_free(h->samples);
}

/* Reads at most images samples, spread over the data set. */
static Status hold(const Dataset *d, int64_t images, int image_size, Held *h)
{
    const Source *source = dataset_source(d);
    int64_t all = dataset_images(d);
    *h = (Held){ .count = images < all ? images : all };
    h->samples = mem_calloc((size_t)h->count, sizeof *h->samples);
    h->bytes = mem_calloc((size_t)h->count, sizeof *h->bytes);
    if (!h->samples || !h->bytes) return ERR_MEMORY;
    for (int64_t i = 0; i < h->count; i++) {
        TRY(source_read(source, i * all / h->count, image_size, &h->bytes[i], &h->samples[i]));
        h->total += source_sample_bytes(&h->samples[i]);
        if (h->total > HELD_BYTES_MAX) return fail(ERR_USAGE, "--images: too many for memory");
    }
    return OK;
}

static ViewOptions view_options(const Session *s, const BenchOptions *o)
{
    return session_loader_options(s, o->eval ? DATA_VAL : DATA_TRAIN).view;
}

/* One pass over all images; a bad one ends the benchmark. */
static Status make_views(Worker *w, const Session *s, const BenchOptions *o, const Held *h,
                         int64_t pass, uint8_t *out)
{
    const ViewOptions view = view_options(s, o);
    int64_t all = dataset_images(s->train);
    for (int64_t i = 0; i < h->count; i++) {
        int64_t id = i * all / h->count;
        AugmentDraw draw = { .seed = (uint64_t)s->config->train.seed,
                             .epoch = (uint32_t)pass,
                             .sample = id };
        TRY(worker_show(w, dataset_source(s->train), id, &h->samples[i], &view,
                        o->eval ? NULL : &draw, out));
    }
    return OK;
}

static void print_times(const Session *s, const Held *h, const WorkerTimes *before,
                        const WorkerTimes *after, double *seconds, int64_t passes_made)
{
    double passes = (double)passes_made, median_s = statistics_median(seconds, passes_made),
           fastest_s = seconds[0];
    double images = (double)h->count, per_image = 1e3 / (images * passes);
    SeekStore *seeks = dataset_seeks(s->train);
    log_info("images %.0f", images);
    log_info("kilobytes_per_image %.1f", (double)h->total / images * 1e-3);
    log_info("images_per_s_per_thread %.1f", images / median_s);
    log_info("images_per_s_fastest_pass %.1f", images / fastest_s);
    log_info("ms_per_image %.4f", median_s * 1e3 / images);
    log_info("header_ms %.4f", (after->header_s - before->header_s) * per_image);
    log_info("decode_ms %.4f", (after->decode_s - before->decode_s) * per_image);
    log_info("resize_ms %.4f", (after->resize_s - before->resize_s) * per_image);
    log_info("augment_ms %.4f", (after->policy_s - before->policy_s) * per_image);
    log_info("fast_decoder_percent %.1f",
             100 * (double)(after->fast - before->fast) / (images * passes));
    log_info("fast_decoder_given_up %lld", (long long)(after->left - before->left));
    log_info("seek_index_bytes_per_image %.0f",
             seeks ? (double)seek_store_bytes(seeks) / images : 0);
}

static Status time_views(const Session *s, const BenchOptions *o, Worker *w, const Held *h)
{
    ViewOptions view = view_options(s, o);
    size_t side = (size_t)view.image_size, count = (size_t)o->steps;
    double *seconds FREED = mem_calloc(count, sizeof *seconds);
    uint8_t *out FREED = mem_alloc(side * side * (size_t)view.channels);
    int64_t pass = 0;
    if (!seconds || !out) return ERR_MEMORY;
    for (; pass < o->warmup; pass++) TRY(make_views(w, s, o, h, pass, out));
    WorkerTimes before = worker_times(w);
    for (size_t i = 0; i < count; i++, pass++) {
        double start = clock_s();
        TRY(make_views(w, s, o, h, pass, out));
        seconds[i] = clock_s() - start;
    }
    WorkerTimes after = worker_times(w);
    if (s->comm->rank == 0) print_times(s, h, &before, &after, seconds, (int64_t)count);
    return OK;
}

static Status run_views(Session *s, const BenchOptions *o)
{
    Held held FREED_BY(held_free) = { 0 };
    Worker *worker FREED_BY(worker_destroy_at) = NULL;
    Status status = worker_create(&worker, dataset_seeks(s->train));
    if (status == OK) status = hold(s->train, o->images, view_options(s, o).image_size, &held);
    if (status == OK) status = time_views(s, o, worker, &held);
    /* inside data/, ERR_IO tells a failing file system from a bad file */
    return status == ERR_IO ? ERR_DATA : status;
}

/* ---- a list of views ---- */

/* A view as replay.h has it, a tab and the path. */
static Status parse_view(char *line, Replay *out, const char **path)
{
    char *tab = strchr(line, '\t');
    if (!tab || !tab[1])
        return fail(ERR_DATA, "the line does not end in a tab and the path of an image");
    *tab = '\0';
    *path = tab + 1;
    TRY(replay_parse(line, out));
    return out->plan.size <= SIZE_MAX_SHOWN
               ? OK
               : fail(ERR_DATA, "size is greater than %d", SIZE_MAX_SHOWN);
}

/* With data.seek_index auto the file gets an index first, as a shard would have one. */
static Status replay_file(Worker *w, Decoder *indexer, const ViewOptions *view,
                          const Replay *replay, const char *path, StrBuf *out)
{
    const AugmentPlan *plan = &replay->plan;
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    ByteBuf index FREED_BY(byte_buf_free) = { 0 };
    TRY(fs_read_file(path, &bytes, &size));
    size_t total = (size_t)plan->size * (size_t)plan->size * (size_t)view->channels;
    uint8_t *pixels FREED = mem_alloc(total);
    Sample sample = source_file_sample(bytes, size, 0);
    Status status = pixels ? OK : ERR_MEMORY;
    if (status == OK && view->seek_index != SEEK_OFF)
        status = decoder_build_seek_index(indexer, bytes, size, REPLAY_STEP, &index,
                                          &sample.file.seek_bytes);
    sample.file.seek = sample.file.seek_bytes ? index.data : NULL;
    if (status == OK) status = worker_replay(w, &sample, plan, view, pixels);
    if (status == OK)
        status = worker_apply_policy(w, &replay->policy_plan, view, plan->size, pixels);
    if (status == OK) str_add_n(out, (const char *)pixels, total);
    return status == ERR_DATA ? fail_note(status, "%s", path) : status;
}

static Status replay_lines(Worker *w, Decoder *indexer, const ViewOptions *view,
                           const BenchOptions *o, char *text, StrBuf *out)
{
    int number = 1;
    for (char *line = text, *next; line && *line; line = next, number++) {
        Replay view_line = { 0 };
        const char *path = NULL;
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        Status status = parse_view(line, &view_line, &path);
        if (status != OK) return fail_note(status, "%s:%d", o->replay, number);
        TRY(replay_file(w, indexer, view, &view_line, path, out));
        if (out->failed) return fail(ERR_MEMORY, "out of memory for the pixels of %s", o->replay);
    }
    return OK;
}

static Status replay(const Config *c, const BenchOptions *o)
{
    LoaderOptions loader = { 0 };
    augment_options_fill(&loader, c, DATA_TRAIN);
    ViewOptions view = loader.view;
    view.interpolation = c->data.interpolation;
    uint8_t *text FREED = NULL;
    size_t bytes = 0;
    StrBuf out = { 0 };
    Worker *worker FREED_BY(worker_destroy_at) = NULL;
    Decoder *indexer = NULL;
    TRY(fs_read_file(o->replay, &text, &bytes));
    Status status = worker_create(&worker, NULL);
    if (status == OK) status = decoder_create(&indexer);
    if (status == OK) status = replay_lines(worker, indexer, &view, o, (char *)text, &out);
    status = fs_write_text(status, o->dump, &out);
    decoder_destroy(indexer);
    return status;
}

Status bench_decode(Comm *comm, const Config *c, const BenchOptions *o)
{
    if (config_is_text(c))
        return fail(ERR_USAGE, "model.name: %s reads text; only images are decoded", c->model.name);
    if (o->replay) return comm_agree(comm, comm->rank == 0 ? replay(c, o) : OK);
    Config local = bench_config(c);
    Session s FREED_BY(session_close) = { 0 };
    /* No batches here: any folder has enough images. */
    local.train.batch_mode = BATCH_PER_RANK;
    local.train.batch_per_rank = local.data.repeated_augmentation = 1;
    local.train.accumulate = (ConfigList){ .values = { 1 }, .count = 1 };
    TRY(session_open_data(&s, &local, comm));
    return comm_agree(comm, run_views(&s, o));
}
