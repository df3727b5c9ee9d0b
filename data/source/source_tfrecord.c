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
#include "data/source/packed_scan.h"
#include "data/source/source_packed.h"
#include "data/source/tfrecord.h"
#include <stdio.h>
#include <string.h>

#define MAX_NAME_BYTES 1024

typedef struct TfNames { /* of the classes found in a file */
    char **of;           /* [classes]; NULL: not there, or without a name */
    int classes;
} TfNames;

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
static Status note_class(TfNames *names, int label, const char *name)
{
    int known = names->classes;
    if (label >= known) {
        int wanted = known > 0 ? 2 * known : 1024;
        if (wanted <= label) wanted = label + 1;
        char **grown = mem_realloc(names->of, (size_t)wanted * sizeof *grown);
        if (!grown) return ERR_MEMORY;
        memset(grown + known, 0, (size_t)(wanted - known) * sizeof *grown);
        names->of = grown;
        names->classes = wanted;
    }
    char **place = &names->of[label];
    if (*place && strcmp(*place, name) != 0)
        return fail(ERR_DATA, "label %d belongs to both %s and %s", label, *place, name);
    if (!*place && !(*place = mem_strdup(name))) return ERR_MEMORY;
    return OK;
}

static Status take_example(PackedScan *scan, int64_t file, int64_t number, const uint8_t *data,
                           size_t bytes, uint64_t at)
{
    TfrecordExample e;
    char class_name[MAX_NAME_BYTES] = "", name[MAX_NAME_BYTES] = "";
    TRY(tfrecord_parse_example(data, bytes, &e));
    if (!e.image.data) return fail(ERR_DATA, "no image in it (image/encoded or image)");
    if (!e.has_label) return fail(ERR_DATA, "no label in it (image/class/label or label)");
    int64_t label = e.label - e.counts_from_1;
    if (label < 0 || label >= PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "label %lld is out of range", (long long)e.label);
    if (e.image.bytes > INDEX_MAX_SAMPLE_BYTES) return fail(ERR_DATA, "an image larger than 64 MB");
    if (e.class_name.data && !copy_name(e.class_name, class_name))
        return fail(ERR_DATA, "the synset is no name");
    if (!e.name.data || !copy_name(e.name, name)) name[0] = '\0';
    if (class_name[0]) TRY(note_class(scan->found[file], (int)label, class_name));
    IndexEntry entry = { .offset = at + (uint64_t)(e.image.data - data),
                         .label = (uint32_t)label,
                         .bytes = (uint32_t)e.image.bytes,
                         .crc = crc32c_update(0, e.image.data, e.image.bytes) };
    if (!name[0]) {
        /* Nothing to order by but the place; ten digits keep text in the order of numbers. */
        snprintf(name, sizeof name, "%.900s#%010lld", scan->files.names[file], (long long)number);
        return index_piece_add(&scan->pieces[file], NULL, name, &entry);
    }
    const char *folder = strchr(name, '/') ? NULL : class_name;
    return index_piece_add(&scan->pieces[file], folder, name, &entry);
}

static Status read_records(PackedScan *scan, int64_t file, ByteStream *s)
{
    ByteBuf record = { 0 };
    Status status = OK;
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

/* ---- class names ---- */

/* Names of all labels over all files in one table of borrowed strings; labels that no file names
 * get their number. */
static Status merge_names(const PackedScan *scan, const char *path, const char **names, int classes,
                          bool *named)
{
    *named = false;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TfNames *found = scan->found[f];
        for (int c = 0; c < found->classes && c < classes; c++) {
            const char *name = found->of[c];
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

static Status assemble(Index **out, const PackedScan *scan, const ScanOptions *o)
{
    int classes = packed_scan_classes(scan);
    bool named = false;
    PackedFilesNames table;
    TRY(packed_files_names(&table, scan->files.folder, classes, o->path));
    Status status = OK;
    if (!table.given) status = merge_names(scan, o->path, table.names, classes, &named);
    packed_files_number_rest(&table);
    if (status == OK)
        status = packed_scan_build(out, scan, o, table.names, table.classes, named || table.given);
    packed_files_names_free(&table);
    return status;
}

static void free_names(TfNames *names)
{
    if (!names) return;
    for (int c = 0; c < names->classes; c++) mem_free(names->of[c]);
    mem_free(names->of);
}

static Status tfrecord_scan(Index **out, const ScanOptions *o)
{
    PackedScan scan = { .found_bytes = sizeof(TfNames), .read = read_records };
    *out = NULL;
    Status status =
        packed_scan_run(&scan, o, is_tfrecord, "TFRecord file (NAME-00000-of-00001, .tfrecord)");
    if (status == OK) status = assemble(out, &scan, o);
    for (int64_t f = 0; scan.found && f < scan.files.count; f++) free_names(scan.found[f]);
    packed_scan_free(&scan);
    return status;
}

const SourceKind source_tfrecord = {
    .name = "tfrecord",
    .probe = tfrecord_probe,
    .scan = tfrecord_scan,
    .scan_by_role = true,
    SOURCE_PACKED_FROM_INDEX,
};
