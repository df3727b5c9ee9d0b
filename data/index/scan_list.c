/* scan_list.c - fills an index from a list: a text file that says each image's path and class.
 *
 * In a .csv or .tsv file (rows.h) a first row without a picture's name in it names the columns, of
 * which two count; without one there are two, path and class. In .txt and .lst files the class is
 * the last word of a line and the path what stands before it, as in Caffe's lists. Paths are
 * relative to the list's folder, or absolute. Classes are sorted by name, as an ImageFolder's;
 * where every one is a whole number, the numbers are the labels.
 *
 * The same image with two classes is refused; two equal rows show it twice as often. Each file is
 * asked for once, by several threads, so that a wrong folder is found before training is. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "data/index/class_names.h"
#include "data/index/index_build.h"
#include "data/index/rows.h"
#include "data/index/scan.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES_MAX = 100000, CHUNK = 256 };

typedef struct Listed { /* in the rows' text */
    const char *path, *class;
    int line;
    uint32_t label;
} Listed;

typedef struct List {
    const char *path; /* of the list */
    Rows rows;
    int path_at, class_at, columns; /* of a row */
    Listed *items;
    size_t count, capacity;
    const char **names; /* of classes; NULL: labels are numbers */
    int classes;
    int folder; /* in which paths lie; -1: not open */
    _Atomic int64_t missing;
} List;

static const char *const path_columns[] = { "path",      "file",  "filename",   "file_name",
                                            "file_path", "image", "image_path", NULL };
static const char *const class_columns[] = { "class",    "label",  "class_name",
                                             "category", "target", NULL };

bool scan_is_list(const char *name)
{
    static const char *const endings[] = { ".csv", ".tsv", ".txt", ".lst" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends_with_nocase(name, endings[i])) return true;
    return false;
}

/* ---- rows ---- */

/* -1: no field has one of these names. */
static int find_column(char *const *fields, int count, const char *const *names)
{
    for (; *names; names++)
        for (int i = 0; i < count; i++)
            if (strcasecmp(fields[i], *names) == 0) return i;
    return -1;
}

static Status take_header(List *l, char *const *fields, int count)
{
    l->columns = count;
    l->path_at = find_column(fields, count, path_columns);
    l->class_at = find_column(fields, count, class_columns);
    if (l->path_at >= 0 && l->class_at >= 0) return OK;
    return fail(ERR_DATA,
                "%s:%d: expected an image and its class, or a header with columns path and class",
                l->path, l->rows.line);
}

static Status add_item(List *l, const char *path, const char *class)
{
    while (path[0] == '.' && path[1] == '/') path += 1 + strspn(path + 1, "/"); /* find's names */
    if (!path[0] || !class[0])
        return fail(ERR_DATA, "%s:%d: this row has no %s", l->path, l->rows.line,
                    path[0] ? "class" : "path");
    if (!mem_grow(&l->items, l->count, &l->capacity, sizeof *l->items)) return ERR_MEMORY;
    l->items[l->count++] = (Listed){ .path = path, .class = class, .line = l->rows.line };
    return OK;
}

/* A line of words: the last is the class. */
static Status take_words(List *l, char *line)
{
    char *end = line + strlen(line);
    while (end > line && end[-1] != ' ' && end[-1] != '\t') end--;
    const char *class = end;
    if (class == line) return add_item(l, line, "");
    while (end > line && (end[-1] == ' ' || end[-1] == '\t')) end--;
    *end = '\0';
    return add_item(l, line, class);
}

static Status take_row(List *l, char *const *fields, int count)
{
    if (!l->rows.separator) return take_words(l, fields[0]);
    if (l->columns == 0) {
        bool picture = false;
        for (int i = 0; i < count; i++) picture |= scan_is_picture(fields[i]);
        if (!picture) return take_header(l, fields, count);
        l->class_at = 1;
        l->columns = 2;
    }
    if (count != l->columns)
        return fail(ERR_DATA, "%s:%d: %d fields, expected %d", l->path, l->rows.line, count,
                    l->columns);
    return add_item(l, fields[l->path_at], fields[l->class_at]);
}

static Status read_rows(List *l)
{
    char *fields[ROWS_FIELDS];
    int count = 0;
    TRY(rows_open(&l->rows, l->path));
    do {
        TRY(rows_next(&l->rows, fields, &count));
        if (count > 0) TRY(take_row(l, fields, count));
    } while (count > 0);
    return l->count > 0 ? OK : fail(ERR_DATA, "%s: contains no images", l->path);
}

/* ---- classes ---- */

static int by_class(const void *pa, const void *pb)
{
    return strcmp(((const Listed *)pa)->class, ((const Listed *)pb)->class);
}

static int by_path(const void *pa, const void *pb)
{
    const Listed *a = pa, *b = pb;
    const int order = strcmp(a->path, b->path);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static bool are_numbers(const List *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].class[strspn(l->items[i].class, "0123456789")]) return false;
    return true;
}

static Status number_classes(List *l)
{
    int64_t number = 0, most = -1;
    for (size_t i = 0; i < l->count; i++) {
        if (!str_to_i64(l->items[i].class, &number) || number >= CLASSES_MAX)
            return fail(ERR_DATA, "%s:%d: class %s is too large for a label", l->path,
                        l->items[i].line, l->items[i].class);
        l->items[i].label = (uint32_t)number;
        most = number > most ? number : most;
    }
    l->classes = (int)most + 1;
    return OK;
}

static Status name_classes(List *l)
{
    qsort(l->items, l->count, sizeof *l->items, by_class);
    l->names = mem_alloc(l->count * sizeof *l->names);
    if (!l->names) return ERR_MEMORY;
    for (size_t i = 0; i < l->count; i++) {
        if (i == 0 || by_class(&l->items[i - 1], &l->items[i]) != 0)
            l->names[l->classes++] = l->items[i].class;
        l->items[i].label = (uint32_t)l->classes - 1;
    }
    return OK;
}

static Status label_items(List *l)
{
    TRY(are_numbers(l) ? number_classes(l) : name_classes(l));
    qsort(l->items, l->count, sizeof *l->items, by_path);
    for (size_t i = 1; i < l->count; i++) {
        const Listed *a = &l->items[i - 1], *b = &l->items[i];
        if (strcmp(a->path, b->path) == 0 && a->label != b->label)
            return fail(ERR_DATA, "%s:%d: %s has class %s here but %s in line %d", l->path, b->line,
                        b->path, b->class, a->class, a->line);
    }
    return OK;
}

/* ---- files ---- */

/* 0, or what is wrong with a file. */
static int look_for(const List *l, const char *path)
{
    struct stat info;
    if (fstatat(l->folder, path, &info, 0)) return errno;
    return S_ISDIR(info.st_mode) ? EISDIR : 0;
}

static Status check_chunk(void *cookie, int64_t chunk)
{
    List *l = cookie;
    size_t i = (size_t)chunk * CHUNK, end = i + CHUNK < l->count ? i + CHUNK : l->count;
    for (; i < end; i++)
        if (look_for(l, l->items[i].path)) {
            l->items[i].label = UINT32_MAX;
            atomic_fetch_add(&l->missing, 1);
        }
    return OK;
}

static Status check_files(List *l, int threads)
{
    const int64_t chunks = (int64_t)((l->count + CHUNK - 1) / CHUNK);
    TRY(parallel_run(threads, chunks, "list", check_chunk, l));
    const Listed *first = NULL;
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].label == UINT32_MAX && (!first || l->items[i].line < first->line))
            first = &l->items[i];
    if (!first) return OK;
    return fail(ERR_DATA, "%s:%d: %s: %s; %lld of %zu images are unusable", l->path, first->line,
                first->path, strerror(look_for(l, first->path)),
                (long long)atomic_load(&l->missing), l->count);
}

static Status open_folder(List *l)
{
    char *folder FREED = fs_parent(l->path);
    if (!folder) return ERR_MEMORY;
    l->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->folder >= 0
               ? OK
               : fail(ERR_DATA, "%s: cannot open this folder: %s", folder, strerror(errno));
}

/* ---- the index ---- */

static Status fill_piece(IndexPiece *piece, const List *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const IndexEntry entry = { .label = l->items[i].label };
        TRY(index_piece_add(piece, NULL, l->items[i].path, &entry));
    }
    return OK;
}

static Status scan(List *l, IndexPiece *piece, const ScanOptions *o, Index **out)
{
    struct stat info;
    if (stat(l->path, &info) == 0)
        TRY(index_piece_stamp(piece, "",
                              (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
                              (uint64_t)info.st_size));
    TRY(read_rows(l));
    TRY(label_items(l));
    TRY(open_folder(l));
    TRY(check_files(l, o->threads));
    TRY(fill_piece(piece, l));
    const bool named = l->names;
    if (!named && !(l->names = (const char **)(void *)class_names_numbers(l->classes)))
        return ERR_MEMORY;
    const IndexParts parts = { .format = o->format,
                               .root = o->root,
                               .class_names = l->names,
                               .classes = l->classes,
                               .flags = named ? INDEX_NAMED : 0,
                               .pieces = piece,
                               .piece_count = 1 };
    return index_build(out, &parts);
}

Status scan_list(Index **out, const ScanOptions *o)
{
    IndexPiece piece FREED_BY(index_piece_free) = { 0 };
    List l = { .path = o->path, .folder = -1 };
    *out = NULL;
    Status status = scan(&l, &piece, o, out);
    if (l.folder >= 0) close(l.folder);
    rows_close(&l.rows);
    mem_free(l.items);
    mem_free(l.names);
    return status;
}
