/* dataset.c - opens a source by format name or by looking, and answers questions about it. */
#include "base/both.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/cache/cache.h"
#include "data/index/index_classes.h"
#include "data/index/index_file.h"
#include "data/index/index_split.h"
#include "data/load/bad_list.h"
#include "data/load/class_check.h"
#include "data/load/dataset_internal.h"
#include "data/load/worker.h"
#include "data/source/other_format.h"
#include "data/source/packed_files.h"
#include "data/source/source_fairseq.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_THREADS           16 /* scans wait for file systems more than they compute */
#define INSPECT_SYNTHETIC_SIZE 64 /* side of a synthetic image when nobody says what it is for */

static const SourceKind *const kinds[DATA_FORMAT_COUNT] = {
    [DATA_IMAGEFOLDER] = &source_imagefolder,
    [DATA_IDX] = &source_idx,
    [DATA_SHARDS] = &source_shards,
    [DATA_WEBDATASET] = &source_webdataset,
    [DATA_TFRECORD] = &source_tfrecord,
    [DATA_CIFAR] = &source_cifar,
    [DATA_LIST] = &source_list,
    [DATA_FAIRSEQ] = &source_fairseq,
    [DATA_SYNTHETIC] = &source_synthetic,
};

/* In the order of asking: cifar would take the train.bin of fairseq, imagefolder everything. */
static const SourceKind *const guesses[] = { &source_list,       &source_shards,
                                             &source_idx,        &source_fairseq,
                                             &source_cifar,      &source_tfrecord,
                                             &source_webdataset, &source_imagefolder };

/* Both sides of a split come from the files of the training set. */
static DataRole listed_role(const DatasetOptions *o)
{
    return o->val_split > 0 ? DATA_TRAIN : o->role;
}

static bool is_generated(const SourceKind *kind)
{
    return kind == &source_synthetic || kind == &source_synthetic_text;
}

/* The words of a text that has no labels are no classes of its sequences. */
static bool has_classes(const Source *s)
{
    const FairseqSource *text = source_fairseq_of(s);
    return !text || text->labels;
}

static Status check_options(const DatasetOptions *o)
{
    ASSERT(o->format >= DATA_AUTO && o->format < DATA_FORMAT_COUNT);
    if (o->format != DATA_SYNTHETIC && (!o->path || !o->path[0]))
        return fail(ERR_USAGE, "no dataset folder is given");
    return OK;
}

static Status probe(const SourceKind *kind, const char *path, DataRole role, bool *yes)
{
    return kind->probe ? kind->probe(path, role, yes)
                       : packed_files_probe(path, role, kind->is_container, yes);
}

static Status choose_kind(const SourceKind **out, const DatasetOptions *o)
{
    TRY(check_options(o));
    *out = o->format != DATA_AUTO ? kinds[o->format] : NULL;
    if (*out == &source_synthetic && o->text.words > 0) *out = &source_synthetic_text;
    for (size_t i = 0; !*out; i++) {
        bool yes = false;
        TRY(probe(guesses[i], o->path, listed_role(o), &yes));
        if (yes) *out = guesses[i];
    }
    if (is_generated(*out)) return OK;
    const bool known = *out != &source_imagefolder && *out != &source_list && fs_exists(o->path);
    return known ? OK : other_format_check(o->path);
}

Status dataset_holds_sets(const char *dir, bool *yes)
{
    *yes = false;
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses && !*yes && fs_is_dir(dir); i++)
        if (guesses[i]->is_container || guesses[i]->in_memory)
            TRY(probe(guesses[i], dir, DATA_TRAIN, yes));
    return *yes ? OK : other_format_check(dir);
}

Status dataset_find_set(char **out, const char *dir, DataRole role)
{
    char **names = NULL;
    int64_t count = 0;
    int best = 0;
    *out = NULL;
    if (!fs_is_dir(dir)) return OK;
    TRY(fs_list(dir, &names, &count));
    Status status = OK;
    for (int64_t i = 0; i < count && status == OK; i++) {
        const int set = packed_files_set(names[i], strlen(names[i]));
        if (role == DATA_TRAIN ? set != 1 || best : set < 2 || (best && set >= best)) continue;
        char *path = fs_join(dir, names[i]);
        if (path && fs_is_dir(path)) {
            mem_free(*out);
            *out = path;
            best = set;
        } else mem_free(path);
        status = path ? OK : ERR_MEMORY;
    }
    mem_free(names);
    return status;
}

/* ---- index ---- */

typedef struct Place { /* what a scan needs to know, with the memory for it */
    const SourceKind *kind;
    ScanOptions scan;
    char root[PATH_MAX];
    char name[32];   /* the kind, and what else the list depends on */
    char format[48]; /* as kept in the index: that, and a print of the containers' names */
    char *file;      /* where the index is kept; NULL: nowhere */
} Place;

/* file: mem_free. */
static Status find_place(Place *p, const DatasetOptions *o)
{
    const DataRole role = listed_role(o);
    const SourceKind *kind = NULL;
    TRY(choose_kind(&kind, o));
    *p = (Place){ .kind = kind };
    if (o->labels == LABELS_MULTI && !kind->several_labels)
        return fail(ERR_USAGE,
                    "%s: data.labels: multi requires a list of images; this is format %s", o->path,
                    kind->name);
    if (!kind->scan) return OK;
    const char *empty = !kind->scan_by_emptiness ? "" : o->allow_empty ? "/empty" : "/full";
    uint32_t print = 0;
    p->scan = (ScanOptions){ .path = o->path,
                             .root = o->path,
                             .role = role,
                             .allow_empty = o->allow_empty,
                             .multi = o->labels == LABELS_MULTI,
                             .must_keep = o->must_keep,
                             .threads = o->scan_threads };
    if (realpath(o->path, p->root)) p->scan.root = p->root;
    if (p->scan.threads == 0) p->scan.threads = SCAN_THREADS;
    snprintf(p->name, sizeof p->name, "%s%s%s%s%s", kind->name, kind->is_container ? "/" : "",
             kind->is_container ? data_role_names[role] : "", empty, p->scan.multi ? "/multi" : "");
    snprintf(p->format, sizeof p->format, "%s", p->name);
    p->scan.format = p->format;
    if (kind->is_container) {
        TRY(packed_files_print(&print, o->path, role, kind->is_container));
        snprintf(p->format, sizeof p->format, "%s/%08x", p->name, print);
    }
    if (!o->index || !o->index[0] || kind->scan_is_cheap) return OK;
    p->file = index_file_name(o->index, p->scan.root, p->name);
    return p->file ? OK : ERR_MEMORY;
}

Status dataset_index_file(char **out, const DatasetOptions *o)
{
    Place place;
    *out = NULL;
    TRY(find_place(&place, o));
    *out = place.file;
    return OK;
}

Status dataset_is_folders(bool *out, const DatasetOptions *o)
{
    const SourceKind *kind = NULL;
    TRY(choose_kind(&kind, o));
    *out = kind == &source_imagefolder;
    return OK;
}

static Status compare_with_scan(const Place *place)
{
    const char *file = place->file;
    Index *kept = NULL, *fresh = NULL;
    const char *changed = NULL;
    Status status = index_file_load(&kept, file);
    if (status == OK && !index_file_is_current(kept, place->scan.path, &changed))
        status = fail(ERR_DATA, "%s: out of date: %s%s%s has changed", file, place->scan.path,
                      changed[0] ? "/" : "", changed);
    if (status == OK) status = place->kind->scan(&fresh, &place->scan);
    bool same = status == OK && kept->block_bytes == fresh->block_bytes &&
                memcmp(kept->block, fresh->block, kept->block_bytes) == 0;
    if (status == OK && !same)
        status = fail(ERR_DATA, "%s: a scan of %s finds different samples", file, place->scan.path);
    index_destroy(kept);
    index_destroy(fresh);
    return status;
}

Status dataset_check_index(const DatasetOptions *o)
{
    Place place;
    TRY(find_place(&place, o));
    if (!place.file)
        return fail(ERR_USAGE, "%s: format %s has no index", o->path, place.kind->name);
    const Status status = compare_with_scan(&place);
    mem_free(place.file);
    return status;
}

/* ---- classes ---- */

/* A folder that holds train/ and val/ looks like two classes. It is one where all are called so and
 * have folders of their own: of a class those samples come last. */
static Status check_sets(const Index *index, const char *path, bool divided)
{
    int of_set[4] = { -1, -1, -1, -1 };
    StrBuf advice = { 0 };
    if (index->labels) return OK; /* a list: classes are not folders */
    for (int c = 0; c < index->classes; c++) {
        const char *name = index_class_name(index, c);
        const int set = packed_files_set(name, strlen(name));
        const char *last =
            index_class_images(index, c) > 0
                ? strchr(index_path(index, (int64_t)index->class_start[c + 1] - 1), '/')
                : NULL;
        if (set == 0 || !last || !strchr(last + 1, '/')) return OK;
        of_set[set] = c;
    }
    if (divided)
        return fail(ERR_DATA, "%s: its folders are already sets; remove data.val_split", path);
    if (of_set[2] < 0) of_set[2] = of_set[3];
    for (int set = 1; set <= 2; set++)
        if (of_set[set] >= 0)
            str_printf(&advice, "%s '%s/%s' (%s)", advice.length > 0 ? "," : "", path,
                       index_class_name(index, of_set[set]), data_role_names[set - 1]);
    Status status =
        index->header->flags & INDEX_PACKED
            ? fail(ERR_DATA, "%s: its classes are sets (%s, ...); make one dataset per set", path,
                   index_class_name(index, 0))
            : fail(ERR_DATA, "%s: its folders are sets, not classes; name each set separately:%s",
                   path, advice.failed ? "" : advice.text);
    str_free(&advice);
    return status;
}

/* ---- life ---- */

/* Takes index over, on failure too. */
static Status open_with(Dataset **out, const SourceKind *kind, const DatasetOptions *o,
                        Index *index)
{
    Dataset *d = mem_calloc(1, sizeof *d);
    if (!d) {
        index_destroy(index);
        return ERR_MEMORY;
    }
    d->role = o->role;
    d->index = index;
    d->path = mem_strdup(is_generated(kind) ? kind->name : o->path);
    Status status = d->path ? OK : ERR_MEMORY;
    if (status == OK && index) status = check_sets(index, o->path, false);
    if (status == OK) status = kind->open(&d->source, o, index);
    if (status == OK) d->source->kind = kind;
    if (status == OK) status = class_check_names(d->source, d->path);
    if (status == OK && o->like && !index && !is_generated(kind) && has_classes(d->source))
        status = class_check_like(d->source, d->path, o->like);
    if (status == OK && !(d->learned = mem_calloc(1, sizeof *d->learned))) status = ERR_MEMORY;
    if (status == OK) status = bad_list_create(&d->reported, d->source->images, -1);
    if (status == OK && o->seek_bytes > 0 && o->role == DATA_TRAIN)
        status = seek_store_create(&d->seeks, d->source->images, o->seek_bytes);
    if (status == OK) *out = d;
    else dataset_close(d);
    return status;
}

/* In place of *index, which is destroyed, on failure too. */
static Status replace(Index **index, Index *made, Status status)
{
    index_destroy(*index);
    *index = made;
    return status;
}

static Status take_side(Index **index, const SourceKind *kind, const DatasetOptions *o)
{
    Index *side = NULL;
    if (!*index) return fail(ERR_USAGE, "format %s does not support data.val_split", kind->name);
    Status status = check_sets(*index, o->path, true);
    if (status == OK)
        status = index_split(&side, *index, o->val_split, o->val_split_seed, o->role == DATA_VAL);
    return replace(index, side, status);
}

static Status map_classes(Index **index, const SourceKind *kind, const DatasetOptions *o)
{
    Index *mapped = NULL;
    if (!*index) return fail(ERR_USAGE, "data.class_map does not support format %s", kind->name);
    const Status status = index_classes_map(&mapped, *index, o->path, o->class_map,
                                            o->allow_empty || (o->like && o->like->may_lack));
    return replace(index, mapped,
                   status == ERR_DATA ? fail_note(status, "data.class_map") : status);
}

static Status take_list(Index **index, const DatasetOptions *o)
{
    Index *own = NULL;
    Status status = check_sets(*index, o->path, false);
    if (status == OK) status = index_classes_of(&own, *index, o->path, o->like);
    return status == OK && !own ? OK : replace(index, own, status);
}

static Status make_index(Index **out, const SourceKind **kind, const DatasetOptions *o)
{
    Place place;
    TRY(find_place(&place, o));
    *kind = place.kind;
    if (!place.kind->scan) return OK;
    const Status status = index_file_obtain(out, place.file, place.kind->scan, &place.scan);
    mem_free(place.file);
    return status;
}

Status dataset_open(Dataset **out, const DatasetOptions *o)
{
    Index *index = NULL;
    const SourceKind *kind = NULL;
    *out = NULL;
    TRY(make_index(&index, &kind, o));
    if (is_generated(kind)) return open_with(out, kind, o, NULL);
    if (o->class_map && o->class_map[0]) TRY(map_classes(&index, kind, o));
    if (o->like && index) TRY(take_list(&index, o));
    if (o->val_split > 0) TRY(take_side(&index, kind, o));
    TRY(open_with(out, kind, o, index));
    const bool held_out = o->val_split > 0 && o->role == DATA_VAL; /* not of each class */
    if (!o->like && !o->allow_empty && !held_out) class_check_tell_empty((*out)->source, o->path);
    return OK;
}

const void *dataset_index(const Dataset *d, size_t *bytes)
{
    *bytes = d->index ? d->index->block_bytes : 0;
    return d->index ? d->index->block : NULL;
}

static const SourceKind *kind_of(const Index *index)
{
    const char *format = index_format(index);
    for (int i = 0; i < DATA_FORMAT_COUNT; i++) {
        size_t n = kinds[i] ? strlen(kinds[i]->name) : 0;
        if (n && kinds[i]->scan && strncmp(format, kinds[i]->name, n) == 0 &&
            (format[n] == '\0' || format[n] == '/'))
            return kinds[i];
    }
    return NULL;
}

Status dataset_open_by_index(Dataset **out, const DatasetOptions *o, const void *index,
                             size_t bytes)
{
    Index *copy = NULL;
    *out = NULL;
    TRY(check_options(o));
    void *block = mem_alloc(bytes);
    if (!block) return ERR_MEMORY;
    memcpy(block, index, bytes);
    TRY(index_adopt(&copy, block, bytes));
    const SourceKind *kind = kind_of(copy);
    Status status =
        kind ? source_check_index(copy, o->path)
             : fail(ERR_INTERNAL, "%s: unknown index format %s", o->path, index_format(copy));
    if (status == OK) return open_with(out, kind, o, copy);
    index_destroy(copy);
    return status;
}

void dataset_close(Dataset *d)
{
    if (!d) return;
    if (d->source) d->source->kind->close(d->source);
    index_destroy(d->index);
    bad_list_destroy(d->reported);
    seek_store_destroy(d->seeks);
    mem_free(d->learned);
    mem_free(d->path);
    mem_free(d);
}

int64_t dataset_images(const Dataset *d)
{
    return d->source->images;
}

int dataset_classes(const Dataset *d)
{
    return d->source->classes;
}

const char *dataset_class_name(const Dataset *d, int label)
{
    ASSERT(label >= 0 && label < d->source->classes);
    return d->source->class_names[label];
}

int64_t dataset_class_images(const Dataset *d, int label)
{
    ASSERT(label >= 0 && label < d->source->classes);
    return d->source->class_images[label];
}

int dataset_label(const Dataset *d, int64_t id)
{
    return d->source->kind->label(d->source, id);
}

const uint8_t *dataset_labels(const Dataset *d, int64_t id)
{
    const Source *s = d->source;
    return s->labels ? s->labels + (size_t)id * s->label_bytes : NULL;
}

void dataset_describe_labels(const Dataset *d, const uint8_t *row, char *out, size_t bytes)
{
    size_t used = 0;
    snprintf(out, bytes, "no label");
    for (int c = 0; c < d->source->classes && used < bytes; c++)
        if (both_bit(row, c))
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
                                     d->source->class_names[c]);
}

bool dataset_named_classes(const Dataset *d)
{
    return d->source->named_classes;
}

ClassList dataset_class_list(const Dataset *d, const char *owner)
{
    return source_class_list(d->source, owner);
}

const char *dataset_format_name(const Dataset *d)
{
    return d->source->kind->name;
}

void dataset_describe_sample(const Dataset *d, int64_t id, char *out, size_t bytes)
{
    d->source->kind->describe(d->source, id, out, bytes);
}

const Source *dataset_source(const Dataset *d)
{
    return d->source;
}

SeekStore *dataset_seeks(const Dataset *d)
{
    return d->seeks;
}

bool dataset_first_report(const Dataset *d, int64_t id)
{
    bool first = false;
    /* A list without a limit cannot fail. */
    ASSERT(bad_list_add(d->reported, id, &first) == OK);
    return first;
}

bool dataset_in_memory(const Dataset *d)
{
    return d->source->kind->in_memory;
}

void dataset_use_cache(Dataset *d, DataCache kind, struct SampleCache *cache, int64_t first)
{
    if (dataset_in_memory(d)) return;
    ASSERT((kind != DATA_CACHE_RAM && kind != DATA_CACHE_DISK) || cache);
    d->cache_kind = kind;
    d->cache = cache;
    d->first_entry = first;
}

bool dataset_forget(const Dataset *d, int64_t id)
{
    bool gone = false;
    if (d->source->kind->forget) d->source->kind->forget(d->source, id, &gone);
    return gone;
}

Status dataset_read(const Dataset *d, int64_t id, int size, ByteBuf *buf, Sample *out, bool *hit)
{
    const Source *s = d->source;
    *hit = false;
    if (d->cache) TRY(cache_read(d->cache, d->first_entry + id, s, id, buf, out, hit));
    else TRY(source_read(s, id, size, buf, out));
    /* A second copy of what our own cache now has is of no use. */
    bool stored =
        d->cache_kind == DATA_CACHE_RAM && !*hit && out->file.bytes && out->file.bytes != buf->data;
    bool forget = d->cache_kind == DATA_CACHE_NONE || stored;
    if (forget && s->kind->forget) s->kind->forget(s, id, NULL);
    return OK;
}

Status dataset_decode(const Dataset *d, int64_t id, int channels, uint8_t **pixels, int *width,
                      int *height)
{
    ASSERT(id >= 0 && id < d->source->images && (channels == 1 || channels == 3));
    *pixels = NULL;
    Worker *worker = NULL;
    TRY(worker_create(&worker, NULL));
    Image image = { 0 };
    Status status = worker_load(worker, d->source, id, INSPECT_SYNTHETIC_SIZE, channels, &image);
    if (status == OK && !(*pixels = mem_alloc(image_bytes(&image)))) status = ERR_MEMORY;
    if (status == OK) {
        memcpy(*pixels, image.pixels, image_bytes(&image));
        *width = image.box.width;
        *height = image.box.height;
    }
    worker_destroy(worker);
    /* Inside data/, ERR_IO tells a failing file system from a bad file; outside, what cannot be
     * read is ERR_DATA. */
    return status == ERR_IO ? ERR_DATA : status;
}

/* ---- the same data elsewhere ---- */

/* Sample of print i, -1 beyond the last. */
static int64_t printed_id(const Dataset *d, int64_t i)
{
    const int64_t images = d->source->images;
    if (images <= DATASET_PRINTS) return i < images ? i : -1;
    return i * (images - 1) / (DATASET_PRINTS - 1);
}

static Status print_sample(const Dataset *d, int64_t id, ByteBuf *buf, SamplePrint *out)
{
    Sample s;
    Status status = source_read(d->source, id, INSPECT_SYNTHETIC_SIZE, buf, &s);
    if (status == ERR_DATA) return OK;
    if (status != OK) return status == ERR_IO ? ERR_DATA : status;
    out->bytes = source_sample_bytes(&s);
    out->crc = crc32c_update(0, s.file.bytes ? s.file.bytes : s.image.pixels, out->bytes);
    return OK;
}

Status dataset_prints(const Dataset *d, SamplePrint out[DATASET_PRINTS])
{
    ByteBuf buf = { 0 };
    Status status = OK;
    memset(out, 0, DATASET_PRINTS * sizeof *out);
    for (int i = 0; i < DATASET_PRINTS && status == OK; i++)
        if (printed_id(d, i) >= 0) status = print_sample(d, printed_id(d, i), &buf, &out[i]);
    byte_buf_free(&buf);
    return status;
}

static const char *describe_print(const SamplePrint *p, char out[64])
{
    snprintf(out, 64, "%llu bytes with checksum %08x", (unsigned long long)p->bytes,
             (unsigned)p->crc);
    return p->bytes > 0 ? out : "cannot be read";
}

Status dataset_compare_prints(const Dataset *d, const SamplePrint mine[DATASET_PRINTS],
                              const SamplePrint theirs[DATASET_PRINTS])
{
    char name[768], here[64], there[64];
    for (int i = 0; i < DATASET_PRINTS; i++) {
        if (mine[i].bytes == theirs[i].bytes && mine[i].crc == theirs[i].crc) continue;
        dataset_describe_sample(d, printed_id(d, i), name, sizeof name);
        return fail(ERR_DATA, "ranks see different images: %s: %s here, %s on rank 0", name,
                    describe_print(&mine[i], here), describe_print(&theirs[i], there));
    }
    return OK;
}
