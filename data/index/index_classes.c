/* index_classes.c - see index_classes.h. Names are looked for one by one: classes are few. */
#include "data/index/index_classes.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index/index_select.h"
#include "data/index/rows.h"
#include <stdio.h>
#include <string.h>

enum { UNSET = -1 };

typedef struct Map {
    const Index *whole;
    Rows rows;
    const char **own;   /* [whole->classes] names in the set */
    int *to;            /* [whole->classes] new label, or UNSET */
    const char **names; /* new ones, in the rows' text */
    int classes, capacity;
    int64_t *ids;
    uint64_t *start;
    const char *source; /* a file, or names, one a line */
    bool missing_ok;
} Map;

typedef Status FillMap(Map *m);

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return UNSET;
}

static Status add_class(Map *m, const char *name)
{
    if (m->classes == m->capacity) {
        const int wanted = m->capacity ? 2 * m->capacity : 64;
        const char **grown = mem_realloc(m->names, (size_t)wanted * sizeof *grown);
        if (!grown) return ERR_MEMORY;
        m->names = grown;
        m->capacity = wanted;
    }
    m->names[m->classes++] = name;
    return OK;
}

static Status refuse_missing(const Map *m, const char *name)
{
    const char *near = str_nearest(name, m->own, m->whole->classes);
    const bool two = m->rows.separator == '\t' && strchr(name, ' ');
    return fail(ERR_DATA, "%s:%d: %s has no class %s%s%s%s%s", m->rows.file, m->rows.line,
                index_root(m->whole), name, near ? "; is " : "", near ? near : "",
                near ? " meant?" : "", two ? " (between two names is a tab)" : "");
}

static Status take_row(Map *m, char *const *fields, int count)
{
    const char *own = fields[0], *name = count > 1 ? fields[1] : own;
    if (count > 2 || !own[0] || !name[0])
        return fail(ERR_DATA, "%s:%d: a class, and at most its new name, are wanted", m->rows.file,
                    m->rows.line);
    const int from = find(m->own, m->whole->classes, own);
    int to = find(m->names, m->classes, name);
    if (from == UNSET && !m->missing_ok) return refuse_missing(m, own);
    if (from != UNSET && m->to[from] != UNSET)
        return fail(ERR_DATA, "%s:%d: class %s is there twice", m->rows.file, m->rows.line, own);
    if (to == UNSET) {
        to = m->classes;
        TRY(add_class(m, name));
    }
    if (from != UNSET) m->to[from] = to;
    return OK;
}

/* ---- what fills a map ---- */

static Status read_rows(Map *m)
{
    char *fields[ROWS_FIELDS];
    int count = 0;
    TRY(rows_open(&m->rows, m->source));
    if (!m->rows.separator) m->rows.separator = '\t';
    TRY(rows_next(&m->rows, fields, &count));
    for (; count > 0;) {
        TRY(take_row(m, fields, count));
        TRY(rows_next(&m->rows, fields, &count));
    }
    return m->classes > 0 ? OK : fail(ERR_DATA, "%s: no class in it", m->source);
}

static Status take_names(Map *m)
{
    m->rows = (Rows){ .file = "", .text = mem_strdup(m->source) };
    if (!m->rows.text) return ERR_MEMORY;
    for (char *line = m->rows.text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        TRY(add_class(m, line));
    }
    for (int c = 0; c < m->whole->classes; c++) {
        m->to[c] = find(m->names, m->classes, m->own[c]);
        if (m->to[c] != UNSET) continue;
        const char *near = str_nearest(m->own[c], m->names, m->classes);
        return fail(ERR_DATA,
                    "%s: class %s is none of the run's%s%s%s (data.class_map can rename it, or "
                    "leave it out)",
                    index_root(m->whole), m->own[c], near ? "; is " : "", near ? near : "",
                    near ? " meant?" : "");
    }
    return OK;
}

/* ---- the set by a map ---- */

static void add_samples(Map *m, int from, uint64_t *count)
{
    for (uint64_t i = m->whole->class_start[from]; i < m->whole->class_start[from + 1]; i++)
        m->ids[(*count)++] = (int64_t)i;
}

static Status select_samples(Map *m, Index **out)
{
    uint64_t count = 0;
    m->ids = mem_alloc((size_t)m->whole->images * sizeof *m->ids);
    m->start = mem_alloc(((size_t)m->classes + 1) * sizeof *m->start);
    if (!m->ids || !m->start) return ERR_MEMORY;
    for (int to = 0; to < m->classes; to++) {
        m->start[to] = count;
        for (int from = 0; from < m->whole->classes; from++)
            if (m->to[from] == to) add_samples(m, from, &count);
    }
    m->start[m->classes] = count;
    const IndexChoice choice = {
        .ids = m->ids, .class_start = m->start, .class_names = m->names, .classes = m->classes
    };
    return count ? index_select(out, m->whole, &choice)
                 : fail(ERR_DATA, "%s: no image of %s is in these classes", m->rows.file,
                        index_root(m->whole));
}

static Status by_map(Index **out, const Index *whole, FillMap *fill, const char *source,
                     bool missing_ok)
{
    const size_t n = (size_t)whole->classes;
    Map m = { .whole = whole,
              .own = mem_alloc(n * sizeof *m.own),
              .to = mem_alloc(n * sizeof *m.to),
              .source = source,
              .missing_ok = missing_ok };
    *out = NULL;
    for (size_t c = 0; m.own && m.to && c < n; c++) {
        m.own[c] = index_class_name(whole, (int)c);
        m.to[c] = UNSET;
    }
    Status status = m.own && m.to ? fill(&m) : ERR_MEMORY;
    if (status == OK) status = select_samples(&m, out);
    rows_close(&m.rows);
    mem_free(m.own);
    mem_free(m.to);
    mem_free(m.names);
    mem_free(m.ids);
    mem_free(m.start);
    return status;
}

Status index_classes_map(Index **out, const Index *whole, const char *file, bool missing_ok)
{
    return by_map(out, whole, read_rows, file, missing_ok);
}

/* Whether names are the set's own, in its order. *words: they are more than the numbers of their
 * lines. */
static bool same_names(const Index *whole, const char *names, bool *words)
{
    bool same = true;
    int c = 0;
    *words = false;
    for (const char *line = names; line; c++) {
        char number[16];
        const size_t n = strcspn(line, "\n");
        const char *own = c < whole->classes ? index_class_name(whole, c) : "";
        const size_t digits = (size_t)snprintf(number, sizeof number, "%d", c);
        same = same && strlen(own) == n && strncmp(line, own, n) == 0;
        *words = *words || n != digits || strncmp(line, number, n) != 0;
        line = line[n] ? line + n + 1 : NULL;
    }
    return same && c == whole->classes;
}

static bool are_numbers(const Index *whole)
{
    for (int c = 0; c < whole->classes; c++) {
        const char *name = index_class_name(whole, c);
        if (!*name || name[strspn(name, "0123456789")]) return false;
    }
    return true;
}

Status index_classes_of(Index **out, const Index *whole, const char *names)
{
    bool words;
    *out = NULL;
    if (!(whole->header->flags & INDEX_NAMED) || same_names(whole, names, &words)) return OK;
    return words || are_numbers(whole) ? by_map(out, whole, take_names, names, true) : OK;
}
