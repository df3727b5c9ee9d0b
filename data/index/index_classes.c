/* index_classes.c - see index_classes.h. Names are looked for one by one: classes are few. */
#include "data/index/index_classes.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index/index_select.h"
#include "data/index/rows.h"
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
} Map;

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
    return fail(ERR_DATA, "%s:%d: %s has no class %s%s%s%s", m->rows.file, m->rows.line,
                index_root(m->whole), name, near ? "; is " : "", near ? near : "",
                near ? " meant?" : "");
}

static Status take_row(Map *m, char *const *fields, int count, bool missing_ok)
{
    const char *own = fields[0], *name = count > 1 ? fields[1] : own;
    if (count > 2 || !own[0] || !name[0])
        return fail(ERR_DATA, "%s:%d: a class, and at most its new name, are wanted", m->rows.file,
                    m->rows.line);
    const int from = find(m->own, m->whole->classes, own);
    int to = find(m->names, m->classes, name);
    if (from == UNSET && !missing_ok) return refuse_missing(m, own);
    if (from != UNSET && m->to[from] != UNSET)
        return fail(ERR_DATA, "%s:%d: class %s is there twice", m->rows.file, m->rows.line, own);
    if (to == UNSET) {
        to = m->classes;
        TRY(add_class(m, name));
    }
    if (from != UNSET) m->to[from] = to;
    return OK;
}

static Status read_rows(Map *m, const char *file, bool missing_ok)
{
    char *fields[ROWS_FIELDS];
    int count = 0;
    TRY(rows_open(&m->rows, file));
    if (!m->rows.separator) m->rows.separator = '\t';
    for (int c = 0; c < m->whole->classes; c++) {
        m->own[c] = index_class_name(m->whole, c);
        m->to[c] = UNSET;
    }
    TRY(rows_next(&m->rows, fields, &count));
    for (; count > 0;) {
        TRY(take_row(m, fields, count, missing_ok));
        TRY(rows_next(&m->rows, fields, &count));
    }
    return m->classes > 0 ? OK : fail(ERR_DATA, "%s: no class in it", file);
}

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

Status index_classes_map(Index **out, const Index *whole, const char *file, bool missing_ok)
{
    const size_t n = (size_t)whole->classes;
    Map m = { .whole = whole,
              .own = mem_alloc(n * sizeof *m.own),
              .to = mem_alloc(n * sizeof *m.to) };
    *out = NULL;
    Status status = m.own && m.to ? read_rows(&m, file, missing_ok) : ERR_MEMORY;
    if (status == OK) status = select_samples(&m, out);
    rows_close(&m.rows);
    mem_free(m.own);
    mem_free(m.to);
    mem_free(m.names);
    mem_free(m.ids);
    mem_free(m.start);
    return status;
}
