/* dataset.c - opens a source by format name or by looking, and answers questions about it. */
#include "data/dataset.h"
#include "base/mem.h"
#include "data/bad_list.h"
#include "data/cache.h"
#include "data/pipeline.h"
#include <stdatomic.h>
#include <string.h>

#define INSPECT_SYNTHETIC_SIZE 64 /* side of a synthetic image when nobody says what it is for */

typedef struct Learned { /* by the loaders, for those to come */
    _Atomic int readers;
} Learned;

struct Dataset {
    Source *source;
    DataRole role;
    char *path;
    BadList *reported; /* bad samples that a warning has named */
    Learned *learned;
    DataCache cache_kind;
    SampleCache *cache; /* DATA_CACHE_RAM */
    int64_t first_entry;
    SeekStore *seeks;
};

static const SourceKind *const kinds[DATA_FORMAT_COUNT] = {
    [DATA_IMAGEFOLDER] = &source_imagefolder,
    [DATA_IDX] = &source_idx,
    [DATA_SYNTHETIC] = &source_synthetic,
};

/* In the order of asking; imagefolder says yes to everything. */
static const SourceKind *const guesses[] = { &source_idx, &source_imagefolder };

static const SourceKind *choose_kind(const DatasetOptions *o)
{
    if (o->format != DATA_AUTO) return kinds[o->format];
    const SourceKind *kind = NULL;
    for (size_t i = 0; !kind; i++)
        if (guesses[i]->probe(o->path, o->role)) kind = guesses[i];
    return kind;
}

Status dataset_open(Dataset **out, const DatasetOptions *o)
{
    *out = NULL;
    ASSERT(o->format >= DATA_AUTO && o->format < DATA_FORMAT_COUNT);
    bool needs_path = o->format != DATA_SYNTHETIC;
    if (needs_path && (!o->path || !o->path[0])) return fail(ERR_USAGE, "no data folder is given");
    Dataset *d = mem_calloc(1, sizeof *d);
    if (!d) return ERR_MEMORY;
    d->role = o->role;
    d->path = mem_strdup(needs_path ? o->path : source_synthetic.name);
    Status status = d->path ? choose_kind(o)->open(&d->source, o) : ERR_MEMORY;
    if (status == OK && !(d->learned = mem_calloc(1, sizeof *d->learned))) status = ERR_MEMORY;
    if (status == OK) status = bad_list_create(&d->reported, d->source->images, -1);
    if (status == OK && o->seek_bytes > 0 && o->role == DATA_TRAIN)
        status = seek_store_create(&d->seeks, d->source->images, o->seek_bytes);
    if (status != OK) {
        dataset_close(d);
        return status;
    }
    *out = d;
    return OK;
}

void dataset_close(Dataset *d)
{
    if (!d) return;
    if (d->source) d->source->kind->close(d->source);
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

DataRole dataset_role(const Dataset *d)
{
    return d->role;
}

const char *dataset_path(const Dataset *d)
{
    return d->path;
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
    ASSERT(kind != DATA_CACHE_RAM || cache);
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

Status dataset_read(const Dataset *d, int64_t id, int image_size, ByteBuf *buf, Sample *out, bool *hit)
{
    const Source *s = d->source;
    *hit = false;
    if (d->cache_kind == DATA_CACHE_RAM) {
        TRY(cache_read(d->cache, d->first_entry + id, s, id, image_size, buf, out, hit));
    } else {
        TRY(s->kind->read(s, id, image_size, buf, out));
    }
    /* A second copy of what our own cache now has is of no use. */
    bool stored = d->cache_kind == DATA_CACHE_RAM && !*hit && out->encoded && out->data != buf->data;
    bool forget = d->cache_kind == DATA_CACHE_NONE || stored;
    if (forget && s->kind->forget) s->kind->forget(s, id, NULL);
    return OK;
}

int dataset_readers(const Dataset *d)
{
    return atomic_load(&d->learned->readers);
}

void dataset_set_readers(const Dataset *d, int readers)
{
    atomic_store(&d->learned->readers, readers);
}

Status dataset_decode(const Dataset *d, int64_t id, int channels, uint8_t **pixels, int *width, int *height)
{
    ASSERT(id >= 0 && id < d->source->images && (channels == 1 || channels == 3));
    *pixels = NULL;
    Worker *worker = NULL;
    TRY(worker_create(&worker));
    ImageView view = { 0 };
    bool raw = false;
    size_t bytes_read = 0;
    Status status = worker_load(worker, d->source, id, INSPECT_SYNTHETIC_SIZE, channels, &view, &raw, &bytes_read);
    size_t bytes = (size_t)view.width * (size_t)view.height * (size_t)channels;
    if (status == OK && !(*pixels = mem_alloc(bytes))) status = ERR_MEMORY;
    if (status == OK) {
        memcpy(*pixels, view.pixels, bytes);
        *width = view.width;
        *height = view.height;
    }
    worker_destroy(worker);
    /* Inside data/, ERR_IO tells a failing file system from a bad file; outside, what cannot be read is ERR_DATA. */
    return status == ERR_IO ? ERR_DATA : status;
}
