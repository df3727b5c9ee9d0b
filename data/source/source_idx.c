/* source_idx.c - the IDX files of MNIST and its relatives: all images of a role in one file of raw
 * grey pixels, labels in another.
 *
 * Header, big-endian: magic 0x00000803 (unsigned bytes, 3 dimensions), images, rows, columns;
 * labels: magic 0x00000801, count. Plain or gzip (zlib's gzread takes both). Both files are held in
 * memory: 47 MB for the 60,000 images of MNIST. Everything about them is checked at open, so
 * reading a sample cannot fail. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/source/source.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define IDX_IMAGES_MAGIC 0x00000803u
#define IDX_LABELS_MAGIC 0x00000801u
#define MAX_SIDE         16384u
#define MAX_IDX_BYTES    ((size_t)64 << 30)
#define READ_PIECE       ((size_t)1 << 28) /* gzread counts in unsigned int */
#define FIRST_PIECE      ((size_t)1 << 20)
#define PATH_BYTES       4096

typedef struct IdxSource {
    Source base;
    int width, height;
    uint8_t *pixels;  /* [images, height, width] */
    uint8_t *labels;  /* [images] */
    const char *stem; /* file name without .gz, for messages */
} IdxSource;

typedef struct IdxNames { /* the spellings in use; any of them may end in .gz */
    const char *images, *labels;
} IdxNames;

static const IdxNames spellings[2][2] = {
    [DATA_TRAIN] = { { "train-images-idx3-ubyte", "train-labels-idx1-ubyte" },
                     { "train-images.idx3-ubyte", "train-labels.idx1-ubyte" } },
    [DATA_VAL] = { { "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" },
                   { "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte" } },
};

/* Writes folder/name or folder/name.gz to path, whichever exists. */
static bool find_file(const char *folder, const char *name, char path[PATH_BYTES])
{
    static const char *const endings[] = { "", ".gz" };
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, name, endings[i]);
        if (length < PATH_BYTES && fs_exists(path) && !fs_is_dir(path)) return true;
    }
    return false;
}

static const IdxNames *find_spelling(const char *folder, DataRole role, char path[PATH_BYTES])
{
    for (int i = 0; i < 2; i++)
        if (find_file(folder, spellings[role][i].images, path)) return &spellings[role][i];
    return NULL;
}

static Status idx_probe(const char *path, DataRole role, bool *yes)
{
    char file[PATH_BYTES];
    *yes = find_spelling(path, role, file) != NULL;
    return OK;
}

/* Reads exactly bytes; a shorter file or a damaged gzip stream is ERR_DATA. */
static Status read_exactly(gzFile file, const char *path, void *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        size_t piece = bytes - done < READ_PIECE ? bytes - done : READ_PIECE;
        int got = gzread(file, (uint8_t *)out + done, (unsigned)piece);
        if (got <= 0) {
            int code = Z_OK;
            const char *reason = gzerror(file, &code);
            if (code == Z_ERRNO) reason = strerror(errno);
            return fail(ERR_DATA, "%s: %s", path,
                        code == Z_OK || code == Z_BUF_ERROR ? "the file is truncated" : reason);
        }
        done += (size_t)got;
    }
    return OK;
}

/* The same into memory that grows with what is really there: a header may say anything. *out is
 * owned by the caller, on failure too. */
static Status read_growing(gzFile file, const char *path, uint8_t **out, size_t bytes)
{
    size_t done = 0, piece = FIRST_PIECE;
    while (done < bytes) {
        if (piece > bytes - done) piece = bytes - done;
        uint8_t *grown = mem_realloc(*out, done + piece);
        if (!grown) return ERR_MEMORY;
        *out = grown;
        TRY(read_exactly(file, path, *out + done, piece));
        done += piece;
        piece = done;
    }
    return OK;
}

static Status read_header(gzFile file, const char *path, uint32_t magic, uint32_t *dims, int count)
{
    uint8_t raw[16];
    TRY(read_exactly(file, path, raw, 4 + 4 * (size_t)count));
    uint32_t words[4];
    for (int i = 0; i <= count; i++) {
        const uint8_t *p = raw + 4 * i;
        words[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    if (words[0] != magic)
        return fail(ERR_DATA, "%s: magic number is 0x%08x, expected 0x%08x", path, words[0], magic);
    for (int i = 0; i < count; i++) dims[i] = words[i + 1];
    return OK;
}

/* Reads a file of count dimensions: the header's sizes to dims, the bytes after it to *out. */
static Status read_idx(const char *path, uint32_t magic, uint32_t *dims, int count, uint8_t **out)
{
    gzFile file = gzopen(path, "rb");
    if (!file) return fail(ERR_DATA, "%s: cannot open: %s", path, strerror(errno));
    Status status = read_header(file, path, magic, dims, count);
    size_t bytes = 1;
    for (int i = 0; i < count && status == OK; i++) {
        if (dims[i] == 0 || (i > 0 && dims[i] > MAX_SIDE) || !mem_mul(bytes, dims[i], &bytes) ||
            bytes > MAX_IDX_BYTES)
            status = fail(ERR_DATA, "%s: size %u in dimension %d of the header is out of range",
                          path, dims[i], i);
    }
    if (status == OK) status = read_growing(file, path, out, bytes);
    uint8_t extra;
    /* This read also makes zlib check the gzip checksum at the end. */
    int more = status == OK ? gzread(file, &extra, 1) : 0;
    if (more > 0) status = fail(ERR_DATA, "%s: longer than its header says", path);
    if (more < 0) status = fail(ERR_DATA, "%s: %s", path, gzerror(file, &(int){ 0 }));
    gzclose_r(file);
    return status;
}

static Status count_classes(IdxSource *s)
{
    int classes = 0;
    for (int64_t i = 0; i < s->base.images; i++)
        if (s->labels[i] >= classes) classes = s->labels[i] + 1;
    TRY(source_number_classes(&s->base, classes));
    for (int64_t i = 0; i < s->base.images; i++) s->base.class_images[s->labels[i]]++;
    return OK;
}

static Status fill_idx(IdxSource *s, const DatasetOptions *o)
{
    char images_path[PATH_BYTES], labels_path[PATH_BYTES];
    if (!fs_is_dir(o->path)) return source_no_folder(o->path);
    const IdxNames *names = find_spelling(o->path, o->role, images_path);
    if (!names)
        return fail(ERR_DATA, "%s: no %s or %s.gz in this folder", o->path,
                    spellings[o->role][0].images, spellings[o->role][0].images);
    if (!find_file(o->path, names->labels, labels_path))
        return fail(ERR_DATA, "%s: no %s or %s.gz in this folder", o->path, names->labels,
                    names->labels);
    s->stem = names->images;
    uint32_t dims[3], labels = 0;
    TRY(read_idx(images_path, IDX_IMAGES_MAGIC, dims, 3, &s->pixels));
    TRY(read_idx(labels_path, IDX_LABELS_MAGIC, &labels, 1, &s->labels));
    if (labels != dims[0])
        return fail(ERR_DATA, "%s: %u labels for the %u images of %s", labels_path, labels, dims[0],
                    images_path);
    s->base.images = dims[0];
    s->height = (int)dims[1];
    s->width = (int)dims[2];
    return count_classes(s);
}

static void idx_close(Source *base)
{
    IdxSource *s = (IdxSource *)base;
    mem_free(s->pixels);
    mem_free(s->labels);
    source_free_classes(base);
    mem_free(s);
}

static Status idx_open(Source **out, const DatasetOptions *o, const Index *index)
{
    (void)index;
    IdxSource *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    Status status = fill_idx(s, o);
    if (status == OK) *out = &s->base;
    else idx_close(&s->base);
    return status;
}

static Status idx_read(const Source *base, int64_t id, ByteBuf *buf, Sample *out)
{
    (void)buf;
    const IdxSource *s = (const IdxSource *)base;
    size_t bytes = (size_t)s->width * (size_t)s->height;
    *out =
        (Sample){ .image = image_packed(s->pixels + (size_t)id * bytes, s->width, s->height, 1) };
    return OK;
}

static int idx_label(const Source *base, int64_t id)
{
    return ((const IdxSource *)base)->labels[id];
}

static void idx_describe(const Source *base, int64_t id, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s[%lld]", ((const IdxSource *)base)->stem, (long long)id);
}

const SourceKind source_idx = {
    .name = "idx",
    .in_memory = true,
    .probe = idx_probe,
    .open = idx_open,
    .read = idx_read,
    .label = idx_label,
    .describe = idx_describe,
    .close = idx_close,
};
