/* csv.c - see csv.h. */
#include "trainer/app/report/csv.h"
#include <math.h>
#include <string.h>

static void separate(StrBuf *out)
{
    if (out->length > 0 && out->text[out->length - 1] != '\n') str_add(out, ",");
}

static void put(StrBuf *out, const char *text, bool quoted)
{
    if (quoted) str_add(out, "\"");
    /* A program of tables takes what begins so for a formula, unless a ' stands before it; one that
     * is in the text already gets another, so that each can be told from the other. */
    if (*text && strchr("=+-@'\t\r", *text)) str_add(out, "'");
    for (; *text; text++) str_add_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    if (quoted) str_add(out, "\"");
}

void csv_text(StrBuf *out, const char *text)
{
    StrBuf shown FREED_BY(str_free) = { 0 };
    separate(out);
    str_add_visible(&shown, text, "");
    if (shown.text) put(out, shown.text, strpbrk(shown.text, ",\"") != NULL);
    out->failed = out->failed || shown.failed;
}

void csv_number(StrBuf *out, double value)
{
    separate(out);
    if (isfinite(value)) str_printf(out, "%.10g", value);
}

void csv_whole(StrBuf *out, int64_t value)
{
    separate(out);
    if (value >= 0) str_printf(out, "%lld", (long long)value);
}
