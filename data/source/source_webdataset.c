/* source_webdataset.c - tar files as WebDataset lays them out: the files of a sample follow each
 * other and share a key.
 *
 * The key is the member's path up to the first dot of its last part; what follows says what the
 * file is: .jpg, .jpeg or .png is the image, .cls the label, a number in ASCII. Other files are
 * skipped. Tar files without any .cls are taken as an ImageFolder tree that was packed whole: the
 * folders above all members in common are left away, and the first one below is the class.
 *
 * The first start reads all files once, several at a time, and keeps where each image lies, with
 * its checksum; reading is that of source_packed.c. Samples are ordered by label, then by path,
 * which for names taken from an ImageFolder tree is its order. */
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/source/packed_scan.h"
#include "data/source/source_packed.h"
#include "data/source/tar.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NO_LABEL    UINT32_MAX
#define LABEL_BYTES 32
#define PIECE_BYTES ((size_t)64 << 10)

typedef struct TarScan { /* of one file */
    TarReader reader;
    IndexPiece *piece;
    StrBuf key, path;     /* of the sample being collected; path of its image */
    IndexEntry entry;     /* of the sample being collected */
    bool open, has_image; /* something is being collected */
    int64_t labelled, unlabelled, imageless;
    StrBuf first_unlabelled, first_imageless;
    uint8_t buffer[PIECE_BYTES];
} TarScan;

static bool is_tar(const char *name)
{
    return str_ends_with_nocase(name, ".tar");
}

static Status webdataset_probe(const char *path, DataRole role, bool *yes)
{
    return packed_files_probe(path, role, is_tar, yes);
}

/* ---- samples ---- */

static Status note(StrBuf *first, int64_t *count, const StrBuf *name)
{
    if ((*count)++ == 0) str_add(first, name->text);
    return first->failed ? fail(ERR_MEMORY, "out of memory while listing samples") : OK;
}

static Status close_sample(TarScan *t)
{
    if (!t->open) return OK;
    t->open = false;
    if (!t->has_image) return note(&t->first_imageless, &t->imageless, &t->key);
    if (t->entry.label == NO_LABEL) TRY(note(&t->first_unlabelled, &t->unlabelled, &t->path));
    else t->labelled++;
    return index_piece_add(t->piece, NULL, t->path.text, &t->entry);
}

static Status open_sample(TarScan *t, const char *path, size_t key_bytes)
{
    bool same = t->open && t->key.length == key_bytes && memcmp(t->key.text, path, key_bytes) == 0;
    if (same) return OK;
    TRY(close_sample(t));
    str_clear(&t->key);
    str_add_n(&t->key, path, key_bytes);
    t->entry = (IndexEntry){ .label = NO_LABEL };
    t->has_image = false;
    t->open = true;
    return t->key.failed ? fail(ERR_MEMORY, "out of memory while listing samples") : OK;
}

static Status take_image(TarScan *t, const TarMember *m)
{
    if (t->has_image) return fail(ERR_DATA, "%s: a second image of one sample", m->path);
    if (m->bytes > INDEX_MAX_SAMPLE_BYTES) return fail(ERR_DATA, "%s: larger than 64 MB", m->path);
    uint32_t crc = 0;
    for (uint64_t left = m->bytes; left > 0;) {
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        TRY(tar_read(&t->reader, t->buffer, n));
        crc = crc32c_update(crc, t->buffer, n);
        left -= n;
    }
    t->entry.offset = m->offset;
    t->entry.bytes = (uint32_t)m->bytes;
    t->entry.crc = crc;
    t->has_image = true;
    str_clear(&t->path);
    str_add(&t->path, m->path);
    return t->path.failed ? fail(ERR_MEMORY, "out of memory while listing samples") : OK;
}

static Status take_label(TarScan *t, const TarMember *m)
{
    char text[LABEL_BYTES + 1] = { 0 };
    int64_t label = -1;
    if (m->bytes <= LABEL_BYTES) TRY(tar_read(&t->reader, text, (size_t)m->bytes));
    if (m->bytes > LABEL_BYTES || !str_to_i64(text, &label) || label < 0 ||
        label >= PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "%s: not a label: %.32s", m->path, text);
    t->entry.label = (uint32_t)label;
    return OK;
}

/* A part of the path begins with a dot, and is more than . or .. */
static bool is_hidden(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t bytes = strcspn(part, "/");
        if (part[0] == '.' && bytes > (part[1] == '.' ? 2U : 1U)) return true;
    }
    return false;
}

static Status take_member(TarScan *t, const TarMember *m)
{
    const char *slash = strrchr(m->path, '/'), *base = slash ? slash + 1 : m->path,
               *dot = strchr(base, '.');
    if (!m->regular || !dot || is_hidden(m->path)) return OK;
    TRY(open_sample(t, m->path, (size_t)(dot - m->path)));
    if (strcasecmp(dot, ".cls") == 0) return take_label(t, m);
    bool image = strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                 strcasecmp(dot, ".png") == 0;
    return image ? take_image(t, m) : OK;
}

static Status scan_members(TarScan *t)
{
    TarMember m;
    bool more = true;
    for (;;) {
        TRY(tar_next(&t->reader, &m, &more));
        if (!more) return close_sample(t);
        TRY(take_member(t, &m));
    }
}

static Status read_tar(PackedScan *scan, int64_t file, ByteStream *s)
{
    TarScan *t = scan->found[file];
    t->reader.stream = s;
    t->piece = &scan->pieces[file];
    Status status = scan_members(t);
    tar_free(&t->reader);
    return status;
}

/* ---- classes by folder ---- */

/* The folder part that all paths share, with its slash. */
static size_t common_folder(const PackedScan *scan)
{
    const char *first = NULL;
    size_t common = 0;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const IndexPiece *p = &scan->pieces[f];
        for (size_t i = 0; i < p->count; i++) {
            const char *path = index_piece_path(p, i), *slash = strrchr(path, '/');
            size_t folder = slash ? (size_t)(slash - path) + 1 : 0, n = 0;
            if (!first) {
                first = path;
                common = folder;
            }
            for (size_t at = 0; at < common && at < folder && path[at] == first[at]; at++)
                if (path[at] == '/') n = at + 1;
            common = n;
        }
    }
    /* An image right in it: then its last part is a class. */
    bool flat = false;
    for (int64_t f = 0; common > 0 && f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++)
            flat |= strchr(index_piece_path(&scan->pieces[f], i) + common, '/') == NULL;
    while (flat && --common > 0 && first[common - 1] != '/') {
    }
    return common;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Cuts each path to what lies below the common folder; its first part is the class's name,
 * collected in names. */
static Status collect_folders(PackedScan *scan, StrBuf *names, size_t *count)
{
    size_t prefix = common_folder(scan);
    char last[1024] = "";
    for (int64_t f = 0; f < scan->files.count; f++) {
        IndexPiece *p = &scan->pieces[f];
        for (size_t i = 0; i < p->count; i++) {
            p->entries[i].path_at += prefix;
            const char *path = index_piece_path(p, i), *slash = strchr(path, '/');
            size_t n = slash ? (size_t)(slash - path) : 0;
            if (n == 0 || n >= sizeof last)
                return fail(ERR_DATA,
                            "%s/%s: %s: no .cls beside it, and no folder to take its class from",
                            scan->files.folder, scan->files.names[f], path);
            /* most follow one of their class */
            if (strncmp(last, path, n) == 0 && last[n] == '\0') continue;
            memcpy(last, path, n);
            last[n] = '\0';
            str_add_n(names, last, n + 1);
            ++*count;
        }
    }
    return names->failed ? fail(ERR_MEMORY, "out of memory while listing classes") : OK;
}

static void label_by_folder(const PackedScan *scan, const char *const *names, size_t count)
{
    char name[1024];
    const char *key = name;
    for (int64_t f = 0; f < scan->files.count; f++) {
        IndexPiece *p = &scan->pieces[f];
        for (size_t i = 0; i < p->count; i++) {
            const char *path = index_piece_path(p, i);
            snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "/"), path);
            const char *const *found = bsearch(&key, names, count, sizeof *names, by_text);
            ASSERT(found != NULL);
            p->entries[i].label = (uint32_t)(found - names);
        }
    }
}

/* *names: a block of pointers into text, sorted, each name once. */
static Status find_folders(PackedScan *scan, StrBuf *text, const char ***names, int *classes)
{
    size_t count = 0, unique = 0;
    TRY(collect_folders(scan, text, &count));
    const char **list = mem_alloc(count * sizeof *list);
    if (!list) return ERR_MEMORY;
    const char *at = text->text;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) list[i] = at;
    qsort(list, count, sizeof *list, by_text);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(list[unique - 1], list[i]) != 0) list[unique++] = list[i];
    *names = list;
    if (unique > PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "%s: more than %d classes", scan->files.folder,
                    PACKED_SCAN_MAX_CLASSES);
    *classes = (int)unique;
    label_by_folder(scan, list, unique);
    return OK;
}

/* ---- assembly ---- */

static Status assemble_by_label(Index **out, const PackedScan *scan, const ScanOptions *o)
{
    PackedFilesNames names;
    TRY(packed_files_names(&names, scan->files.folder, packed_scan_classes(scan), o->path));
    packed_files_number_rest(&names);
    Status status = packed_scan_build(out, scan, o, names.names, names.classes, names.given);
    packed_files_names_free(&names);
    return status;
}

static Status assemble_by_folder(Index **out, PackedScan *scan, const ScanOptions *o)
{
    StrBuf text = { 0 };
    const char **names = NULL;
    int classes = 0;
    Status status = find_folders(scan, &text, &names, &classes);
    if (status == OK) status = packed_scan_build(out, scan, o, names, classes, true);
    mem_free((void *)names);
    str_free(&text);
    return status;
}

static Status assemble(Index **out, PackedScan *scan, const ScanOptions *o)
{
    int64_t labelled = 0, imageless = 0;
    const TarScan *unlabelled = NULL, *without_image = NULL;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarScan *t = scan->found[f];
        labelled += t->labelled;
        imageless += t->imageless;
        if (t->unlabelled && !unlabelled) unlabelled = t;
        if (t->imageless && !without_image) without_image = t;
    }
    if (without_image)
        log_warning("%s: %lld samples without a .jpg, .jpeg or .png file are left out, first %s",
                    o->path, (long long)imageless, without_image->first_imageless.text);
    if (labelled > 0 && unlabelled)
        return fail(ERR_DATA, "%s: %s has no .cls file beside it, but others have", o->path,
                    unlabelled->first_unlabelled.text);
    if (labelled == 0 && !unlabelled)
        return fail(ERR_DATA, "%s: no images in its tar files", o->path);
    return labelled > 0 ? assemble_by_label(out, scan, o) : assemble_by_folder(out, scan, o);
}

static void free_strings(TarScan *t)
{
    if (!t) return;
    str_free(&t->key);
    str_free(&t->path);
    str_free(&t->first_unlabelled);
    str_free(&t->first_imageless);
}

static Status webdataset_scan(Index **out, const ScanOptions *o)
{
    PackedScan scan = { .found_bytes = sizeof(TarScan), .read = read_tar };
    *out = NULL;
    Status status = packed_scan_run(&scan, o, is_tar, ".tar file");
    if (status == OK) status = assemble(out, &scan, o);
    for (int64_t f = 0; scan.found && f < scan.files.count; f++) free_strings(scan.found[f]);
    packed_scan_free(&scan);
    return status;
}

const SourceKind source_webdataset = {
    .name = "webdataset",
    .probe = webdataset_probe,
    .scan = webdataset_scan,
    .scan_by_role = true,
    SOURCE_PACKED_FROM_INDEX,
};
