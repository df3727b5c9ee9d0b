/* index_classes.c - see index_classes.h. Names in a file are looked for one by one: few. */
#include "data/index/index_classes.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index/index_select.h"
#include "data/index/rows.h"
#include <string.h>

enum { UNSET = -1 };

typedef struct Map {
    const Index *whole;
    const char *path; /* of the set, for messages: packed ones do not know it */
    Rows rows;
    const char **own;   /* [whole->classes] names in the set */
    int *to;            /* [whole->classes] new label, or UNSET */
    const char **names; /* new ones, in the rows' text */
    int classes;
    size_t capacity; /* of names */
    int64_t *ids;
    uint64_t *start;
    const char *source; /* a file */
    bool missing_ok;
    ClassList set; /* own, and how many images of each */
    int64_t *images;
    const ClassList *in; /* in place of a file */
} Map;

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return UNSET;
}

static Status add_class(Map *m, const char *name)
{
    if (!mem_grow(&m->names, (size_t)m->classes, &m->capacity, sizeof *m->names)) return ERR_MEMORY;
    m->names[m->classes++] = name;
    return OK;
}

static Status refuse_missing(const Map *m, const char *name)
{
    const char *near = str_nearest(name, m->own, m->whole->classes);
    const bool two = m->rows.separator == '\t' && strchr(name, ' ');
    return fail(ERR_DATA, "%s:%d: %s has no class %s%s%s%s%s", m->rows.file, m->rows.line, m->path,
                name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                two ? " (a tab separates the two names)" : "");
}

static Status take_row(Map *m, char *const *fields, int count)
{
    const char *own = fields[0], *name = count > 1 ? fields[1] : own;
    if (count > 2 || !own[0] || !name[0])
        return fail(ERR_DATA, "%s:%d: expected a class and, optionally, its new name", m->rows.file,
                    m->rows.line);
    const int from = find(m->own, m->whole->classes, own);
    int to = find(m->names, m->classes, name);
    if (from == UNSET && !m->missing_ok) return refuse_missing(m, own);
    if (from != UNSET && m->to[from] != UNSET)
        return fail(ERR_DATA, "%s:%d: class %s appears twice", m->rows.file, m->rows.line, own);
    if (to == UNSET) {
        to = m->classes;
        TRY(add_class(m, name));
    }
    if (from != UNSET) m->to[from] = to;
    return OK;
}

static Status read_rows(Map *m)
{
    char *fields[ROWS_FIELDS];
    int count = 0;
    TRY(rows_open(&m->rows, m->source));
    if (!m->rows.separator) m->rows.separator = '\t';
    do {
        TRY(rows_next(&m->rows, fields, &count));
        if (count > 0) TRY(take_row(m, fields, count));
    } while (count > 0);
    return m->classes > 0 ? OK : fail(ERR_DATA, "%s: contains no classes", m->source);
}

/* The classes of another list. */
static Status take_list(Map *m)
{
    m->rows.file = "";
    for (int c = 0; c < m->in->count; c++) TRY(add_class(m, m->in->names[c]));
    return class_list_match_set(m->to, &m->set, m->in);
}

/* ---- the set by a map ---- */

/* Class after class, and of one that several become, theirs one after another. */
static void list_samples(Map *m)
{
    uint64_t *at = m->start;
    if (m->whole->labels) { /* all stay; some have no label then */
        for (int64_t i = 0; i < m->whole->images; i++) m->ids[i] = i;
        for (int c = 0; c <= m->classes; c++) at[c] = c ? (uint64_t)m->whole->images : 0;
        return;
    }
    memset(at, 0, ((size_t)m->classes + 1) * sizeof *at);
    for (int c = 0; c < m->whole->classes; c++)
        if (m->to[c] != UNSET) at[m->to[c] + 1] += (uint64_t)index_class_images(m->whole, c);
    for (int to = 0; to < m->classes; to++) at[to + 1] += at[to];
    for (int c = 0; c < m->whole->classes; c++)
        for (uint64_t i = m->whole->class_start[c]; i < m->whole->class_start[c + 1]; i++)
            if (m->to[c] != UNSET) m->ids[at[m->to[c]]++] = (int64_t)i;
    memmove(at + 1, at, (size_t)m->classes * sizeof *at); /* ends, which the next ones begin at */
    at[0] = 0;
}

static Status select_samples(Map *m, Index **out)
{
    m->ids = mem_alloc((size_t)m->whole->images * sizeof *m->ids);
    m->start = mem_alloc(((size_t)m->classes + 1) * sizeof *m->start);
    if (!m->ids || !m->start) return ERR_MEMORY;
    list_samples(m);
    const IndexChoice choice = { .ids = m->ids,
                                 .class_start = m->start,
                                 .class_names = m->names,
                                 .classes = m->classes,
                                 .to = m->to,
                                 .numbers = m->in && !m->in->named };
    return m->start[m->classes] ? index_select(out, m->whole, &choice)
                                : fail(ERR_DATA, "%s: no image of %s belongs to these classes",
                                       m->rows.file, m->path);
}

static void end_map(Map *m)
{
    rows_close(&m->rows);
    mem_free(m->own);
    mem_free(m->images);
    mem_free(m->to);
    mem_free(m->names);
    mem_free(m->ids);
    mem_free(m->start);
}

static Status begin_map(Map *m)
{
    const size_t n = (size_t)m->whole->classes;
    m->own = mem_alloc(n * sizeof *m->own);
    m->images = mem_alloc(n * sizeof *m->images);
    m->to = mem_alloc(n * sizeof *m->to);
    if (!m->own || !m->images || !m->to) return ERR_MEMORY;
    for (size_t c = 0; c < n; c++) {
        m->own[c] = index_class_name(m->whole, (int)c);
        m->to[c] = UNSET;
    }
    index_count_images(m->whole, m->images);
    m->set = (ClassList){ .names = m->own,
                          .images = m->images,
                          .count = m->whole->classes,
                          .named = m->whole->header->flags & INDEX_NAMED,
                          .owner = m->path };
    return OK;
}

Status index_classes_map(Index **out, const Index *whole, const char *path, const char *file,
                         bool missing_ok)
{
    Map m = { .whole = whole, .path = path, .source = file, .missing_ok = missing_ok };
    *out = NULL;
    Status status = begin_map(&m);
    if (status == OK) status = read_rows(&m);
    if (status == OK) status = select_samples(&m, out);
    end_map(&m);
    return status;
}

/* Whether labels are right as they are, and so are names where they count. */
static bool is_right(const Map *m)
{
    bool same =
        m->in->named ? m->set.named && m->set.count == m->in->count : m->set.count >= m->in->count;
    for (int c = 0; same && c < m->set.count; c++)
        same = m->in->named ? m->to[c] == c && strcmp(m->own[c], m->in->names[c]) == 0
                            : m->to[c] == c || (m->to[c] == UNSET && !m->set.named);
    return same;
}

Status index_classes_of(Index **out, const Index *whole, const char *path, const ClassList *in)
{
    Map m = { .whole = whole, .path = path, .in = in };
    *out = NULL;
    Status status = begin_map(&m);
    if (status == OK) status = take_list(&m);
    if (status == OK && !is_right(&m)) status = select_samples(&m, out);
    end_map(&m);
    return status;
}
