/* json_write.c - the writing half of json.h. Everything goes to a StrBuf, whose failed flag carries
 * an allocation failure. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the valid UTF-8 sequence at p (RFC 3629: no overlong forms, no surrogates), 0 if there
 * is none. */
static int utf8_sequence(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    int n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0; /* also stops at the NUL */
    }
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0;
    if (p[0] == 0xED && p[1] > 0x9F) return 0;
    if (p[0] == 0xF0 && p[1] < 0x90) return 0;
    if (p[0] == 0xF4 && p[1] > 0x8F) return 0;
    return n;
}

int json_is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    for (int n; *p; p += n)
        if ((n = utf8_sequence(p)) == 0) return 0;
    return 1;
}

static void add_quoted(StrBuf *out, const char *value)
{
    static const char letters[] = "\"\\\b\f\n\r\t", escapes[] = "\"\\bfnrt";
    const unsigned char *p = (const unsigned char *)value;
    str_add(out, "\"");
    while (*p) {
        int n = utf8_sequence(p);
        const char *letter = strchr(letters, *p);
        if (n == 0) str_add(out, "\xEF\xBF\xBD");
        else if (letter) str_printf(out, "\\%c", escapes[letter - letters]);
        else if (*p < 0x20) str_printf(out, "\\u%04x", *p);
        else str_add_n(out, (const char *)p, (size_t)n);
        p += n == 0 ? 1 : n;
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
