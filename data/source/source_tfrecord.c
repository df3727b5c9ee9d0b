/* source_tfrecord.c - TFRecord files of tf.Examples, as converters for ImageNet and TensorFlow
 * Datasets write them.
 *
 * The first start reads all files once, several at a time, and verifies every checksum; the index
 * then knows where in which file each image lies, with a checksum of its own, and reading is that
 * of source_packed.c.
 *
 * Labels. Records with image/class/synset come from the ImageNet converters, whose labels count
 * 1..1000 (0 is "background"): one is subtracted, so that classes are those of the ImageFolder
 * tree; the synset is the class name. Other labels are taken as they are. Where a file name is
 * known, samples are ordered by synset and file name, which is the order of the tree; else by file
 * and record. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/index/index_build.h"
#include "data/source/packed_files.h"
#include "data/source/source_packed.h"
#include "data/source/tfrecord.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MAX_CLASSES    1000000
#define MAX_NAME_BYTES 1024

typedef struct TfScan {
    const PackedFiles *files;
    IndexPiece *pieces; /* [files] */
    char ***names;      /* [files][classes] names of the classes found there, or NULL */
    int *classes;       /* [files] size of that table */
} TfScan;

static bool is_tfrecord(const char *name)
{
    const char *of = strstr(name, "-of-");
    while (of && strstr(of + 1, "-of-")) of = strstr(of + 1, "-of-");
    /* train-00000-of-01024: digits on both sides to the end */
    bool sharded = of && of > name && of[-1] >= '0' && of[-1] <= '9' && of[4] &&
                   of[4 + strspn(of + 4, "0123456789")] == '\0';
    return sharded || str_ends_with_nocase(name, ".tfrecord") ||
           str_ends_with_nocase(name, ".tfrecords");
}

static Status tfrecord_probe(const char *path, DataRole role, bool *yes)
{
    return packed_files_probe(path, role, is_tfrecord, yes);
}

/* Copies a span as a string; false where it is too long or holds a NUL, as no name does. */
static bool copy_name(Span s, char out[MAX_NAME_BYTES])
{
    if (s.bytes >= MAX_NAME_BYTES || memchr(s.data, 0, s.bytes)) return false;
    memcpy(out, s.data, s.bytes);
    out[s.bytes] = '\0';
    return true;
}

/* Notes that label is called name; a label with two names would be a wrong one. */
static Status note_class(TfScan *scan, int64_t file, int label, const char *name)
{
    int known = scan->classes[file];
    if (label >= known) {
        int wanted = known > 0 ? 2 * known : 1024;
        if (wanted <= label) wanted = label + 1;
        char **grown = mem_realloc(scan->names[file], (size_t)wanted * sizeof *grown);
        if (!grown) return ERR_MEMORY;
        memset(grown + known, 0, (size_t)(wanted - known) * sizeof *grown);
        scan->names[file] = grown;
        scan->classes[file] = wanted;
    }
    char **place = &scan->names[file][label];
    if (*place && strcmp(*place, name) != 0)
        return fail(ERR_DATA, "label %d belongs to both %s and %s", label, *place, name);
    if (!*place && !(*place = mem_strdup(name))) return ERR_MEMORY;
    return OK;
}

static Status take_example(TfScan *scan, int64_t file, int64_t number, const uint8_t *data,
                           size_t bytes, uint64_t at)
{
    TfrecordExample e;
    char class_name[MAX_NAME_BYTES] = "", name[MAX_NAME_BYTES] = "";
    TRY(tfrecord_parse_example(data, bytes, &e));
    if (!e.image.data) return fail(ERR_DATA, "no image in it (image/encoded or image)");
    if (!e.has_label) return fail(ERR_DATA, "no label in it (image/class/label or label)");
    int64_t label = e.label - e.counts_from_1;
    if (label < 0 || label >= MAX_CLASSES)
        return fail(ERR_DATA, "label %lld is out of range", (long long)e.label);
    if (e.image.bytes > INDEX_MAX_SAMPLE_BYTES) return fail(ERR_DATA, "an image larger than 64 MB");
    if (e.class_name.data && !copy_name(e.class_name, class_name))
        return fail(ERR_DATA, "the synset is no name");
    if (!e.name.data || !copy_name(e.name, name)) name[0] = '\0';
    if (class_name[0]) TRY(note_class(scan, file, (int)label, class_name));
    IndexEntry entry = { .offset = at + (uint64_t)(e.image.data - data),
                         .label = (uint32_t)label,
                         .bytes = (uint32_t)e.image.bytes,
                         .crc = crc32c_update(0, e.image.data, e.image.bytes) };
    if (!name[0]) {
        /* Nothing to order by but the place; ten digits keep text in the order of numbers. */
        snprintf(name, sizeof name, "%.900s#%010lld", scan->files->names[file], (long long)number);
        return index_piece_add(&scan->pieces[file], NULL, name, &entry);
    }
    const char *folder = strchr(name, '/') ? NULL : class_name;
    return index_piece_add(&scan->pieces[file], folder, name, &entry);
}

static Status scan_stream(TfScan *scan, int64_t file, ByteStream *s)
{
    ByteBuf record = { 0 };
    Status status = index_piece_stamp(&scan->pieces[file], scan->files->names[file],
                                      byte_stream_mtime_ns(s), byte_stream_bytes(s));
    bool more = true;
    for (int64_t number = 0; status == OK; number++) {
        size_t bytes = 0;
        uint64_t at = 0;
        status = tfrecord_next(s, &record, &bytes, &at, &more);
        if (status != OK || !more) break;
        status = take_example(scan, file, number, record.data, bytes, at);
        if (status != OK) fail_note(status, "record %lld", (long long)number);
    }
    byte_buf_free(&record);
    return status;
}

static Status scan_file(void *cookie, int64_t file)
{
    TfScan *scan = cookie;
    ByteStream *s = NULL;
    StrBuf path = { 0 };
    str_printf(&path, "%s/%s", scan->files->folder, scan->files->names[file]);
    Status status = path.failed ? ERR_MEMORY : byte_stream_open(&s, path.text);
    if (status == OK) {
        status = scan_stream(scan, file, s);
        if (status != OK && status != ERR_MEMORY) fail_note(status, "%s", path.text);
    }
    byte_stream_close(s);
    str_free(&path);
    return status;
}

/* ---- class names ---- */

/* Names of all labels over all files in one table of borrowed strings; labels that no file names
 * get their number. */
static Status merge_names(const TfScan *scan, const char *path, const char **names, int classes,
                          bool *named)
{
    *named = false;
    for (int64_t f = 0; f < scan->files->count; f++) {
        for (int c = 0; c < scan->classes[f] && c < classes; c++) {
            const char *name = scan->names[f][c];
            if (!name) continue;
            if (names[c] && strcmp(names[c], name) != 0)
                return fail(ERR_DATA, "%s: label %d belongs to both %s and %s", path, c, names[c],
                            name);
            names[c] = name;
            *named = true;
        }
    }
    return OK;
}

static int count_classes(const TfScan *scan)
{
    uint32_t highest = 0;
    for (int64_t f = 0; f < scan->files->count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++)
            if (scan->pieces[f].entries[i].label > highest)
                highest = scan->pieces[f].entries[i].label;
    return (int)highest + 1;
}

static Status assemble(Index **out, const TfScan *scan, const ScanOptions *o)
{
    int classes = count_classes(scan);
    bool named = false;
    PackedFilesNames table;
    TRY(packed_files_names(&table, scan->files->folder, classes, o->path));
    Status status = OK;
    if (!table.given) status = merge_names(scan, o->path, table.names, classes, &named);
    packed_files_number_rest(&table);
    IndexParts parts = { .format = o->format,
                         .root = o->root,
                         .class_names = table.names,
                         .classes = table.classes,
                         .flags = INDEX_PACKED | (named || table.given ? INDEX_NAMED : 0),
                         .pieces = scan->pieces,
                         .piece_count = (size_t)scan->files->count };
    if (status == OK) status = index_build(out, &parts);
    packed_files_names_free(&table);
    return status;
}

static void scan_free(TfScan *scan, int64_t files)
{
    for (int64_t f = 0; scan->pieces && f < files; f++) index_piece_free(&scan->pieces[f]);
    for (int64_t f = 0; scan->names && scan->classes && f < files; f++) {
        for (int c = 0; c < scan->classes[f]; c++) mem_free(scan->names[f][c]);
        mem_free(scan->names[f]);
    }
    mem_free(scan->pieces);
    mem_free(scan->names);
    mem_free(scan->classes);
}

static Status tfrecord_scan(Index **out, const ScanOptions *o)
{
    PackedFiles files;
    *out = NULL;
    TRY(packed_files_list(&files, o->path, o->role, is_tfrecord));
    size_t n = (size_t)files.count;
    TfScan scan = { .files = &files,
                    .pieces = mem_calloc(n, sizeof *scan.pieces),
                    .names = mem_calloc(n, sizeof *scan.names),
                    .classes = mem_calloc(n, sizeof *scan.classes) };
    Status status = scan.pieces && scan.names && scan.classes ? OK : ERR_MEMORY;
    if (n == 0)
        status = packed_files_none(o->path, "TFRecord file (NAME-00000-of-00001, .tfrecord)");
    if (status == OK) status = parallel_run(o->threads, files.count, "scan", scan_file, &scan);
    if (status == OK) status = assemble(out, &scan, o);
    scan_free(&scan, files.count);
    packed_files_free(&files);
    return status;
}

const SourceKind source_tfrecord = {
    .name = "tfrecord",
    .probe = tfrecord_probe,
    .scan = tfrecord_scan,
    .scan_by_role = true,
    .open = source_packed_open,
    .read = source_packed_read,
    .bytes = source_index_bytes,
    .label = source_index_label,
    .describe = source_packed_describe,
    .forget = source_packed_forget,
    .close = source_packed_close,
};
