/* source_cifar.c - the binary files of CIFAR-10 and CIFAR-100.
 *
 * A record is one label byte (CIFAR-100: two, coarse and fine; the fine one counts) and 3072 bytes
 * of pixels, 32 x 32, all red ones first, then green, then blue. CIFAR-10 has five files of 10,000
 * records for training and one for validation, CIFAR-100 one of each. All of a role is held in
 * memory, pixels interleaved: 154 MB for training. Class names come from the text file that lies
 * beside them; without it classes are numbers. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/index/class_names.h"
#include "data/source/source.h"
#include <stdio.h>
#include <string.h>

#define SIDE        32
#define PLANE_BYTES ((size_t)SIDE * SIDE)
#define IMAGE_BYTES (3 * PLANE_BYTES)
#define MAX_FILES   5
#define MAX_IMAGES  ((size_t)10000000)

typedef struct CifarKind {
    const char *files[2][MAX_FILES + 1]; /* by role */
    const char *names;
    int classes, label_bytes; /* the last of them counts */
} CifarKind;

static const CifarKind cifars[] = {
    { { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin" },
        { "test_batch.bin" } },
      "batches.meta.txt",
      10,
      1 },
    { { { "train.bin" }, { "test.bin" } }, "fine_label_names.txt", 100, 2 },
};

typedef struct CifarSource {
    Source base;
    const CifarKind *cifar;
    DataRole role;
    uint8_t *pixels;        /* [images, 32, 32, 3] */
    uint8_t *labels;        /* [images] */
    size_t ends[MAX_FILES]; /* images up to and with each file, for messages */
    char **names;           /* from the text file */
} CifarSource;

/* *out is NULL where the first file of neither is there. */
static Status find_kind(const char *folder, DataRole role, const CifarKind **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof cifars / sizeof cifars[0] && !*out; i++) {
        char *path FREED = fs_join(folder, cifars[i].files[role][0]);
        if (!path) return ERR_MEMORY;
        if (fs_exists(path)) *out = &cifars[i];
    }
    return OK;
}

static Status cifar_probe(const char *path, DataRole role, bool *yes)
{
    const CifarKind *kind = NULL;
    TRY(find_kind(path, role, &kind));
    *yes = kind != NULL;
    return OK;
}

static Status take_record(CifarSource *s, size_t number, const uint8_t *record, const char *path)
{
    uint8_t label = record[s->cifar->label_bytes - 1];
    if (label >= s->cifar->classes)
        return fail(ERR_DATA, "%s: label %d in record %zu; there are %d classes", path, label,
                    number, s->cifar->classes);
    s->labels[s->base.images] = label;
    const uint8_t *plane = record + s->cifar->label_bytes;
    uint8_t *out = s->pixels + (size_t)s->base.images * IMAGE_BYTES;
    for (size_t i = 0; i < PLANE_BYTES; i++)
        for (size_t c = 0; c < 3; c++) out[3 * i + c] = plane[c * PLANE_BYTES + i];
    s->base.images++;
    return OK;
}

static Status take_file(CifarSource *s, const char *path, const uint8_t *bytes, size_t size)
{
    size_t record = (size_t)s->cifar->label_bytes + IMAGE_BYTES, count = size / record;
    size_t images = (size_t)s->base.images + count;
    if (size == 0 || size % record != 0)
        return fail(ERR_DATA, "%s: %zu bytes are not a whole number of %zu-byte records", path,
                    size, record);
    if (images > MAX_IMAGES) return fail(ERR_DATA, "%s: too many images", path);
    uint8_t *pixels = mem_realloc(s->pixels, images * IMAGE_BYTES);
    if (!pixels) return ERR_MEMORY;
    s->pixels = pixels;
    uint8_t *labels = mem_realloc(s->labels, images);
    if (!labels) return ERR_MEMORY;
    s->labels = labels;
    for (size_t i = 0; i < count; i++) TRY(take_record(s, i, bytes + i * record, path));
    return OK;
}

static Status read_one(CifarSource *s, const char *folder, int file)
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    char *path FREED = fs_join(folder, s->cifar->files[s->role][file]);
    if (!path) return ERR_MEMORY;
    TRY(fs_read_file(path, &bytes, &size));
    TRY(take_file(s, path, bytes, size));
    s->ends[file] = (size_t)s->base.images;
    return OK;
}

static Status name_classes(CifarSource *s, const char *folder)
{
    int given = 0, classes = s->cifar->classes;
    TRY(class_names_read(folder, s->cifar->names, &s->names, &given));
    if (s->names && given != classes)
        return fail(ERR_DATA, "%s/%s: %d names for %d classes", folder, s->cifar->names, given,
                    classes);
    TRY(source_number_classes(&s->base, classes));
    for (int c = 0; s->names && c < classes; c++) s->base.class_names[c] = s->names[c];
    s->base.named_classes = s->names != NULL;
    for (int64_t i = 0; i < s->base.images; i++) s->base.class_images[s->labels[i]]++;
    return OK;
}

static Status fill_cifar(CifarSource *s, const DatasetOptions *o)
{
    if (!fs_is_dir(o->path)) return source_no_folder(o->path);
    TRY(find_kind(o->path, o->role, &s->cifar));
    s->role = o->role;
    if (!s->cifar)
        return fail(ERR_DATA, "%s: neither %s nor %s in this folder", o->path,
                    cifars[0].files[o->role][0], cifars[1].files[o->role][0]);
    for (int f = 0; s->cifar->files[o->role][f]; f++) TRY(read_one(s, o->path, f));
    return name_classes(s, o->path);
}

static void cifar_close(Source *base)
{
    CifarSource *s = (CifarSource *)base;
    mem_free(s->pixels);
    mem_free(s->labels);
    mem_free(s->names);
    source_free_classes(base);
    mem_free(s);
}

static Status cifar_open(Source **out, const DatasetOptions *o, const Index *index)
{
    (void)index;
    CifarSource *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    Status status = fill_cifar(s, o);
    if (status == OK) *out = &s->base;
    else cifar_close(&s->base);
    return status;
}

static Status cifar_read(const Source *base, int64_t id, ByteBuf *buf, Sample *out)
{
    (void)buf;
    const CifarSource *s = (const CifarSource *)base;
    *out = (Sample){ .image = image_packed(s->pixels + (size_t)id * IMAGE_BYTES, SIDE, SIDE, 3) };
    return OK;
}

static int cifar_label(const Source *base, int64_t id)
{
    return ((const CifarSource *)base)->labels[id];
}

static void cifar_describe(const Source *base, int64_t id, char *out, size_t bytes)
{
    const CifarSource *s = (const CifarSource *)base;
    int file = 0;
    while ((size_t)id >= s->ends[file]) file++;
    size_t first = file ? s->ends[file - 1] : 0;
    snprintf(out, bytes, "%s[%zu]", s->cifar->files[s->role][file], (size_t)id - first);
}

const SourceKind source_cifar = {
    .name = "cifar",
    .in_memory = true,
    .probe = cifar_probe,
    .open = cifar_open,
    .read = cifar_read,
    .label = cifar_label,
    .describe = cifar_describe,
    .close = cifar_close,
};
