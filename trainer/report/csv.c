/* csv.c - see csv.h. */
#include "trainer/report/csv.h"
#include <math.h>
#include <string.h>

static void separate(StrBuf *out)
{
    if (out->length > 0 && out->text[out->length - 1] != '\n') str_add(out, ",");
}

void csv_text(StrBuf *out, const char *text)
{
    separate(out);
    if (!strpbrk(text, ",\"\r\n")) {
        str_add(out, text);
        return;
    }
    str_add(out, "\"");
    for (; *text; text++) str_add_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_add(out, "\"");
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
