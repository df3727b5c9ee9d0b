/* source_webdataset.c - tar files as WebDataset lays them out: the files of a sample follow each
 * other and share a key.
 *
 * The key is the member's path up to the first dot of its last part; what follows says what the
 * file is: .jpg, .jpeg, .jpe, .jfif or .png, the first of these that is there, is the image, .cls
 * the label, a number in ASCII. Tar files without any .cls are taken as an ImageFolder tree that
 * was packed whole: the folders above all members in common are left away, the first one below is
 * the class, and each image is a sample, whatever its name. As in the tree, images beside the class
 * folders are left out.
 *
 * The first start reads all files once, several at a time (tar_scan.h), and keeps where each image
 * lies, with its checksum; reading is that of source_packed.c. Samples are ordered by label, then
 * by path, which for names taken from an ImageFolder tree is its order. */
#include "base/log.h"
#include "base/mem.h"
#include "data/index/left_out.h"
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

static Status read_tar(PackedScan *scan, int64_t file, ByteStream *s)
{
    return tar_scan_read(scan->found[file], s);
}

/* path: its own, or what counts of it */
static Status add_image(PackedScan *scan, int64_t file, const TarItem *image, const char *path,
                        uint32_t label)
{
    const IndexEntry entry = {
        .offset = image->offset, .label = label, .bytes = (uint32_t)image->bytes, .crc = image->crc
    };
    return index_piece_add(&scan->pieces[file], NULL, path, &entry);
}

static Status no_images(const char *path, const char *why)
{
    return fail(ERR_DATA, "%s: no images in its tar files%s", path, why);
}

/* ---- samples ---- */

typedef struct Note { /* how many, and the first of them */
    int64_t count;
    const char *first;
} Note;

typedef struct Notes {
    int64_t images;
    Note imageless, spare; /* samples without an image; images of none */
} Notes;

static void note(Note *n, const char *path)
{
    if (n->count++ == 0) n->first = path;
}

static bool same_key(const TarItem *a, const TarItem *b)
{
    return a->key_bytes == b->key_bytes && memcmp(a->path, b->path, a->key_bytes) == 0;
}

/* Members with one key that follow each other. */
static Status take_sample(PackedScan *scan, int64_t file, const TarItem *first, const TarItem *end,
                          Notes *notes)
{
    const TarItem *best = NULL, *label = NULL;
    int best_ending = 0;
    for (const TarItem *item = first; item < end; item++) {
        if (item->key_bytes == 0) continue;
        if (item->part == TAR_LABEL && label && label->label != item->label)
            return fail(ERR_DATA, "%s: its sample has two labels, %u and %u", item->path,
                        (unsigned)label->label, (unsigned)item->label);
        if (item->part == TAR_LABEL) label = item;
        if (item->part != TAR_IMAGE) continue;
        const int ending = scan_picture_ending(item->path);
        const bool better = item->whole && (!best || ending < best_ending);
        const TarItem *spare = better ? best : item;
        if (item->whole && best && ending == best_ending)
            return fail(ERR_DATA, "%s: its sample has two images", item->path);
        if (spare) note(&notes->spare, spare->path);
        if (!better) continue;
        best = item;
        best_ending = ending;
    }
    if (!best) note(&notes->imageless, first->path);
    if (best && !label)
        return fail(ERR_DATA, "%s has no .cls file, but other images have one", best->path);
    notes->images += best != NULL;
    return best ? add_image(scan, file, best, best->path, label->label) : OK;
}

static Status take_samples(PackedScan *scan, int64_t file, Notes *notes)
{
    const TarScan *t = scan->found[file];
    const TarItem *first = NULL, *end = t->items + t->count;
    for (const TarItem *item = t->items; item < end; item++) {
        if (item->key_bytes == 0 || (first && same_key(first, item))) continue;
        if (first) TRY(take_sample(scan, file, first, item, notes));
        first = item;
    }
    return first ? take_sample(scan, file, first, end, notes) : OK;
}

static Status take_all_samples(PackedScan *scan, const char *path)
{
    Notes n = { 0 };
    Status status = OK;
    for (int64_t f = 0; f < scan->files.count && status == OK; f++)
        status = take_samples(scan, f, &n);
    if (status != OK) return fail_note(status, "%s", path);
    if (n.imageless.count)
        log_warning("%s: samples left out because they have no " SCAN_PICTURES
                    " file: %lld, first %s",
                    path, (long long)n.imageless.count, n.imageless.first);
    if (n.spare.count)
        log_warning("%s: images left out: %lld, first %s; a sample is the files with the same "
                    "name up to the first dot, and its image the one with the first extension "
                    "of " SCAN_PICTURES,
                    path, (long long)n.spare.count, n.spare.first);
    return n.images ? OK : no_images(path, " that share the path up to the first dot with a .cls");
}

/* ---- a tree: classes by folder ---- */

typedef struct Place {
    const char *path;
    const TarItem *image; /* NULL: a folder, with a slash at its end */
    int64_t file;
} Place;

typedef struct Tree {
    Arena *arena;
    Place *places; /* [count] sorted */
    size_t count;
    LeftOut left;
    const char **names; /* [classes] */
    size_t classes;
} Tree;

static int by_path(const void *a, const void *b)
{
    return tar_scan_compare(((const Place *)a)->path, ((const Place *)b)->path);
}

/* Images, and folders: one that has no image may be that of a class without images. */
static Status list_members(Tree *t, const TarScan *tar, int64_t file)
{
    const char *last = "";
    for (size_t i = 0; i < tar->count; i++) {
        const TarItem *item = &tar->items[i];
        const char *path = item->path, *slash = strrchr(path, '/');
        const size_t above = slash ? (size_t)(slash - path) : 0;
        const size_t bytes = item->kind == TAR_FOLDER ? strlen(path) : above;
        if (item->hidden) continue;
        if (item->part == TAR_IMAGE) {
            if (!item->replaced) t->places[t->count++] = (Place){ path, item, file };
            continue;
        }
        if (item->kind != TAR_FOLDER) TRY(left_out_add(&t->left, NULL, path));
        if (bytes == 0 || (strncmp(last, path, bytes) == 0 && strlen(last) == bytes + 1)) continue;
        last = arena_printf(t->arena, "%.*s/", (int)bytes, path);
        if (!last) return ERR_MEMORY;
        t->places[t->count++] = (Place){ last, NULL, file };
    }
    return OK;
}

/* Sorts; of the folders those stay that have nothing below them. */
static size_t sort_places(Tree *t)
{
    size_t kept = 0, images = 0;
    qsort(t->places, t->count, sizeof *t->places, by_path);
    for (size_t i = 0; i < t->count; i++) {
        const char *path = t->places[i].path, *next = i + 1 < t->count ? t->places[i + 1].path : "";
        images += t->places[i].image != NULL;
        if (t->places[i].image || strncmp(next, path, strlen(path)) != 0)
            t->places[kept++] = t->places[i];
    }
    t->count = kept;
    return images;
}

static Status list_places(Tree *t, const PackedScan *scan, const char *path)
{
    size_t most = 0;
    for (int64_t f = 0; f < scan->files.count; f++)
        most += ((const TarScan *)scan->found[f])->count;
    TRY(arena_create(&t->arena, 0));
    t->places = arena_alloc(t->arena, most * sizeof *t->places);
    t->names = arena_alloc(t->arena, most * sizeof *t->names);
    if (!t->places || !t->names) return ERR_MEMORY;
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarScan *tar = scan->found[f];
        if (tar->lost_link) return fail(ERR_DATA, "%s: %s", path, tar->lost_link);
        TRY(list_members(t, tar, f));
    }
    TRY(left_out_tell(&t->left, path));
    return sort_places(t) ? OK : no_images(path, "");
}

/* Cuts that many bytes of shared folders down to the top of what was packed, where a member says
 * which folder that is: one folder below it is a class, whatever it has below. */
static size_t packed_top(const PackedScan *scan, const char *path, size_t common)
{
    for (int64_t f = 0; f < scan->files.count; f++) {
        const TarScan *tar = scan->found[f];
        if (tar->has_top) common = 0;
        for (size_t i = 0; i < tar->count; i++) {
            const TarItem *item = &tar->items[i];
            const size_t bytes = strlen(item->path);
            if (item->kind == TAR_FOLDER && bytes + 1 < common && path[bytes] == '/' &&
                strncmp(path, item->path, bytes) == 0)
                common = bytes + 1;
        }
    }
    return common;
}

/* The folder that classes lie in, with its slash: what all paths share. */
static size_t common_folder(const Tree *t, const PackedScan *scan)
{
    const char *first = t->places[0].path, *last = t->places[t->count - 1].path;
    size_t common = 0;
    for (size_t i = 0; first[i] && first[i] == last[i]; i++)
        if (first[i] == '/') common = i + 1;
    /* All images right in it: then its last part is a class. */
    bool flat = true;
    for (size_t i = 0; i < t->count; i++)
        flat &= !t->places[i].image || !strchr(t->places[i].path + common, '/');
    while (flat && common > 0 && --common > 0 && first[common - 1] != '/') {
    }
    return packed_top(scan, first, common);
}

static Status add_class(Tree *t, const char *name, size_t bytes)
{
    if (t->classes == PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "more than %d classes", PACKED_SCAN_MAX_CLASSES);
    t->names[t->classes] = arena_printf(t->arena, "%.*s", (int)bytes, name);
    return t->names[t->classes++] ? OK : ERR_MEMORY;
}

/* The first part of a path below the common folder is the class; an image without has none. */
static Status add_images(Tree *t, PackedScan *scan, Note *strays)
{
    const size_t prefix = common_folder(t, scan);
    for (size_t i = 0; i < t->count; i++) {
        const char *path = t->places[i].path + prefix;
        const char *name = t->classes ? t->names[t->classes - 1] : "";
        const TarItem *image = t->places[i].image;
        const size_t bytes = strcspn(path, "/");
        if (!path[bytes]) {
            if (image) note(strays, t->places[i].path);
            continue;
        }
        if (!name[0] || strncmp(name, path, bytes) != 0 || name[bytes])
            TRY(add_class(t, path, bytes));
        if (image) TRY(add_image(scan, t->places[i].file, image, path, (uint32_t)t->classes - 1));
    }
    return OK;
}

static Status take_classes(Tree *t, PackedScan *scan, const char *path)
{
    Note strays = { 0 };
    TRY(list_places(t, scan, path));
    const Status status = add_images(t, scan, &strays);
    if (status != OK) return fail_note(status, "%s", path);
    if (t->classes == 0)
        return fail(ERR_DATA,
                    "%s: %s: no .cls file with the same name, and no folder to take its class from",
                    path, strays.first);
    if (strays.count > 0)
        log_warning("%s: images left out because they are in no class folder: %lld, first %s", path,
                    (long long)strays.count, strays.first);
    return OK;
}

/* ---- assembly ---- */

static Status assemble_by_label(Index **out, PackedScan *scan, const ScanOptions *o)
{
    TRY(take_all_samples(scan, o->path));
    PackedFilesNames names;
    TRY(packed_files_names(&names, scan->files.folder, PACKED_FILES_CLASSES,
                           packed_scan_classes(scan), o->path));
    Status status = packed_scan_build(out, scan, o, (const char *const *)names.names, names.classes,
                                      names.given);
    mem_free(names.names);
    return status;
}

static Status assemble_by_folder(Index **out, PackedScan *scan, const ScanOptions *o)
{
    Tree t = { 0 };
    Status status = take_classes(&t, scan, o->path);
    const IndexParts parts = { .class_names = t.names,
                               .classes = (int)t.classes,
                               .pieces = scan->pieces,
                               .piece_count = (size_t)scan->files.count };
    if (status == OK && !o->allow_empty) status = scan_check_empty(o->path, &parts);
    if (status == OK) status = packed_scan_build(out, scan, o, t.names, (int)t.classes, true);
    left_out_free(&t.left);
    arena_destroy(t.arena);
    return status;
}

static Status assemble(Index **out, PackedScan *scan, const ScanOptions *o)
{
    bool labelled = false;
    for (int64_t f = 0; f < scan->files.count; f++)
        labelled |= ((const TarScan *)scan->found[f])->has_labels;
    return labelled ? assemble_by_label(out, scan, o) : assemble_by_folder(out, scan, o);
}

static Status webdataset_scan(Index **out, const ScanOptions *o)
{
    PackedScan scan FREED_BY(packed_scan_free) = { .found_bytes = sizeof(TarScan),
                                                   .read = read_tar };
    *out = NULL;
    Status status = packed_scan_run(&scan, o, is_tar, ".tar file");
    if (status == OK) status = assemble(out, &scan, o);
    for (int64_t f = 0; scan.found && f < scan.files.count; f++)
        if (scan.found[f]) tar_scan_free(scan.found[f]);
    return status;
}

const SourceKind source_webdataset = {
    .name = "webdataset",
    .scan = webdataset_scan,
    .scan_by_emptiness = true,
    .is_container = is_tar,
    SOURCE_PACKED_FROM_INDEX,
};
