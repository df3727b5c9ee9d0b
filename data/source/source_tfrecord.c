/* source_tfrecord.c - TFRecord files of tf.Examples, as converters for ImageNet and TensorFlow
 * Datasets write them.
 *
 * The first start reads all files once, several at a time, and verifies every checksum; the index
 * then knows where in which file each image lies, with a checksum of its own, and reading is that
 * of source_packed.c.
 *
 * Labels. Where records name their classes (image/class/synset, or without any of these
 * image/class/text), the classes are those names in the order of their labels, without labels that
 * no record has: ImageNet's converters count from 1, as 0 is "background". A label has one name and
 * a name one label. Other labels are taken as they are, and a file beside the records may name
 * them. Where a file name is known, samples are ordered by class and file name; else by file and
 * record. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "data/source/packed_scan.h"
#include "data/source/source_packed.h"
#include "data/source/tfrecord.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 1024

enum { SYNSETS, TEXTS, WAYS };
static const char *const way_keys[WAYS] = { "image/class/synset", "image/class/text" };

typedef struct TfNames { /* of labels, in one way */
    char **of;           /* [labels]; NULL: not there, or without a name */
    int labels;
} TfNames;

typedef struct TfScan { /* of a file */
    TfNames names[WAYS];
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

/* Copies a span as a string; false where it is too long or holds a NUL, as no name does. */
static bool copy_name(Span s, char out[MAX_NAME_BYTES])
{
    if (s.bytes >= MAX_NAME_BYTES || memchr(s.data, 0, s.bytes)) return false;
    memcpy(out, s.data, s.bytes);
    out[s.bytes] = '\0';
    return true;
}

/* Notes that label is called name; a label with two names would be a wrong one. */
static Status note_name(TfNames *names, int label, const char *name)
{
    int known = names->labels;
    if (label >= known) {
        int wanted = known > 0 ? 2 * known : 1024;
        if (wanted <= label) wanted = label + 1;
        char **grown = mem_realloc(names->of, (size_t)wanted * sizeof *grown);
        if (!grown) return ERR_MEMORY;
        memset(grown + known, 0, (size_t)(wanted - known) * sizeof *grown);
        names->of = grown;
        names->labels = wanted;
    }
    char **place = &names->of[label];
    if (*place && strcmp(*place, name) != 0)
        return fail(ERR_DATA, "label %d belongs to both %s and %s", label, *place, name);
    if (!*place && !(*place = mem_strdup(name))) return ERR_MEMORY;
    return OK;
}

/* What a record calls its class, "" for nothing. Beside a synset its text does not count. */
static Status take_names(TfScan *scan, const TfrecordExample *e, char out[MAX_NAME_BYTES])
{
    const Span spans[WAYS] = { e->synset, e->text };
    bool named = false;
    for (int way = 0; way < WAYS && !named; way++) {
        if (!spans[way].data) continue;
        if (!copy_name(spans[way], out))
            return fail(ERR_DATA, "%s is not a valid name", way_keys[way]);
        named = out[0] != '\0';
        if (named) TRY(note_name(&scan->names[way], (int)e->label, out));
    }
    return OK;
}

static Status take_example(PackedScan *scan, int64_t file, int64_t number, const uint8_t *data,
                           size_t bytes, uint64_t at)
{
    TfrecordExample e;
    char class_name[MAX_NAME_BYTES] = "", name[MAX_NAME_BYTES] = "";
    TRY(tfrecord_parse_example(data, bytes, &e));
    if (!e.image.data) return fail(ERR_DATA, "it has no image (image/encoded or image)");
    if (!e.has_label)
        return fail(ERR_DATA, "it has no label (image/class/label or label, a whole number)");
    if (e.label < 0 || e.label >= PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "label %lld is out of range", (long long)e.label);
    if (e.image.bytes > INDEX_MAX_SAMPLE_BYTES)
        return fail(ERR_DATA, "its image is larger than 64 MB");
    TRY(take_names(scan->found[file], &e, class_name));
    if (!e.name.data || !copy_name(e.name, name)) name[0] = '\0';
    IndexEntry entry = { .offset = at + (uint64_t)(e.image.data - data),
                         .label = (uint32_t)e.label,
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
    ByteBuf record FREED_BY(byte_buf_free) = { 0 };
    for (int64_t number = 0;; number++) {
        size_t bytes = 0;
        uint64_t at = 0;
        bool more = true;
        TRY(tfrecord_next(s, &record, &bytes, &at, &more));
        if (!more) return OK;
        Status status = take_example(scan, file, number, record.data, bytes, at);
        if (status != OK) return fail_note(status, "record %lld", (long long)number);
    }
}

/* ---- class names ---- */

typedef struct Named {
    const char *name;
    int label;
} Named;

typedef struct Classes {
    int labels;         /* as they are written: 0 .. labels - 1 */
    const char **names; /* [labels] borrowed; NULL: without a name */
    Named *sorted;      /* [named] those with one, by name */
    int *to;            /* [labels] the class of each; -1: no record has it */
    int named;
    const char *key; /* where the names are from; NULL: there are none */
} Classes;

/* Names of all labels over all files. */
static Status merge_names(Classes *c, const PackedScan *scan, int way)
{
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TfNames *found = &((const TfScan *)scan->found[f])->names[way];
        for (int label = 0; label < found->labels && label < c->labels; label++) {
            const char *name = found->of[label];
            if (!name) continue;
            c->key = way_keys[way];
            if (c->names[label] && strcmp(c->names[label], name) != 0)
                return fail(ERR_DATA, "label %d belongs to both %s and %s", label, c->names[label],
                            name);
            c->names[label] = name;
        }
    }
    return OK;
}

static int by_name(const void *pa, const void *pb)
{
    const Named *a = pa, *b = pb;
    const int order = strcmp(a->name, b->name);
    return order ? order : a->label - b->label;
}

/* Each label has one name, and each name one label. */
static Status check_names(Classes *c)
{
    if (!(c->sorted = mem_alloc((size_t)c->labels * sizeof *c->sorted))) return ERR_MEMORY;
    for (int label = 0; label < c->labels; label++) {
        if (c->names[label]) c->sorted[c->named++] = (Named){ c->names[label], label };
        else if (c->to[label] >= 0)
            return fail(ERR_DATA, "label %d has no name in %s, but others have", label, c->key);
    }
    qsort(c->sorted, (size_t)c->named, sizeof *c->sorted, by_name);
    for (int i = 1; i < c->named; i++) {
        const Named *one = &c->sorted[i - 1], *other = &c->sorted[i];
        if (strcmp(one->name, other->name) == 0)
            return fail(ERR_DATA, "%s is the name of both label %d and label %d", one->name,
                        one->label, other->label);
    }
    return OK;
}

static Status find_names(Classes *c, const PackedScan *scan)
{
    c->labels = packed_scan_classes(scan);
    c->names = mem_calloc((size_t)c->labels, sizeof *c->names);
    c->to = mem_alloc((size_t)c->labels * sizeof *c->to);
    if (!c->names || !c->to) return ERR_MEMORY;
    memset(c->to, -1, (size_t)c->labels * sizeof *c->to);
    for (int64_t f = 0; f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++) {
            const int label = (int)scan->pieces[f].entries[i].label;
            c->to[label] = label;
        }
    for (int way = 0; way < WAYS && !c->key; way++) TRY(merge_names(c, scan, way));
    return c->key ? check_names(c) : OK;
}

/* The first label that has no line in the file, or by_name one with another name; -1: none. */
static int find_misfit(const Classes *c, const PackedFilesNames *table, int first, bool by_name)
{
    for (int label = 0; label < c->labels; label++) {
        const int line = label - first;
        if (c->to[label] >= 0 && (line < 0 || line >= table->classes ||
                                  (by_name && strcmp(table->names[line], c->names[label]) != 0)))
            return label;
    }
    return -1;
}

/* With a file of names beside the records: whether its first line is label 0 or 1. It may call
 * synsets otherwise, and those come with labels that count from 1. */
static Status match_file(Classes *c, const PackedFilesNames *table)
{
    const bool synsets = c->key == way_keys[SYNSETS];
    const int first = find_misfit(c, table, 1, true) < 0   ? 1
                      : find_misfit(c, table, 0, true) < 0 ? 0
                                                           : synsets && c->to[0] < 0;
    const int wrong = find_misfit(c, table, first, !synsets), line = wrong - first;
    if (wrong >= 0)
        return fail(ERR_DATA, "label %d is %s in its records, but %s in " PACKED_FILES_CLASSES,
                    wrong, c->names[wrong],
                    line < 0 || line >= table->classes ? "has no line" : table->names[line]);
    for (int label = 0; label < c->labels; label++)
        if (c->to[label] >= 0) c->to[label] -= first;
    return OK;
}

/* Labels that no record has are left out. */
static void close_gaps(Classes *c)
{
    for (int label = 0, place = 0; label < c->labels; label++) {
        if (!c->names[label]) continue;
        c->names[place] = c->names[label];
        c->to[label] = place++;
    }
}

static void relabel(const Classes *c, PackedScan *scan)
{
    for (int64_t f = 0; f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++) {
            IndexEntry *e = &scan->pieces[f].entries[i];
            e->label = (uint32_t)c->to[e->label];
        }
}

static Status build_tfrecord(Index **out, Classes *c, PackedScan *scan, const ScanOptions *o)
{
    const char *folder = scan->files.folder;
    PackedFilesNames table;
    /* of labels that count from 1 the last one has no line of its own number */
    TRY(packed_files_names(&table, folder, PACKED_FILES_CLASSES, c->key ? 1 : c->labels, o->path));
    const bool by_records = c->key && !table.given;
    Status status = OK;
    if (by_records) close_gaps(c);
    else if (c->key) status = match_file(c, &table);
    else if (!table.given) {
        mem_free(table.names);
        TRY(packed_files_names(&table, folder, PACKED_FILES_LABELS, c->labels, o->path));
    }
    if (status != OK) fail_note(status, "%s", o->path);
    if (status == OK) {
        relabel(c, scan);
        status = packed_scan_build(
            out, scan, o, by_records ? c->names : (const char *const *)table.names,
            by_records ? c->named : table.classes, by_records || table.given);
    }
    mem_free(table.names);
    return status;
}

static Status assemble(Index **out, PackedScan *scan, const ScanOptions *o)
{
    Classes c = { 0 };
    Status status = find_names(&c, scan);
    if (status != OK) fail_note(status, "%s", o->path);
    else status = build_tfrecord(out, &c, scan, o);
    mem_free((void *)c.names);
    mem_free(c.sorted);
    mem_free(c.to);
    return status;
}

static void free_names(TfScan *scan)
{
    for (int way = 0; scan && way < WAYS; way++) {
        TfNames *names = &scan->names[way];
        for (int c = 0; c < names->labels; c++) mem_free(names->of[c]);
        mem_free(names->of);
    }
}

static Status tfrecord_scan(Index **out, const ScanOptions *o)
{
    PackedScan scan FREED_BY(packed_scan_free) = { .found_bytes = sizeof(TfScan),
                                                   .read = read_records };
    *out = NULL;
    Status status =
        packed_scan_run(&scan, o, is_tfrecord, "TFRecord file (NAME-00000-of-00001, .tfrecord)");
    if (status == OK) status = assemble(out, &scan, o);
    for (int64_t f = 0; scan.found && f < scan.files.count; f++) free_names(scan.found[f]);
    return status;
}

const SourceKind source_tfrecord = {
    .name = "tfrecord",
    .scan = tfrecord_scan,
    .is_container = is_tfrecord,
    SOURCE_PACKED_FROM_INDEX,
};
