/* scan.c - fills an index from an ImageFolder tree.
 *
 * The order is torchvision's, because labels and sample ids depend on it: classes are the
 * sub-folders of the root (symlinks to folders count) sorted by name; within a class every folder
 * below it, sorted by its whole path (so "a-b" comes before "a/b"), and in each its files sorted by
 * name. Unlike there, what begins with a dot is passed over: folders of tools (.git,
 * .ipynb_checkpoints) and macOS's companions of files (._x.jpg). Files are told by extension in any
 * case; .jpe and .jfif count as JPEG too. All others are left out, with one warning.
 *
 * Classes are walked by several threads, more than there are CPUs, because on a network file system
 * each folder is a few round trips. readdir's d_type answers "file or folder" without a stat per
 * image; only symlinks and file systems that do not fill it are asked. A class is walked with a
 * list of folders still to read, not by recursion, so depth costs no stack. A symlink to a folder
 * that it lies in (the same device and inode as one of the folders above it) would go round for
 * ever: it is left out with a warning. The time of each folder is taken before it is read, so that
 * what changes meanwhile makes the index look old. */
#include "data/index/scan.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/index/index_build.h"
#include "data/index/left_out.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NO_PARENT   SIZE_MAX
#define EMPTY_SHOWN 5
#define CHUNK_BYTES ((size_t)8 << 10) /* of a class: there may be very many */

typedef struct Found { /* one entry of a folder */
    const char *folder, *name;
    size_t parent; /* folders: place in the list of the folder it lies in, NO_PARENT for a class */
    dev_t device;  /* folders: set when read */
    ino_t inode;
} Found;

typedef struct FoundList {
    Found *items;
    size_t count, capacity;
} FoundList;

typedef struct Walk { /* of one class, or of the root alone */
    const char *root;
    dev_t root_device;
    ino_t root_inode;
    Arena *arena;      /* strings of what is found */
    StrBuf path;       /* full path being opened */
    FoundList folders; /* name: path relative to the root */
    FoundList files;
    LeftOut *left;     /* files that are no pictures */
    IndexPiece *piece; /* where stamps and samples go */
} Walk;

typedef struct Scan {
    Walk root;
    const char **names; /* [classes] sorted, in root.arena */
    IndexPiece *pieces; /* [1 + classes]: the root's stamp, then the classes */
    LeftOut *left;      /* [classes] */
} Scan;

static Status list_add(FoundList *list, const char *folder, const char *name, size_t parent)
{
    if (!name) return ERR_MEMORY;
    if (!mem_grow(&list->items, list->count, &list->capacity, sizeof *list->items))
        return ERR_MEMORY;
    list->items[list->count++] = (Found){ .folder = folder, .name = name, .parent = parent };
    return OK;
}

int scan_picture_ending(const char *name)
{
    static const char *const endings[] = { ".jpg", ".jpeg", ".jpe", ".jfif", ".png" };
    const int count = sizeof endings / sizeof *endings;
    int i = 0;
    while (i < count && !str_ends_with_nocase(name, endings[i])) i++;
    return i < count ? i : -1;
}

bool scan_is_picture(const char *name)
{
    return scan_picture_ending(name) >= 0;
}

static bool is_folder(DIR *dir, const struct dirent *entry)
{
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    struct stat info;
    return fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static Status take_folder(Walk *walk, const char *name, size_t at_list)
{
    const char *path = at_list == NO_PARENT ? arena_strdup(walk->arena, name)
                                            : arena_printf(walk->arena, "%s/%s",
                                                           walk->folders.items[at_list].name, name);
    return list_add(&walk->folders, "", path, at_list);
}

/* Of the root only sub-folders count; a picture there has no class. at_list: the folder being read
 * in walk->folders, NO_PARENT for the root. */
static Status take_entry(Walk *walk, DIR *dir, const struct dirent *entry, size_t at_list)
{
    const char *name = entry->d_name;
    if (name[0] == '.') return OK;
    if (is_folder(dir, entry)) return take_folder(walk, name, at_list);
    if (at_list == NO_PARENT)
        return scan_is_picture(name) ? left_out_add(walk->left, NULL, name) : OK;
    const char *folder = walk->folders.items[at_list].name;
    if (!scan_is_picture(name)) return left_out_add(walk->left, folder, name);
    return list_add(&walk->files, folder, arena_strdup(walk->arena, name), at_list);
}

/* Notes who the folder is and when it was changed; *loops: it is one of the folders above it. */
static Status identify(Walk *walk, DIR *dir, size_t at_list, bool *loops)
{
    struct stat info;
    *loops = false;
    if (fstat(dirfd(dir), &info))
        return fail(ERR_DATA, "%s: cannot stat: %s", walk->path.text, strerror(errno));
    int64_t mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    if (at_list == NO_PARENT) {
        walk->root_device = info.st_dev;
        walk->root_inode = info.st_ino;
        return index_piece_stamp(walk->piece, "", mtime_ns, 0);
    }
    Found *folders = walk->folders.items;
    folders[at_list].device = info.st_dev;
    folders[at_list].inode = info.st_ino;
    *loops = info.st_dev == walk->root_device && info.st_ino == walk->root_inode;
    for (size_t above = folders[at_list].parent; above != NO_PARENT && !*loops;
         above = folders[above].parent)
        *loops = info.st_dev == folders[above].device && info.st_ino == folders[above].inode;
    if (*loops) log_warning("%s: a link to a folder that contains it; skipped", walk->path.text);
    return *loops ? OK : index_piece_stamp(walk->piece, folders[at_list].name, mtime_ns, 0);
}

/* Reads one folder: sub-folders go to walk->folders, images to walk->files. */
static Status read_folder(Walk *walk, size_t at_list)
{
    bool is_root = at_list == NO_PARENT, loops = false;
    str_clear(&walk->path);
    str_add(&walk->path, walk->root);
    if (!is_root) str_printf(&walk->path, "/%s", walk->folders.items[at_list].name);
    if (walk->path.failed) return fail(ERR_MEMORY, "out of memory while listing images");
    DIR *dir = opendir(walk->path.text);
    if (!dir && is_root && (errno == ENOENT || errno == ENOTDIR))
        return fail(ERR_DATA, "%s: %s", walk->root,
                    errno == ENOENT ? "no such folder"
                                    : "neither a folder nor a file of a known format");
    if (!dir)
        return fail(ERR_DATA, "%s: cannot read this folder: %s", walk->path.text, strerror(errno));
    Status status = identify(walk, dir, at_list, &loops);
    while (status == OK && !loops) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                status = fail(ERR_DATA, "%s: cannot read this folder: %s", walk->path.text,
                              strerror(errno));
            break;
        }
        status = take_entry(walk, dir, entry, at_list);
    }
    closedir(dir);
    return status;
}

static int by_folder_then_name(const void *pa, const void *pb)
{
    const Found *a = pa, *b = pb;
    if (a->folder != b->folder) {
        int order = strcmp(a->folder, b->folder);
        if (order) return order;
    }
    return strcmp(a->name, b->name);
}

static void sort_found(FoundList *list)
{
    if (list->count) qsort(list->items, list->count, sizeof *list->items, by_folder_then_name);
}

static void walk_free(Walk *walk)
{
    arena_destroy(walk->arena);
    str_free(&walk->path);
    mem_free(walk->folders.items);
    mem_free(walk->files.items);
}

/* ---- classes ---- */

static Status walk_class(Walk *walk, const char *name, uint32_t label)
{
    TRY(arena_create(&walk->arena, CHUNK_BYTES));
    TRY(list_add(&walk->folders, "", name, NO_PARENT));
    for (size_t i = 0; i < walk->folders.count; i++) TRY(read_folder(walk, i));
    sort_found(&walk->files);
    const IndexEntry entry = { .label = label };
    for (size_t i = 0; i < walk->files.count; i++)
        TRY(index_piece_add(walk->piece, walk->files.items[i].folder, walk->files.items[i].name,
                            &entry));
    return OK;
}

static Status scan_class(void *cookie, int64_t label)
{
    Scan *scan = cookie;
    Walk walk FREED_BY(walk_free) = { .root = scan->root.root,
                                      .root_device = scan->root.root_device,
                                      .root_inode = scan->root.root_inode,
                                      .piece = &scan->pieces[1 + label],
                                      .left = &scan->left[label] };
    return walk_class(&walk, scan->names[label], (uint32_t)label);
}

/* Files at the root have their own line: they may be images that were forgotten. */
static Status tell_left_out(const Scan *scan, size_t classes)
{
    LeftOut all FREED_BY(left_out_free) = { 0 };
    for (size_t c = 0; c < classes; c++) left_out_merge(&all, &scan->left[c]);
    const Status status = left_out_tell(&all, scan->root.root);
    const LeftOut *forgotten = scan->root.left;
    if (forgotten->count > 0)
        log_warning("%s: images left out because they are in no class folder: %lld, first %s",
                    scan->root.root, (long long)forgotten->count, forgotten->first.text);
    return status;
}

/* Names all of them at once: whoever downloads data wants to know what is missing. */
Status scan_check_empty(const char *path, const IndexParts *parts)
{
    const size_t classes = (size_t)parts->classes;
    StrBuf list FREED_BY(str_free) = { 0 };
    size_t empty = 0;
    bool *filled FREED = mem_calloc(classes, sizeof *filled);
    if (!filled) return ERR_MEMORY;
    for (size_t p = 0; p < parts->piece_count; p++)
        for (size_t i = 0; i < parts->pieces[p].count; i++)
            filled[parts->pieces[p].entries[i].label] = true;
    for (size_t c = 0; c < classes; c++)
        if (!filled[c] && empty++ < EMPTY_SHOWN)
            str_printf(&list, "%s%s", empty > 1 ? ", " : "", parts->class_names[c]);
    if (empty == 0) return OK;
    return fail(ERR_DATA,
                "%s: %zu of %zu class folders have no " SCAN_PICTURES
                " file: %s%s (data.allow_empty_classes: true accepts them)",
                path, empty, classes, list.failed ? "" : list.text,
                empty > EMPTY_SHOWN ? ", ..." : "");
}

static Status scan_classes(Scan *scan, size_t classes, const ScanOptions *o, Index **out)
{
    for (size_t c = 0; c < classes; c++) scan->names[c] = scan->root.folders.items[c].name;
    TRY(parallel_run(o->threads, (int64_t)classes, "scan", scan_class, scan));
    TRY(tell_left_out(scan, classes));
    IndexParts parts = { .format = o->format,
                         .root = o->root,
                         .class_names = scan->names,
                         .classes = (int)classes,
                         .flags = INDEX_NAMED,
                         .sorted = true,
                         .pieces = scan->pieces,
                         .piece_count = 1 + classes };
    if (!o->allow_empty) TRY(scan_check_empty(o->path, &parts));
    return index_build(out, &parts);
}

static Status scan_root(Scan *scan, const ScanOptions *o, IndexPiece *piece, Index **out)
{
    FoundList *found = &scan->root.folders;
    TRY(arena_create(&scan->root.arena, CHUNK_BYTES));
    TRY(read_folder(&scan->root, NO_PARENT));
    size_t classes = found->count;
    if (classes == 0) return fail(ERR_DATA, "%s: contains no class folders", o->path);
    sort_found(found);
    scan->names = mem_calloc(classes, sizeof *scan->names);
    scan->pieces = mem_calloc(classes + 1, sizeof *scan->pieces);
    scan->left = mem_calloc(classes, sizeof *scan->left);
    Status status = ERR_MEMORY;
    if (scan->names && scan->pieces && scan->left) {
        scan->pieces[0] = *piece; /* the root's stamp */
        *piece = (IndexPiece){ 0 };
        status = scan_classes(scan, classes, o, out);
    }
    for (size_t c = 0; scan->pieces && c <= classes; c++) index_piece_free(&scan->pieces[c]);
    for (size_t c = 0; scan->left && c < classes; c++) left_out_free(&scan->left[c]);
    return status;
}

Status scan_imagefolder(Index **out, const ScanOptions *o)
{
    IndexPiece piece FREED_BY(index_piece_free) = { 0 };
    LeftOut forgotten FREED_BY(left_out_free) = { 0 };
    Scan scan = { .root = { .root = o->path, .piece = &piece, .left = &forgotten } };
    *out = NULL;
    Status status = scan_root(&scan, o, &piece, out);
    walk_free(&scan.root);
    mem_free(scan.names);
    mem_free(scan.pieces);
    mem_free(scan.left);
    return status;
}
