/* pack.c - see pack.h.
 *
 * PLAN. How many shards there are comes from the mean size of some samples, read once; shard k of S
 * holds samples kN/S .. (k+1)N/S, so who writes what needs no book-keeping. Shards are written by
 * several threads, one shard each at a time, and renamed when they are complete and on the disk. A
 * later call finds the complete ones by their trailer, takes S from them and writes the rest. All
 * carry a key made of the data's names and labels and of the options, so that shards of different
 * plans never mix. */
#include "data/load/pack.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/decode/decoder.h"
#include "data/decode/recode_jpeg.h"
#include "data/decode/seek_index.h"
#include "data/index/index_build.h"
#include "data/index/index_file.h"
#include "data/load/dataset_internal.h"
#include "data/source/shard.h"
#include "data/source/shard_writer.h"
#include "data/source/source_fairseq.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SEEK_STEP      SEEK_INDEX_ROWS_ONLY /* half a percent of the data for most of the gain */
#define MEAN_OF        256                  /* samples that tell the mean size */
#define PROGRESS_S     2.0
#define MAX_NAME_BYTES 768

typedef struct Pack {
    const Source *source;
    const PackOptions *o;
    uint64_t key;
    int shards;
    bool *finished; /* [shards] */
    double start_s;
    int64_t to_do; /* samples of the shards that are not finished */
    _Atomic int64_t images, bytes, recoded, unreadable;
    _Atomic int64_t reported; /* tenths of seconds, when progress was last shown */
} Pack;

typedef struct Job { /* one shard in the making */
    Pack *pack;
    ShardWriter *writer;
    IndexPiece piece;
    ByteBuf file, recoded, pixels, seek;
    Decoder *decoder;
} Job;

static int64_t first_of(const Pack *p, int shard)
{
    return p->source->images * shard / p->shards;
}

/* ---- plan ---- */

static uint64_t make_key(const Source *s, const PackOptions *o)
{
    uint32_t names = 0, shape = 0;
    for (int c = 0; c < s->classes; c++)
        names = crc32c_update(names, s->class_names[c], strlen(s->class_names[c]) + 1);
    for (int64_t i = 0; i < s->images; i++) {
        const char *path = index_path(s->index, i);
        names = crc32c_update(names, path, strlen(path) + 1);
    }
    shape = crc32c_update(shape, s->class_images, (size_t)s->classes * sizeof *s->class_images);
    shape = crc32c_update(shape, &o->shard_bytes, sizeof o->shard_bytes);
    shape = crc32c_update(shape, &o->baseline, sizeof o->baseline);
    shape = crc32c_update(shape, &o->seek, sizeof o->seek);
    return (uint64_t)names << 32 | shape;
}

/* Shards by the mean size of samples all over the dataset; what cannot be read counts as
 * nothing. */
static Status count_shards(Pack *p)
{
    const Source *s = p->source;
    ByteBuf buf = { 0 };
    int64_t looks = s->images < MEAN_OF ? s->images : MEAN_OF, bytes = 0;
    Status status = OK;
    for (int64_t i = 0; i < looks && (status == OK || status == ERR_DATA); i++) {
        int64_t id = s->images / looks * i;
        Sample sample;
        int64_t known = source_bytes(s, id);
        if (known < 0 && (status = s->kind->read(s, id, &buf, &sample)) == OK)
            known = (int64_t)sample.file.size;
        if (known > 0) bytes += known;
    }
    byte_buf_free(&buf);
    if (status != OK && status != ERR_DATA) return status;
    double total = (double)bytes / (double)looks * (double)s->images;
    double shards = total / (double)p->o->shard_bytes + 0.5;
    p->shards = shards < 1 ? 1 : shards > (double)s->images ? (int)s->images : (int)shards;
    if (p->shards > 99999)
        return fail(ERR_USAGE, "%s: more than 99999 shards; make them larger", p->o->out);
    return OK;
}

/* *shards: of the set that the shard belongs to, 0 if it is not complete. */
static Status look_at(const Pack *p, const char *name, int *shards)
{
    Index *x = NULL;
    uint64_t bytes = 0;
    *shards = 0;
    Status status = shard_load(&x, p->o->out, name, &bytes);
    if (status != OK) return status == ERR_DATA ? OK : status;
    bool ours = x->header->plan_key == p->key;
    *shards = (int)x->header->shards;
    index_destroy(x);
    if (ours) return OK;
    return fail(ERR_USAGE, "%s: contains shards of other data or options (%s); use an empty folder",
                p->o->out, name);
}

static Status find_finished(Pack *p, char *const *names, int64_t count)
{
    int of = 0;
    for (int64_t i = 0; i < count; i++) {
        int shard = -1, end = 0;
        if (sscanf(names[i], "shard-%5d.bin%n", &shard, &end) != 1 || end == 0 || names[i][end] ||
            shard < 0)
            continue;
        TRY(look_at(p, names[i], &of));
        if (of == 0) continue;
        if (!p->finished) {
            p->shards = of;
            p->finished = mem_calloc((size_t)of, sizeof *p->finished);
            if (!p->finished) return ERR_MEMORY;
        }
        if (of != p->shards || shard >= p->shards)
            return fail(ERR_DATA, "%s/%s: belongs to a set with another number of shards",
                        p->o->out, names[i]);
        p->finished[shard] = true;
    }
    return OK;
}

static Status make_plan(Pack *p)
{
    char **names = NULL;
    int64_t count = 0;
    TRY(fs_list(p->o->out, &names, &count));
    Status status = find_finished(p, names, count);
    mem_free(names);
    TRY(status);
    if (!p->finished) {
        TRY(count_shards(p));
        p->finished = mem_calloc((size_t)p->shards, sizeof *p->finished);
        if (!p->finished) return ERR_MEMORY;
    }
    for (int i = 0; i < p->shards; i++)
        if (!p->finished[i]) p->to_do += first_of(p, i + 1) - first_of(p, i);
    return OK;
}

/* ---- samples ---- */

static Status same_pixels(Job *j, const EncodedImage *a, const EncodedImage *b, bool *same)
{
    Image image;
    *same = false;
    Status status = decoder_decode(j->decoder, a->bytes, a->size, 3, &image);
    if (status != OK) return status == ERR_DATA ? OK : status;
    const ImageBox box = image.box;
    const size_t bytes = image_bytes(&image);
    TRY(byte_buf_reserve(&j->pixels, bytes));
    memcpy(j->pixels.data, image.pixels, bytes);
    status = decoder_decode(j->decoder, b->bytes, b->size, 3, &image);
    if (status != OK) return status == ERR_DATA ? OK : status;
    *same = image.box.width == box.width && image.box.height == box.height &&
            memcmp(image.pixels, j->pixels.data, bytes) == 0;
    return OK;
}

static Status recode(Job *j, EncodedImage *file)
{
    EncodedImage recoded = { 0 };
    bool same = false;
    if (!j->pack->o->baseline) return OK;
    TRY(recode_jpeg_to_baseline(file->bytes, file->size, &j->recoded, &recoded.size));
    if (recoded.size == 0) return OK;
    recoded.bytes = j->recoded.data;
    TRY(same_pixels(j, file, &recoded, &same));
    if (!same) return OK;
    *file = recoded;
    atomic_fetch_add(&j->pack->recoded, 1);
    return OK;
}

static Status read_sample(Job *j, int64_t id, Sample *sample)
{
    const Source *s = j->pack->source;
    Status status = s->kind->read(s, id, &j->file, sample);
    if (status == OK) return recode(j, &sample->file);
    if (status != ERR_DATA) return status;
    log_warning("%s; packed as an empty sample", status_message());
    atomic_fetch_add(&j->pack->unreadable, 1);
    *sample = (Sample){ 0 };
    return OK;
}

static Status pack_sample(Job *j, int64_t id)
{
    Sample sample;
    const Source *s = j->pack->source;
    const EncodedImage *file = &sample.file;
    TRY(read_sample(j, id, &sample));
    size_t seek_bytes = 0;
    if (j->pack->o->seek && file->size > 0)
        TRY(decoder_build_seek_index(j->decoder, file->bytes, file->size, SEEK_STEP, &j->seek,
                                     &seek_bytes));
    uint32_t crc = crc32c_update(0, file->bytes, file->size);
    IndexEntry e = { .offset = shard_writer_offset(j->writer),
                     .label = (uint32_t)s->kind->label(s, id),
                     .bytes = (uint32_t)file->size,
                     .seek_bytes = (uint32_t)seek_bytes,
                     .crc = crc32c_update(crc, j->seek.data, seek_bytes) };
    TRY(shard_writer_add(j->writer, file->bytes, file->size));
    TRY(shard_writer_add(j->writer, j->seek.data, seek_bytes));
    atomic_fetch_add(&j->pack->bytes, (int64_t)(file->size + seek_bytes));
    return index_piece_add(&j->piece, NULL, index_path(s->index, id), &e);
}

static void show_progress(Pack *p)
{
    double seconds = clock_s() - p->start_s;
    int64_t now = (int64_t)(seconds * 10), last = atomic_load(&p->reported);
    int64_t images = atomic_fetch_add(&p->images, 1) + 1;
    if (now < last + (int64_t)(PROGRESS_S * 10) ||
        !atomic_compare_exchange_strong(&p->reported, &last, now))
        return;
    double mb = (double)atomic_load(&p->bytes) * 1e-6;
    log_progress("%lld of %lld images (%.0f %%), %.0f MB, %.0f MB/s", (long long)images,
                 (long long)p->to_do, 100.0 * (double)images / (double)p->to_do, mb, mb / seconds);
}

/* ---- shards ---- */

static Status end_shard(Job *j, int shard, const char *name)
{
    Pack *p = j->pack;
    Index *index = NULL;
    TRY(index_piece_stamp(&j->piece, name, 0, 0));
    IndexParts parts = { .format = SHARD_FORMAT,
                         .root = "",
                         .class_names = p->source->class_names,
                         .classes = p->source->classes,
                         .flags = INDEX_PACKED | (p->source->named_classes ? INDEX_NAMED : 0),
                         .sorted = true,
                         .pieces = &j->piece,
                         .piece_count = 1,
                         .shard = (uint32_t)shard,
                         .shards = (uint32_t)p->shards,
                         .plan_key = p->key };
    TRY(index_build(&index, &parts));
    Status status = shard_writer_finish(j->writer, index);
    index_destroy(index);
    return status;
}

static Status fill_shard(Job *j, int shard)
{
    Pack *p = j->pack;
    char name[SHARD_NAME_BYTES];
    shard_name(name, shard);
    TRY(decoder_create(&j->decoder));
    TRY(shard_writer_open(&j->writer, p->o->out, name));
    for (int64_t id = first_of(p, shard); id < first_of(p, shard + 1); id++) {
        TRY(pack_sample(j, id));
        show_progress(p);
    }
    return end_shard(j, shard, name);
}

static Status pack_shard(void *cookie, int64_t shard)
{
    Pack *p = cookie;
    if (p->finished[shard]) return OK;
    Job j = { .pack = p };
    Status status = fill_shard(&j, (int)shard);
    shard_writer_close(j.writer);
    decoder_destroy(j.decoder);
    index_piece_free(&j.piece);
    byte_buf_free(&j.file);
    byte_buf_free(&j.recoded);
    byte_buf_free(&j.pixels);
    byte_buf_free(&j.seek);
    return status;
}

static Status save_index(const Pack *p)
{
    ScanOptions scan = {
        .path = p->o->out, .root = "", .format = SHARD_FORMAT, .threads = p->o->threads
    };
    Index *index = NULL;
    TRY(shard_merge(&index, &scan));
    char *file = fs_join(p->o->out, SHARD_INDEX_FILE);
    Status status = file ? index_file_save(index, file) : ERR_MEMORY;
    mem_free(file);
    index_destroy(index);
    return status;
}

static Status pack_all(Pack *p, PackReport *report)
{
    TRY(make_plan(p));
    for (int i = 0; i < p->shards; i++) report->kept += p->finished[i];
    p->start_s = clock_s();
    Status status = parallel_run(p->o->threads, p->shards, "pack", pack_shard, p);
    log_progress("%s", "");
    TRY(status);
    report->images = p->images;
    report->bytes = p->bytes;
    report->shards = p->shards;
    report->recoded = p->recoded;
    report->unreadable = p->unreadable;
    return save_index(p);
}

Status pack_dataset(const Dataset *d, const PackOptions *o, PackReport *report)
{
    Pack p = { .source = dataset_source(d), .o = o };
    *report = (PackReport){ 0 };
    if (!p.source->index)
        return fail(ERR_DATA, "%s: format %s stores %s, not image files; there is nothing to pack",
                    d->path, dataset_format_name(d),
                    source_fairseq_of(p.source) ? "tokens" : "pixels");
    p.key = make_key(p.source, o);
    TRY(fs_make_dirs(o->out));
    int lock = open(o->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) return fail(ERR_IO, "%s: cannot open folder: %s", o->out, strerror(errno));
    Status status = OK;
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = fail(ERR_USAGE, "%s: another convoy pack is writing to this folder", o->out);
    if (status == OK) status = pack_all(&p, report);
    close(lock); /* and with it the lock */
    mem_free(p.finished);
    return status;
}

/* ---- verification ---- */

typedef struct Verify {
    const Source *original, *shards;
    bool baseline;
} Verify;

static Status compare(Job *j, const Verify *v, int64_t id, ByteBuf *buf)
{
    Sample a, b;
    bool same = false;
    char name[MAX_NAME_BYTES];
    Status original = v->original->kind->read(v->original, id, &j->file, &a);
    if (original != OK && original != ERR_DATA) return original;
    Status packed = v->shards->kind->read(v->shards, id, buf, &b);
    if (packed != OK && (packed != ERR_DATA || v->shards->index->bytes[id] > 0)) return packed;
    if (original == OK && packed == OK) {
        same = a.file.size == b.file.size && memcmp(a.file.bytes, b.file.bytes, a.file.size) == 0;
        if (!same && v->baseline) TRY(same_pixels(j, &a.file, &b.file, &same));
    } else {
        same = original == packed; /* bad there and empty here */
    }
    same =
        same && strcmp(index_path(v->original->index, id), index_path(v->shards->index, id)) == 0;
    same =
        same && v->original->kind->label(v->original, id) == v->shards->kind->label(v->shards, id);
    if (same) return OK;
    v->shards->kind->describe(v->shards, id, name, sizeof name);
    return fail(ERR_DATA, "%s: differs from the image that was packed", name);
}

#define VERIFY_AT_ONCE 256

static Status verify_some(void *cookie, int64_t part)
{
    const Verify *v = cookie;
    Job j = { 0 };
    ByteBuf buf = { 0 };
    Status status = decoder_create(&j.decoder);
    int64_t end = (part + 1) * VERIFY_AT_ONCE;
    if (end > v->original->images) end = v->original->images;
    for (int64_t id = part * VERIFY_AT_ONCE; id < end && status == OK; id++)
        status = compare(&j, v, id, &buf);
    decoder_destroy(j.decoder);
    byte_buf_free(&j.file);
    byte_buf_free(&j.pixels);
    byte_buf_free(&buf);
    return status;
}

static Status verify_all(const Verify *v, const PackOptions *o)
{
    const Source *a = v->original, *b = v->shards;
    bool same = a->images == b->images && a->classes == b->classes;
    for (int c = 0; same && c < a->classes; c++)
        same = strcmp(a->class_names[c], b->class_names[c]) == 0;
    if (!same)
        return fail(ERR_DATA, "%s: its images or classes differ from those that were packed",
                    o->out);
    return parallel_run(o->threads, (a->images + VERIFY_AT_ONCE - 1) / VERIFY_AT_ONCE, "verify",
                        verify_some, (void *)(uintptr_t)v);
}

Status pack_verify(const Dataset *d, const PackOptions *o)
{
    Dataset *shards = NULL;
    DatasetOptions options = { .path = o->out, .format = DATA_SHARDS };
    TRY(dataset_open(&shards, &options));
    Verify v = { .original = dataset_source(d),
                 .shards = dataset_source(shards),
                 .baseline = o->baseline };
    Status status = verify_all(&v, o);
    dataset_close(shards);
    return status;
}
