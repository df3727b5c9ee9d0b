/* json_write.c - the writing half of json.h. Everything goes to a StrBuf, whose failed flag carries
 * an allocation failure. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int json_is_utf8(const char *text)
{
    uint32_t code;
    for (int n; *text; text += n)
        if ((n = str_character(text, &code)) == 0) return 0;
    return 1;
}

/* What steers a terminal is escaped too: a record may be printed. */
static void add_quoted(StrBuf *out, const char *value)
{
    static const char letters[] = "\"\\\b\f\n\r\t", escapes[] = "\"\\bfnrt";
    str_add(out, "\"");
    while (*value) {
        uint32_t code = 0;
        int n = str_character(value, &code);
        const char *letter = strchr(letters, *value);
        if (n == 0) str_add(out, "\xEF\xBF\xBD");
        else if (letter) str_printf(out, "\\%c", escapes[letter - letters]);
        else if (str_steers(code)) str_printf(out, "\\u%04x", (unsigned)code);
        else str_add_n(out, value, (size_t)n);
        value += n == 0 ? 1 : n;
    }
    str_add(out, "\"");
}

/* What stands before every value: a comma if one is due, and the key. */
static void begin_value(JsonWriter *w, const char *key)
{
    if (w->need_comma[w->depth]) str_add(w->out, ",");
    w->need_comma[w->depth] = 1;
    if (!key) return;
    add_quoted(w->out, key);
    str_add(w->out, ":");
}

static void begin_nested(JsonWriter *w, const char *key, const char *bracket)
{
    begin_value(w, key);
    ASSERT(w->depth + 1 < (int)sizeof w->need_comma);
    w->need_comma[++w->depth] = 0;
    str_add(w->out, bracket);
}

static void end_nested(JsonWriter *w, const char *bracket)
{
    ASSERT(w->depth > 0);
    w->depth--;
    if (w->depth == 0) w->need_comma[0] = 0; /* a document ends here; what follows is another one */
    str_add(w->out, bracket);
}

void json_begin_object(JsonWriter *w, const char *key)
{
    begin_nested(w, key, "{");
}

void json_end_object(JsonWriter *w)
{
    end_nested(w, "}");
}

void json_begin_array(JsonWriter *w, const char *key)
{
    begin_nested(w, key, "[");
}

void json_end_array(JsonWriter *w)
{
    end_nested(w, "]");
}

void json_string(JsonWriter *w, const char *key, const char *value)
{
    begin_value(w, key);
    add_quoted(w->out, value);
}

void json_int(JsonWriter *w, const char *key, int64_t value)
{
    begin_value(w, key);
    str_printf(w->out, "%lld", (long long)value);
}

void json_number(JsonWriter *w, const char *key, double value)
{
    char text[40];
    begin_value(w, key);
    if (!isfinite(value)) {
        str_add(w->out, "null");
        return;
    }
    /* %g drops trailing zeros, so 15 covers everything shorter */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    str_add(w->out, text);
}

void json_bool(JsonWriter *w, const char *key, int value)
{
    begin_value(w, key);
    str_add(w->out, value ? "true" : "false");
}
