/* scan.c - fills an Index from an ImageFolder tree.
 *
 * The order is torchvision's, because labels and sample ids depend on it: classes are the sub-folders of the root
 * (symlinks to folders count) sorted by name; within a class every folder below it, sorted by its whole path (so "a-b"
 * comes before "a/b"), and in each its files sorted by name. Names starting with a dot are not special. Files are told
 * by extension in any case; those that torchvision would take and we cannot decode are left out, with one warning.
 *
 * readdir's d_type answers "file or folder" without a stat per image, which on a network file system is a round trip;
 * only symlinks and file systems that do not fill it are asked. A class is walked with a list of folders still to read,
 * not by recursion, so depth costs no stack. A symlink to a folder that it lies in (the same device and inode as one of
 * the folders above it) would go round for ever: it is left out with a warning. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const supported[] = { ".jpg", ".jpeg", ".png" };
static const char *const unsupported[] = { ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp" };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NO_PARENT    SIZE_MAX

typedef struct Found { /* one entry of a folder; strings first as offsets, because the text still moves */
    size_t folder_at, name_at;
    const char *folder, *name;
    size_t parent; /* folders: place in the list of the folder it lies in, NO_PARENT for a class */
    dev_t device;  /* folders: set when read */
    ino_t inode;
} Found;

typedef struct FoundList {
    Found *items;
    size_t count, capacity;
} FoundList;

typedef struct Scan {
    const char *root;
    Index *index;
    StrBuf text;       /* strings of the class being walked */
    StrBuf path;       /* full path being opened */
    FoundList folders; /* name_at: path relative to the root */
    FoundList files;
    dev_t root_device;
    ino_t root_inode;
    int64_t skipped; /* files torchvision would take and we do not */
    StrBuf first_skipped;
} Scan;

static Status list_add(FoundList *list, size_t folder_at, size_t name_at, size_t parent)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 256;
        Found *items = mem_realloc(list->items, capacity * sizeof *items);
        if (!items) return ERR_MEMORY;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (Found){ .folder_at = folder_at, .name_at = name_at, .parent = parent };
    return OK;
}

/* Adds a NUL-terminated string to the scan's text; *at is where it starts. */
static Status text_add(StrBuf *text, const char *folder, const char *name, size_t *at)
{
    *at = text->length;
    if (folder) str_printf(text, "%s/", folder);
    str_add_n(text, name, strlen(name) + 1);
    return text->failed ? fail(ERR_MEMORY, "out of memory while listing images") : OK;
}

static bool has_extension(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_ends_with_nocase(name, list[i])) return true;
    return false;
}

static bool is_folder(DIR *dir, const struct dirent *entry)
{
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    struct stat info;
    return fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static Status note_skipped(Scan *scan, const char *folder, const char *name)
{
    if (scan->skipped++ == 0) str_printf(&scan->first_skipped, "%s/%s/%s", scan->root, folder, name);
    return scan->first_skipped.failed ? fail(ERR_MEMORY, "out of memory while listing images") : OK;
}

/* Of the root only sub-folders count. at_list: the folder being read in scan->folders, NO_PARENT for the root. */
static Status take_entry(Scan *scan, DIR *dir, const struct dirent *entry, size_t at_list)
{
    bool is_root = at_list == NO_PARENT;
    size_t folder_at = is_root ? 0 : scan->folders.items[at_list].name_at;
    const char *name = entry->d_name;
    if (!strcmp(name, ".") || !strcmp(name, "..")) return OK;
    size_t at = 0;
    if (is_folder(dir, entry)) {
        if (is_root) {
            TRY(text_add(&scan->text, NULL, name, &at));
        } else {
            /* The folder's own name lies in the same buffer, which may move while it grows: copy it out first. */
            char *folder = mem_strdup(scan->text.text + folder_at);
            if (!folder) return ERR_MEMORY;
            Status status = text_add(&scan->text, folder, name, &at);
            mem_free(folder);
            TRY(status);
        }
        return list_add(&scan->folders, 0, at, at_list);
    }
    if (is_root) return OK;
    if (has_extension(name, supported, COUNT(supported))) {
        TRY(text_add(&scan->text, NULL, name, &at));
        return list_add(&scan->files, folder_at, at, at_list);
    }
    if (has_extension(name, unsupported, COUNT(unsupported)))
        return note_skipped(scan, scan->text.text + folder_at, name);
    return OK;
}

/* Notes who the folder is; *loops: it is one of the folders above it. */
static Status identify(Scan *scan, DIR *dir, size_t at_list, bool *loops)
{
    struct stat info;
    *loops = false;
    if (fstat(dirfd(dir), &info)) return fail(ERR_DATA, "%s: cannot stat: %s", scan->path.text, strerror(errno));
    if (at_list == NO_PARENT) {
        scan->root_device = info.st_dev;
        scan->root_inode = info.st_ino;
        return OK;
    }
    Found *folders = scan->folders.items;
    folders[at_list].device = info.st_dev;
    folders[at_list].inode = info.st_ino;
    *loops = info.st_dev == scan->root_device && info.st_ino == scan->root_inode;
    for (size_t above = folders[at_list].parent; above != NO_PARENT && !*loops; above = folders[above].parent)
        *loops = info.st_dev == folders[above].device && info.st_ino == folders[above].inode;
    if (*loops) log_warning("%s: a link to a folder that it lies in; left out", scan->path.text);
    return OK;
}

/* Reads one folder: sub-folders go to scan->folders, images to scan->files. */
static Status read_folder(Scan *scan, size_t at_list)
{
    bool is_root = at_list == NO_PARENT, loops = false;
    str_clear(&scan->path);
    str_add(&scan->path, scan->root);
    if (!is_root) str_printf(&scan->path, "/%s", scan->text.text + scan->folders.items[at_list].name_at);
    if (scan->path.failed) return fail(ERR_MEMORY, "out of memory while listing images");
    DIR *dir = opendir(scan->path.text);
    if (!dir && is_root && (errno == ENOENT || errno == ENOTDIR))
        return fail(ERR_DATA, "%s: no such folder", scan->root);
    if (!dir) return fail(ERR_DATA, "%s: cannot read this folder: %s", scan->path.text, strerror(errno));
    Status status = identify(scan, dir, at_list, &loops);
    while (status == OK && !loops) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno) status = fail(ERR_DATA, "%s: cannot read this folder: %s", scan->path.text, strerror(errno));
            break;
        }
        status = take_entry(scan, dir, entry, at_list);
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

static void sort_found(FoundList *list, const StrBuf *text)
{
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].folder = text->text + list->items[i].folder_at;
        list->items[i].name = text->text + list->items[i].name_at;
    }
    if (list->count) qsort(list->items, list->count, sizeof *list->items, by_folder_then_name);
}

static Status scan_class(Scan *scan, const char *name)
{
    str_clear(&scan->text);
    scan->folders.count = scan->files.count = 0;
    size_t at = 0;
    TRY(text_add(&scan->text, NULL, name, &at));
    TRY(list_add(&scan->folders, 0, at, NO_PARENT));
    for (size_t i = 0; i < scan->folders.count; i++) TRY(read_folder(scan, i));
    if (scan->files.count == 0)
        return fail(ERR_DATA, "%s/%s: class folder without a .jpg, .jpeg or .png file", scan->root, name);
    sort_found(&scan->files, &scan->text);
    TRY(index_add_class(scan->index, name));
    for (size_t i = 0; i < scan->files.count; i++)
        TRY(index_add_sample(scan->index, scan->files.items[i].folder, scan->files.items[i].name));
    return OK;
}

static Status scan_root(Scan *scan)
{
    TRY(read_folder(scan, NO_PARENT));
    if (scan->folders.count == 0) return fail(ERR_DATA, "%s: no class folders in it", scan->root);
    /* The class list outlives scan->text, which each class reuses. */
    StrBuf names = scan->text;
    FoundList classes = scan->folders;
    scan->text = (StrBuf){ 0 };
    scan->folders = (FoundList){ 0 };
    for (size_t i = 0; i < classes.count; i++) classes.items[i].folder_at = classes.items[i].name_at;
    sort_found(&classes, &names);
    Status status = OK;
    for (size_t i = 0; i < classes.count && status == OK; i++) status = scan_class(scan, classes.items[i].name);
    str_free(&names);
    mem_free(classes.items);
    return status;
}

Status index_scan(Index **out, const char *root)
{
    *out = NULL;
    Scan scan = { .root = root };
    Status status = index_create(&scan.index);
    if (status == OK) status = scan_root(&scan);
    if (status == OK && scan.skipped > 0)
        log_warning("%s: %lld files of a format that is not supported are left out, first %s", root,
                    (long long)scan.skipped, scan.first_skipped.text);
    str_free(&scan.text);
    str_free(&scan.path);
    str_free(&scan.first_skipped);
    mem_free(scan.folders.items);
    mem_free(scan.files.items);
    if (status == OK) *out = scan.index;
    else index_destroy(scan.index);
    return status;
}
