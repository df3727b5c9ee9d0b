/* source_webdataset.c - tar files as WebDataset lays them out: the files of a sample follow each
 * other and share a key.
 *
 * The key is the member's path up to the first dot of its last part; what follows says what the
 * file is: .jpg, .jpeg, .jpe, .jfif or .png, the first of these that is there, is the image, .cls
 * the label, a number in ASCII. Tar files without any .cls are taken as an ImageFolder tree that
 * was packed whole: the folders above all members in common are left away, the first one below is
 * the class, and each image is a sample, whatever its name.
 *
 * The first start reads all files once, several at a time (tar_scan.h), and keeps where each image
 * lies, with its checksum; reading is that of source_packed.c. Samples are ordered by label, then
 * by path, which for names taken from an ImageFolder tree is its order. */
#include "base/log.h"
#include "base/mem.h"
#include "data/source/packed_scan.h"
#include "data/source/source_packed.h"
#include "data/source/tar_scan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_tar(const char *name)
{
    return str_ends_with_nocase(name, ".tar");
}

static Status webdataset_probe(const char *path, DataRole role, bool *yes)
{
    return packed_files_probe(path, role, is_tar, yes);
}

static Status read_tar(PackedScan *scan, int64_t file, ByteStream *s)
{
    return tar_scan_read(scan->found[file], s);
}

/* The images of one reading become the samples. */
static Status take_images(PackedScan *scan, bool labelled)
{
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarScan *t = scan->found[f];
        for (size_t i = 0; i < t->count; i++) {
            const TarImage *image = &t->images[i];
            if (labelled ? !image->is_samples : image->replaced) continue;
            const IndexEntry entry = { .offset = image->offset,
                                       .label = labelled ? image->label : 0,
                                       .bytes = image->bytes,
                                       .crc = image->crc };
            TRY(index_piece_add(&scan->pieces[f], NULL, t->text.text + image->path_at, &entry));
        }
    }
    return OK;
}

/* ---- classes by folder ---- */

typedef struct Tree {
    const char **paths; /* [count] of images, then those of folders without any: with a slash */
    size_t images, count;
    StrBuf folders; /* text of the latter */
    StrBuf text;    /* names of classes */
    const char **names;
    int64_t *class_images;
} Tree;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether one of the sorted paths begins with folder. */
static bool is_above(const char *folder, const char *const *paths, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(paths[middle], folder) < 0) low = middle + 1;
        else high = middle;
    }
    return low < count && strncmp(paths[low], folder, strlen(folder)) == 0;
}

/* Folders that no container has an image of. */
static Status add_folders(Tree *t)
{
    const char **images = mem_alloc(t->images * sizeof *images);
    if (!images) return ERR_MEMORY;
    memcpy(images, t->paths, t->images * sizeof *images);
    qsort(images, t->images, sizeof *images, by_text);
    const char *end = t->folders.text + t->folders.length;
    for (const char *at = t->folders.text; at < end; at += strlen(at) + 1)
        if (!is_above(at, images, t->images)) t->paths[t->count++] = at;
    mem_free((void *)images);
    return OK;
}

static Status list_paths(Tree *t, const PackedScan *scan)
{
    size_t folders = 0;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarScan *tar = scan->found[f];
        t->images += scan->pieces[f].count;
        for (size_t at = 0; at < tar->folders.length; folders++) {
            str_printf(&t->folders, "%s/", tar->folders.text + at);
            str_add_n(&t->folders, "", 1);
            at += strlen(tar->folders.text + at) + 1;
        }
    }
    if (t->folders.failed || !(t->paths = mem_alloc((t->images + folders) * sizeof *t->paths)))
        return fail(ERR_MEMORY, "out of memory while listing folders");
    for (int64_t f = 0; f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++)
            t->paths[t->count++] = index_piece_path(&scan->pieces[f], i);
    return folders ? add_folders(t) : OK;
}

/* The folder part that all paths share, with its slash. */
static size_t common_folder(const Tree *t)
{
    const char *first = t->paths[0], *slash = strrchr(first, '/');
    size_t common = slash ? (size_t)(slash - first) + 1 : 0;
    for (size_t i = 1; i < t->count; i++) {
        size_t n = 0;
        for (size_t at = 0; at < common && t->paths[i][at] == first[at]; at++)
            if (first[at] == '/') n = at + 1;
        common = n;
    }
    /* An image right in it: then its last part is a class. */
    bool flat = false;
    for (size_t i = 0; common > 0 && i < t->images; i++)
        flat |= strchr(t->paths[i] + common, '/') == NULL;
    while (flat && --common > 0 && first[common - 1] != '/') {
    }
    return common;
}

/* Cuts each path to what lies below the common folder; its first part is the class's name,
 * collected in text. */
static Status collect_names(Tree *t, const char *folder, size_t *count)
{
    char last[1024] = "";
    for (size_t i = 0; i < t->count; i++) {
        const char *path = t->paths[i];
        const size_t n = strcspn(path, "/");
        if (n == 0 || n >= sizeof last || !path[n])
            return fail(ERR_DATA, "%s: %s: no .cls beside it, and no folder to take its class from",
                        folder, path);
        /* most follow one of their class */
        if (strncmp(last, path, n) == 0 && last[n] == '\0') continue;
        memcpy(last, path, n);
        last[n] = '\0';
        str_add_n(&t->text, last, n + 1);
        ++*count;
    }
    return t->text.failed ? fail(ERR_MEMORY, "out of memory while listing classes") : OK;
}

static void label_by_folder(const Tree *t, PackedScan *scan, size_t classes)
{
    char name[1024];
    const char *key = name;
    for (int64_t f = 0; f < scan->files.count; f++) {
        IndexPiece *p = &scan->pieces[f];
        for (size_t i = 0; i < p->count; i++) {
            const char *path = index_piece_path(p, i);
            snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "/"), path);
            const char *const *found = bsearch(&key, t->names, classes, sizeof *t->names, by_text);
            ASSERT(found != NULL);
            p->entries[i].label = (uint32_t)(found - t->names);
            t->class_images[found - t->names]++;
        }
    }
}

/* Fills t->names, sorted, each name once. */
static Status find_folders(Tree *t, PackedScan *scan, int *classes)
{
    size_t count = 0, unique = 0;
    const size_t prefix = common_folder(t);
    for (size_t i = 0; i < t->count; i++) t->paths[i] += prefix;
    for (int64_t f = 0; f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++)
            scan->pieces[f].entries[i].path_at += prefix;
    TRY(collect_names(t, scan->files.folder, &count));
    t->names = mem_alloc(count * sizeof *t->names);
    t->class_images = mem_calloc(count, sizeof *t->class_images);
    if (!t->names || !t->class_images) return ERR_MEMORY;
    const char *at = t->text.text;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) t->names[i] = at;
    qsort(t->names, count, sizeof *t->names, by_text);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || strcmp(t->names[unique - 1], t->names[i]) != 0)
            t->names[unique++] = t->names[i];
    if (unique > PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "%s: more than %d classes", scan->files.folder,
                    PACKED_SCAN_MAX_CLASSES);
    *classes = (int)unique;
    label_by_folder(t, scan, unique);
    return OK;
}

/* ---- assembly ---- */

static Status assemble_by_label(Index **out, const PackedScan *scan, const ScanOptions *o)
{
    PackedFilesNames names;
    TRY(packed_files_names(&names, scan->files.folder, PACKED_FILES_CLASSES,
                           packed_scan_classes(scan), o->path));
    packed_files_number_rest(&names);
    Status status = packed_scan_build(out, scan, o, names.names, names.classes, names.given);
    packed_files_names_free(&names);
    return status;
}

static Status assemble_by_folder(Index **out, PackedScan *scan, const ScanOptions *o)
{
    Tree t = { 0 };
    int classes = 0;
    Status status = list_paths(&t, scan);
    if (status == OK) status = find_folders(&t, scan, &classes);
    if (status == OK && !o->allow_empty)
        status = scan_check_empty(o->path, t.names, t.class_images, (size_t)classes);
    if (status == OK) status = packed_scan_build(out, scan, o, t.names, classes, true);
    mem_free((void *)t.paths);
    mem_free((void *)t.names);
    mem_free(t.class_images);
    str_free(&t.folders);
    str_free(&t.text);
    return status;
}

/* What all files together have of one note: where *first is NULL, none. */
static int64_t count_notes(const PackedScan *scan, size_t place, const char **first)
{
    int64_t count = 0;
    *first = NULL;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarNote *n = (const TarNote *)(const void *)((const char *)scan->found[f] + place);
        if (n->count && !*first) *first = n->first.text;
        count += n->count;
    }
    return count;
}
#define COUNT_NOTES(scan, field, first) count_notes(scan, offsetof(TarScan, field), first)

static Status check_samples(const PackedScan *scan, const ScanOptions *o)
{
    const char *first;
    const int64_t imageless = COUNT_NOTES(scan, imageless, &first);
    if (imageless)
        log_warning("%s: samples left out, as they have no " SCAN_PICTURES " file: %lld, first %s",
                    o->path, (long long)imageless, first);
    const int64_t spare = COUNT_NOTES(scan, spare, &first);
    if (spare)
        log_warning(
            "%s: images left out: %lld, first %s; a sample is the files that agree up to the "
            "first dot, and its image the one that ends there in the first of " SCAN_PICTURES,
            o->path, (long long)spare, first);
    if (COUNT_NOTES(scan, twice, &first))
        return fail(ERR_DATA, "%s: %s: a second image of one sample", o->path, first);
    if (COUNT_NOTES(scan, unlabelled, &first))
        return fail(ERR_DATA, "%s: %s has no .cls file beside it, but others have", o->path, first);
    return OK;
}

static Status check_tree(const PackedScan *scan, const ScanOptions *o)
{
    const char *first;
    LeftOut left = { 0 };
    Status status = OK;
    for (int64_t f = 0; f < scan->files.count && status == OK; f++)
        status = left_out_merge(&left, &((const TarScan *)scan->found[f])->left);
    if (status == OK) status = left_out_tell(&left, o->path);
    left_out_free(&left);
    TRY(status);
    return COUNT_NOTES(scan, links, &first) ? fail(ERR_DATA, "%s: %s", o->path, first) : OK;
}

static Status assemble(Index **out, PackedScan *scan, const ScanOptions *o)
{
    size_t images = 0;
    bool labelled = false;
    for (int64_t f = 0; f < scan->files.count; f++)
        labelled |= ((const TarScan *)scan->found[f])->has_labels;
    TRY(labelled ? check_samples(scan, o) : check_tree(scan, o));
    TRY(take_images(scan, labelled));
    for (int64_t f = 0; f < scan->files.count; f++) images += scan->pieces[f].count;
    if (images == 0)
        return fail(ERR_DATA, "%s: no images in its tar files%s", o->path,
                    labelled ? " that share the path up to the first dot with a .cls" : "");
    return labelled ? assemble_by_label(out, scan, o) : assemble_by_folder(out, scan, o);
}

static Status webdataset_scan(Index **out, const ScanOptions *o)
{
    PackedScan scan = { .found_bytes = sizeof(TarScan), .read = read_tar };
    *out = NULL;
    Status status = packed_scan_run(&scan, o, is_tar, ".tar file");
    if (status == OK) status = assemble(out, &scan, o);
    for (int64_t f = 0; scan.found && f < scan.files.count; f++)
        if (scan.found[f]) tar_scan_free(scan.found[f]);
    packed_scan_free(&scan);
    return status;
}

const SourceKind source_webdataset = {
    .name = "webdataset",
    .probe = webdataset_probe,
    .scan = webdataset_scan,
    .scan_by_role = true,
    .scan_by_emptiness = true,
    .is_container = is_tar,
    SOURCE_PACKED_FROM_INDEX,
};
