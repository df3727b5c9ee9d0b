/* source.h - where samples come from: one vtable, one file per kind of source.
 *
 * A source knows how many samples there are, their labels, and how to hand over one sample: either encoded bytes (a
 * file that decode.c has to look at) or raw pixels. After open a source is read-only, so any number of threads may read
 * from it, each with its own buffer.
 *
 * Errors of read: ERR_DATA = this sample is bad (missing, empty, too large), the caller's bad-sample policy applies;
 * ERR_IO = the file system failed and kept failing, which says nothing about the sample: the run must stop; ERR_MEMORY.
 * The sentence names the sample. */
#ifndef CONVOY_DATA_SOURCE_H
#define CONVOY_DATA_SOURCE_H
#include "data/data.h"
#include "data/image.h"
#include <stdbool.h>

typedef struct Sample {
    bool encoded;        /* bytes hold a JPEG or PNG file; else image holds the pixels */
    const uint8_t *data; /* borrowed until the next read with the same buffer, or from the source itself */
    size_t bytes;
    const uint8_t *seek; /* the file's seek index (seek_index.h), borrowed as data is; NULL: none */
    size_t seek_bytes;
    ImageView image;
} Sample;

typedef struct Source Source;

typedef struct SourceKind {
    const char *name;
    bool in_memory; /* read() never waits for storage: decode threads call it themselves */
    Status (*open)(Source **out, const DatasetOptions *o);
    bool (*probe)(const char *path, DataRole role); /* does this folder look like this kind? for DATA_AUTO */
    /* image_size: what the caller will show; only the synthetic source, which can make any size, looks at it. */
    Status (*read)(const Source *s, int64_t id, int image_size, ByteBuf *buf, Sample *out);
    int (*label)(const Source *s, int64_t id);
    void (*describe)(const Source *s, int64_t id, char *out, size_t bytes);
    /* Asks the page cache to forget the sample; *gone (may be NULL): whether it did. NULL: there is no such file. */
    void (*forget)(const Source *s, int64_t id, bool *gone);
    void (*close)(Source *s);
} SourceKind;

struct Source { /* first member of each kind's struct; filled by its open */
    const SourceKind *kind;
    int64_t images;
    int classes;
    const char **class_names; /* [classes] */
    int64_t *class_images;    /* [classes] */
};

extern const SourceKind source_imagefolder, source_idx, source_synthetic;

/* Allocates both class arrays; for sources whose class names are the numbers themselves. Freed by source_free_classes.
 * */
Status source_number_classes(Source *s, int classes);
void source_free_classes(Source *s);

/* Reads a whole file, relative to a folder handle, into buf. Errors that are not about this file (EIO, ESTALE, EMFILE,
 * ...) are tried four times with growing pauses and are then ERR_IO. Errors as read above; name is what the sentence
 * calls the file. *bytes is at least 1. */
Status source_read_file(int folder, const char *path, const char *name, ByteBuf *buf, size_t *bytes);
/* Source.forget for bytes of a file from offset (bytes 0: to its end). */
void source_forget_file(int folder, const char *path, int64_t offset, int64_t bytes, bool *gone);
#endif
