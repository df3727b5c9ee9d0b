/* rows.c - fields are unquoted and ended in place; see rows.h. */
#include "data/index/rows.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

Status rows_open(Rows *r, const char *file)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    *r = (Rows){ .file = file };
    TRY(fs_read_file(file, &text, &bytes));
    r->text = r->at = (char *)text;
    r->end = r->text + bytes;
    if (str_ends_with_nocase(file, ".csv")) r->separator = ',';
    if (str_ends_with_nocase(file, ".tsv")) r->separator = '\t';
    if (str_starts_with(r->text, "\xEF\xBB\xBF")) r->at += 3;
    return memchr(text, 0, bytes) ? fail(ERR_DATA, "%s: not a text file", file) : OK;
}

void rows_close(Rows *r)
{
    mem_free(r->text);
    *r = (Rows){ 0 };
}

/* A quoted field, from behind its first mark: *at comes to lie behind the last. */
static Status take_quoted(Rows *r, char **at)
{
    char *from = *at, *to = *at;
    for (; from < r->end; from++) {
        if (*from == '\n') r->lines_read++;
        if (*from == '"' && *++from != '"') {
            *at = from;
            *to = '\0';
            return OK;
        }
        *to++ = *from;
    }
    return fail(ERR_DATA, "%s:%d: a quotation mark is not closed", r->file, r->line);
}

static bool is_blank(const Rows *r, char c)
{
    return c == ' ' || c == '\r' || (c == '\t' && r->separator != '\t');
}

/* One field, which ends with a NUL; *more: another follows in the row. */
static Status take_field(Rows *r, char **field, bool *more)
{
    const char stops[] = { '\n', r->separator, '\0' };
    while (*r->at != '\r' && is_blank(r, *r->at)) r->at++;
    const bool quoted = r->separator && *r->at == '"';
    *field = r->at + quoted;
    if (quoted) {
        r->at++;
        TRY(take_quoted(r, &r->at));
    }
    char *stop = r->at + strcspn(r->at, stops), *end = stop;
    while (end > r->at && is_blank(r, end[-1])) end--;
    if (quoted && end > r->at)
        return fail(ERR_DATA, "%s:%d: text after a quoted field", r->file, r->line);
    *more = *stop != '\0' && *stop != '\n';
    if (*stop == '\n') r->lines_read++;
    r->at = stop < r->end ? stop + 1 : stop;
    if (!quoted) *end = '\0';
    return OK;
}

Status rows_next(Rows *r, char *fields[ROWS_FIELDS], int *count)
{
    *count = 0;
    while (r->at < r->end) {
        bool more = true;
        int n = 0;
        r->line = r->lines_read + 1;
        for (; more; n++) {
            if (n == ROWS_FIELDS)
                return fail(ERR_DATA, "%s:%d: more than %d fields", r->file, r->line, ROWS_FIELDS);
            TRY(take_field(r, &fields[n], &more));
        }
        if (n == 1 && fields[0][0] == '\0') continue;
        *count = n;
        return OK;
    }
    return OK;
}
