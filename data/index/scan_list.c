/* scan_list.c - fills an index from a list: a text file that says each image's path and class.
 *
 * In a .csv or .tsv file (rows.h) a first row without a picture's name in it names the columns, of
 * which two count; without one there are two, path and class. In .txt and .lst files the class is
 * the last word of a line and the path what stands before it, as in Caffe's lists. Paths are
 * relative to the list's folder, or absolute. Classes are sorted by name, as an ImageFolder's;
 * where every one is a whole number, the numbers are the labels.
 *
 * With several labels per image (ScanOptions.multi), a field holds labels separated by |, and there
 * may be several label columns: label, or label1, label2 and so on; without a header, every column
 * after the path. If the header has no label column, each column is a class, with 0 or 1 per image.
 *
 * The same image with other labels is refused; two equal rows show it twice as often. Each file is
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
#define NO_ITEM SIZE_MAX

typedef struct Listed {       /* in the rows' text */
    const char *path, *class; /* multi: no class */
    size_t number;            /* among the items as they came */
    int line;
    uint32_t label;
} Listed;

typedef struct Label {
    const char *name;
    size_t item; /* its number; NO_ITEM: a class that a header names */
    int line;
    uint32_t class;
} Label;

typedef struct List {
    const char *path; /* of the list */
    Rows rows;
    bool multi;
    int path_at, columns; /* of a row; columns 0: not known yet, -1: any number */
    /* which columns have labels; those of a header without any: classes, true or not */
    bool is_label[ROWS_FIELDS];
    const char **heads; /* [columns], NULL: columns have labels */
    Listed *items;
    size_t count, capacity;
    Label *labels;
    size_t label_count, label_capacity;
    uint8_t *bits;      /* multi: [count] rows, in the order of items */
    const char **names; /* of classes; NULL: labels are numbers */
    int classes;
    int folder; /* in which paths lie; -1: not open */
    _Atomic int64_t missing;
} List;

static const char *const path_columns[] = { "path",      "file",  "filename",   "file_name",
                                            "file_path", "image", "image_path", NULL };
static const char *const class_columns[] = { "class",    "label",  "class_name",
                                             "category", "target", "labels",
                                             "classes",  "tags",   NULL };

bool scan_is_list(const char *name)
{
    static const char *const endings[] = { ".csv", ".tsv", ".txt", ".lst" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends_with_nocase(name, endings[i])) return true;
    return false;
}

/* ---- rows ---- */

static Status add_label(List *l, const char *name, size_t item)
{
    if (!mem_grow(&l->labels, l->label_count, &l->label_capacity, sizeof *l->labels))
        return ERR_MEMORY;
    l->labels[l->label_count++] = (Label){ .name = name, .item = item, .line = l->rows.line };
    return OK;
}

static Status refuse_several(const List *l, const char *what)
{
    return fail(ERR_DATA, "%s:%d: %s: several labels per image require data.labels: multi", l->path,
                l->rows.line, what);
}

/* -1: no field has one of these names. */
static int find_column(char *const *fields, int count, const char *const *names)
{
    for (; *names; names++)
        for (int i = 0; i < count; i++)
            if (strcasecmp(fields[i], *names) == 0) return i;
    return -1;
}

/* label, Label, label2, label_2. */
static bool is_named(const char *field, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(field, name, n) != 0) return false;
    const char *rest = field + n + (field[n] == '_');
    return rest[strspn(rest, "0123456789")] == '\0';
}

/* Finds the columns of labels, the last of them in *last; returns how many. */
static int find_labels(List *l, char *const *fields, int count, int *last)
{
    int found = 0;
    for (const char *const *name = class_columns; *name && found == 0; name++)
        for (int i = 0; i < count; i++) {
            l->is_label[i] = i != l->path_at && is_named(fields[i], *name);
            if (l->is_label[i]) *last = i;
            found += l->is_label[i];
        }
    return found;
}

/* A column for each class. */
static Status take_class_columns(List *l, char *const *fields, int count)
{
    l->heads = mem_alloc((size_t)count * sizeof *l->heads);
    if (!l->heads) return ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        l->heads[i] = fields[i];
        if (i != l->path_at && !fields[i][0])
            return fail(ERR_DATA, "%s:%d: column %d has no name", l->path, l->rows.line, i + 1);
        for (int k = 0; k < i; k++)
            if (strcmp(fields[k], fields[i]) == 0)
                return fail(ERR_DATA, "%s:%d: columns %d and %d are both named %s", l->path,
                            l->rows.line, k + 1, i + 1, fields[i]);
        if (i != l->path_at) TRY(add_label(l, fields[i], NO_ITEM));
    }
    return OK;
}

static Status take_header(List *l, char *const *fields, int count)
{
    int last = 0;
    l->columns = count;
    l->path_at = find_column(fields, count, path_columns);
    const int labels = l->path_at >= 0 ? find_labels(l, fields, count, &last) : 0;
    if (labels > 1 && !l->multi) return refuse_several(l, fields[last]);
    if (labels > 0) return OK;
    if (l->path_at >= 0 && count > 1 && l->multi) return take_class_columns(l, fields, count);
    return fail(ERR_DATA,
                "%s:%d: expected an image and its class, or a header with columns path and class%s",
                l->path, l->rows.line,
                l->path_at >= 0 && count > 2 ? " (a column per class requires data.labels: multi)"
                                             : "");
}

static Status add_item(List *l, const char *path)
{
    while (path[0] == '.' && path[1] == '/') path += 1 + strspn(path + 1, "/"); /* find's names */
    if (!path[0]) return fail(ERR_DATA, "%s:%d: this row has no path", l->path, l->rows.line);
    if (!mem_grow(&l->items, l->count, &l->capacity, sizeof *l->items)) return ERR_MEMORY;
    l->items[l->count] = (Listed){ .path = path, .number = l->count, .line = l->rows.line };
    l->count++;
    return OK;
}

/* Of the last item: its class, or its labels with | between them, cut where they stand. */
static Status take_labels(List *l, char *text)
{
    Listed *item = &l->items[l->count - 1];
    if (!l->multi && strchr(text, '|')) return refuse_several(l, text);
    if (!l->multi && !text[0])
        return fail(ERR_DATA, "%s:%d: this row has no class (allowed with data.labels: multi)",
                    l->path, l->rows.line);
    item->class = text;
    if (!l->multi) return add_label(l, text, item->number);
    for (char *next = text; next;) {
        char *name = next + strspn(next, " \t"), *end = name + strcspn(name, "|");
        next = *end ? end + 1 : NULL;
        while (end > name && (end[-1] == ' ' || end[-1] == '\t')) end--;
        *end = '\0';
        if (name[0]) TRY(add_label(l, name, item->number));
    }
    return OK;
}

/* A line of words: the last is the class. Without a label there may be a path alone. */
static Status take_words(List *l, char *line)
{
    char *const nothing = line + strlen(line), *end = nothing;
    while (end > line && end[-1] != ' ' && end[-1] != '\t') end--;
    char *class = l->multi && scan_is_picture(end) ? nothing : end;
    if (end == line) class = nothing;
    while (class != nothing && end > line && (end[-1] == ' ' || end[-1] == '\t')) *--end = '\0';
    TRY(add_item(l, line));
    return take_labels(l, class);
}

/* Whether the image has the class of a column. */
static Status take_truth(List *l, const char *head, const char *value)
{
    static const char *const words[] = { "1", "1.0", "true", "", "0", "0.0", "false" };
    enum { TRUE_WORDS = 3, WORDS = sizeof words / sizeof *words };
    int i = 0;
    while (i < WORDS && strcasecmp(value, words[i]) != 0) i++;
    if (i == WORDS)
        return fail(ERR_DATA, "%s:%d: column %s: expected 0 or 1, found %s", l->path, l->rows.line,
                    head, value);
    return i < TRUE_WORDS ? add_label(l, head, l->count - 1) : OK;
}

/* Without a header: path and class, or the path and any number of fields. */
static void take_two_columns(List *l)
{
    l->columns = l->multi ? -1 : 2;
    for (int i = 1; i < (l->multi ? ROWS_FIELDS : 2); i++) l->is_label[i] = true;
}

static Status take_row(List *l, char *const *fields, int count)
{
    if (!l->rows.separator) return take_words(l, fields[0]);
    if (l->columns == 0) {
        bool picture = false;
        for (int i = 0; i < count; i++) picture |= scan_is_picture(fields[i]);
        if (!picture) return take_header(l, fields, count);
        take_two_columns(l);
    }
    if (l->columns > 0 && count != l->columns)
        return fail(
            ERR_DATA, "%s:%d: %d fields, expected %d%s", l->path, l->rows.line, count, l->columns,
            count > 2 && l->columns == 2 ? " (several labels per image require data.labels: multi)"
                                         : "");
    TRY(add_item(l, fields[l->path_at]));
    for (int i = 0; i < count; i++) {
        if (l->heads && i != l->path_at) TRY(take_truth(l, l->heads[i], fields[i]));
        if (l->is_label[i]) TRY(take_labels(l, fields[i]));
    }
    return OK;
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

static int by_name(const void *pa, const void *pb)
{
    return strcmp(((const Label *)pa)->name, ((const Label *)pb)->name);
}

static int by_path(const void *pa, const void *pb)
{
    const Listed *a = pa, *b = pb;
    const int order = strcmp(a->path, b->path);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static bool are_numbers(const List *l)
{
    for (size_t i = 0; i < l->label_count; i++)
        if (l->labels[i].name[strspn(l->labels[i].name, "0123456789")]) return false;
    return true;
}

static Status number_classes(List *l)
{
    int64_t number = 0, most = -1;
    for (size_t i = 0; i < l->label_count; i++) {
        if (!str_to_i64(l->labels[i].name, &number) || number >= CLASSES_MAX)
            return fail(ERR_DATA, "%s:%d: class %s is too large for a label", l->path,
                        l->labels[i].line, l->labels[i].name);
        l->labels[i].class = (uint32_t)number;
        most = number > most ? number : most;
    }
    l->classes = (int)most + 1;
    return OK;
}

static Status name_classes(List *l)
{
    qsort(l->labels, l->label_count, sizeof *l->labels, by_name);
    l->names = mem_alloc(l->label_count * sizeof *l->names);
    if (!l->names) return ERR_MEMORY;
    for (size_t i = 0; i < l->label_count; i++) {
        if (i == 0 || by_name(&l->labels[i - 1], &l->labels[i]) != 0)
            l->names[l->classes++] = l->labels[i].name;
        l->labels[i].class = (uint32_t)l->classes - 1;
    }
    return OK;
}

/* Sorts the items, and gives each its label or row of bits. */
static Status sort_items(List *l)
{
    const size_t bytes = index_label_bytes(l->classes);
    size_t *place FREED = mem_alloc(l->count * sizeof *place); /* of an item, by its number */
    if (l->multi) l->bits = mem_calloc(l->count, bytes);
    if (!place || (l->multi && !l->bits)) return ERR_MEMORY;
    qsort(l->items, l->count, sizeof *l->items, by_path);
    for (size_t i = 0; i < l->count; i++) place[l->items[i].number] = i;
    for (size_t i = 0; i < l->label_count; i++) {
        const Label *label = &l->labels[i];
        if (label->item == NO_ITEM) continue;
        const size_t at = place[label->item];
        if (l->multi) l->bits[at * bytes + label->class / 8] |= (uint8_t)(1 << label->class % 8);
        else l->items[at].label = label->class;
    }
    return OK;
}

static Status label_items(List *l)
{
    if (l->label_count == 0) return fail(ERR_DATA, "%s: no image has a label", l->path);
    TRY(are_numbers(l) ? number_classes(l) : name_classes(l));
    TRY(sort_items(l));
    const size_t bytes = index_label_bytes(l->classes);
    for (size_t i = 1; i < l->count; i++) {
        const Listed *a = &l->items[i - 1], *b = &l->items[i];
        if (strcmp(a->path, b->path) != 0) continue;
        if (l->multi && memcmp(l->bits + (i - 1) * bytes, l->bits + i * bytes, bytes) != 0)
            return fail(ERR_DATA, "%s:%d: %s has other labels here than in line %d", l->path,
                        b->line, b->path, a->line);
        if (a->label != b->label)
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
                               .flags = (named ? INDEX_NAMED : 0u) | (l->multi ? INDEX_MULTI : 0u),
                               .pieces = piece,
                               .piece_count = 1,
                               .labels = l->bits };
    return index_build(out, &parts);
}

Status scan_list(Index **out, const ScanOptions *o)
{
    IndexPiece piece FREED_BY(index_piece_free) = { 0 };
    List l = { .path = o->path, .multi = o->multi, .folder = -1 };
    *out = NULL;
    Status status = scan(&l, &piece, o, out);
    if (l.folder >= 0) close(l.folder);
    rows_close(&l.rows);
    mem_free(l.items);
    mem_free(l.labels);
    mem_free(l.heads);
    mem_free(l.bits);
    mem_free(l.names);
    return status;
}
