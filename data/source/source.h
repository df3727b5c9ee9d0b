/* source.h - where samples come from: one vtable, one file per kind of source.
 *
 * A source knows how many samples there are, their labels, and how to hand over one sample: either
 * encoded bytes (a file that decoder.c has to look at) or raw pixels. After open a source is
 * read-only, so any number of threads may read from it, each with its own buffer.
 *
 * Most kinds have an index (index.h): scan makes it, once for all ranks of a run, and open starts
 * from it. Kinds without a scan hold all of their few samples in memory.
 *
 * Errors of read: ERR_DATA = this sample is bad (missing, empty, too large), the caller's
 * bad-sample policy applies; ERR_IO = the file system failed and kept failing, which says nothing
 * about the sample: the run must stop; ERR_MEMORY. The sentence names the sample. */
#ifndef CONVOY_DATA_SOURCE_SOURCE_H
#define CONVOY_DATA_SOURCE_SOURCE_H
#include "data/decode/image.h"
#include "data/index/class_list.h"
#include "data/index/scan.h"
#include "data/options.h"
#include <stdbool.h>

typedef struct Sample { /* borrowed until the next read with the same buffer, or of the source */
    EncodedImage file;  /* its seek index lies directly behind it; bytes NULL: image is it */
    Image image;
} Sample;

/* Of a file with seek_bytes of a seek index behind it. */
static inline Sample source_file_sample(const uint8_t *bytes, size_t size, size_t seek_bytes)
{
    return (Sample){ .file = { bytes, size, seek_bytes ? bytes + size : NULL, seek_bytes } };
}

static inline size_t source_sample_bytes(const Sample *s) /* without a seek index */
{
    return s->file.bytes ? s->file.size : image_bytes(&s->image);
}

typedef struct Source Source;

typedef struct SourceKind {
    const char *name;
    bool in_memory; /* read() never waits for storage: decode threads call it themselves */
    /* Does what lies there look like this kind? For DATA_AUTO. ERR_MEMORY only. NULL: where there
     * are containers, or never. */
    Status (*probe)(const char *path, DataRole role, bool *yes);
    /* Lists what lies at o->path; NULL for kinds without an index. */
    Status (*scan)(Index **out, const ScanOptions *o);
    bool scan_by_emptiness; /* the index depends on allow_empty */
    bool several_labels;    /* it may have any number of labels for a sample */
    /* samples lie in files of such names, which may tell sets apart (packed_files.h), so that the
     * index depends on the role; NULL: not */
    bool (*is_container)(const char *name);
    bool scan_is_cheap; /* no index file is kept beside the run */
    /* index: borrowed until the source is closed; NULL for kinds without a scan. The caller sets
     * (*out)->kind. */
    Status (*open)(Source **out, const DatasetOptions *o, const Index *index);
    Status (*read)(const Source *s, int64_t id, ByteBuf *buf, Sample *out);
    /* Instead of read, where a sample is made at any size, in a square. */
    Status (*make)(const Source *s, int64_t id, int size, ByteBuf *buf, Sample *out);
    int (*label)(const Source *s, int64_t id);
    void (*describe)(const Source *s, int64_t id, char *out, size_t bytes);
    /* Asks the page cache to forget the sample; *gone (may be NULL): whether it did. NULL: there is
     * no such file. */
    void (*forget)(const Source *s, int64_t id, bool *gone);
    void (*close)(Source *s);
} SourceKind;

struct Source { /* first member of each kind's struct; filled by its open, but for kind */
    const SourceKind *kind;
    int64_t images;
    int classes;
    const char **class_names; /* [classes] */
    int64_t *class_images;    /* [classes] */
    /* The row of bits (index.h) of each sample, [images][label_bytes]; NULL: samples have one label
     * each. Borrowed from the index, if there is one. */
    const uint8_t *labels;
    size_t label_bytes;
    bool named_classes; /* the names are more than the numbers */
    const Index *index; /* borrowed; NULL without */
};

extern const SourceKind source_imagefolder, source_list, source_idx, source_synthetic,
    source_shards, source_webdataset, source_tfrecord, source_cifar, source_fairseq,
    source_synthetic_text;

/* size: what the caller will show, for sources that make their samples. Errors of read. */
Status source_read(const Source *s, int64_t id, int size, ByteBuf *buf, Sample *out);
/* What every source with an index does first: fills the struct from it. */
Status source_use_index(Source *s, const Index *index);
/* Compares what an index that another process has made says with what lies at path here: the sizes
 * of all containers, or of the list; a folder must be there. ERR_DATA names what is missing or
 * differs. */
Status source_check_index(const Index *index, const char *path);
Status source_no_folder(const char *path); /* ERR_DATA: none, or something else is there */
/* SourceKind.label of sources with an index */
int source_index_label(const Source *s, int64_t id);
/* Encoded size of a sample, before it is read; -1: not known. */
int64_t source_bytes(const Source *s, int64_t id);

/* Its classes, borrowed; owner: for messages. */
ClassList source_class_list(const Source *s, const char *owner);
/* Allocates both class arrays; for sources whose class names are the numbers themselves. Freed by
 * source_free_classes. */
Status source_number_classes(Source *s, int classes);
void source_free_classes(Source *s);

/* Calls attempt(cookie, n) for n = 0, 1, ... until it returns 0 or an errno that is about this
 * sample (missing, no permission, ...); others, such as EIO, ESTALE, EMFILE, are tried four times
 * with growing pauses and are then ERR_IO. attempt may set *status to something else that went
 * wrong, which ends the trying. */
Status source_retry(const char *name, int (*attempt)(void *cookie, int n, Status *status),
                    void *cookie);
/* Reads a whole file, relative to a folder handle, into buf, tried as source_retry does. Errors
 * as read above; name is what the sentence calls the file. *bytes is at least 1. */
Status source_read_file(int folder, const char *path, const char *name, ByteBuf *buf,
                        size_t *bytes);
/* Source.forget for bytes of a file from offset (bytes 0: to its end). */
void source_forget_file(int folder, const char *path, int64_t offset, int64_t bytes, bool *gone);
#endif
