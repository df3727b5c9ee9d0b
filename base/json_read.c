/* json_read.c - the reading half of json.h: recursive descent over a byte range that need not end
 * in a NUL.
 *
 * The input may come from a damaged file: every step checks the end, depth is bounded, and nothing
 * but the grammar of RFC 8259 is accepted. The tree and its strings live in the caller's arena. */
#include "base/json.h"

#include "base/arena.h"
#include <math.h>
#include <string.h>

#define DEPTH_MAX        16
#define VALUES_MAX       (1 << 21) /* each takes many times the bytes that it has in the text */
#define NUMBER_BYTES_MAX 63

typedef struct Reader {
    Arena *arena;
    const char *text;
    size_t bytes, at;
    int depth, values;
} Reader;

static Status parse_value(Reader *r, JsonValue **out);

static Status bad(const Reader *r, const char *what)
{
    return fail(ERR_DATA, "JSON: byte %zu: %s", r->at, what);
}

/* The next byte, or -1 at the end. */
static int peek(const Reader *r)
{
    return r->at < r->bytes ? (unsigned char)r->text[r->at] : -1;
}

static bool accept(Reader *r, char c)
{
    if (peek(r) != (unsigned char)c) return false;
    r->at++;
    return true;
}

static void skip_blanks(Reader *r)
{
    while (accept(r, ' ') || accept(r, '\t') || accept(r, '\n') || accept(r, '\r')) {
    }
}

static bool skip_digits(Reader *r)
{
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') r->at++;
    return r->at > start;
}

/* ---- strings ---- */

static bool parse_hex4(Reader *r, uint32_t *out)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef";
        int c = peek(r);
        if (c >= 'A' && c <= 'F') c += 'a' - 'A';
        const char *digit = c > 0 ? strchr(digits, c) : NULL;
        if (!digit) return false;
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *out = value;
    return true;
}

static char *put_utf8(char *p, uint32_t code)
{
    if (code < 0x80) {
        *p++ = (char)code;
        return p;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = { 0, 0xC0, 0xE0, 0xF0 };
    *p++ = (char)(leads[more] | code >> (6 * more));
    while (more-- > 0) *p++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
    return p;
}

/* After "\u". A surrogate pair is one code point; half a pair becomes U+FFFD. */
static Status parse_unicode(Reader *r, char **p)
{
    uint32_t code, low;
    if (!parse_hex4(r, &code)) return bad(r, "bad \\u escape");
    if (code == 0) return bad(r, "a string contains a zero byte");
    if (code >= 0xD800 && code <= 0xDFFF) {
        size_t after = r->at;
        bool pair = code < 0xDC00 && accept(r, '\\') && accept(r, 'u') && parse_hex4(r, &low) &&
                    low >= 0xDC00 && low <= 0xDFFF;
        if (!pair) r->at = after;
        code = pair ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
    }
    *p = put_utf8(*p, code);
    return OK;
}

static Status parse_escape(Reader *r, char **p)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    r->at++;
    if (c == 'u') return parse_unicode(r, p);
    if (!letter) return bad(r, "bad escape");
    *(*p)++ = meanings[letter - letters];
    return OK;
}

static Status parse_string(Reader *r, const char **out)
{
    if (!accept(r, '"')) return bad(r, "expected a string");
    size_t end = r->at; /* of the closing quote: unescaping never makes text longer */
    while (end < r->bytes && r->text[end] != '"') end += r->text[end] == '\\' ? 2 : 1;
    if (end >= r->bytes) return bad(r, "unfinished string");
    char *text = arena_alloc(r->arena, end - r->at + 1), *p = text;
    if (!text) return ERR_MEMORY;
    while (!accept(r, '"')) {
        int c = peek(r);
        if (c < 0x20) return bad(r, "control character in a string");
        r->at++;
        if (c == '\\') TRY(parse_escape(r, &p));
        else *p++ = (char)c;
    }
    *p = '\0';
    *out = text;
    return OK;
}

/* ---- other values ---- */

static Status parse_number(Reader *r, JsonValue *value)
{
    char text[NUMBER_BYTES_MAX + 1];
    size_t start = r->at;
    accept(r, '-');
    if (!accept(r, '0') && !skip_digits(r)) return bad(r, "expected a value");
    bool whole = true;
    if (accept(r, '.')) {
        whole = false;
        if (!skip_digits(r)) return bad(r, "expected digits");
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        whole = false;
        if (!accept(r, '+')) accept(r, '-');
        if (!skip_digits(r)) return bad(r, "expected digits");
    }
    size_t n = r->at - start;
    if (n > NUMBER_BYTES_MAX) return bad(r, "number too long");
    memcpy(text, r->text + start, n);
    text[n] = '\0';
    value->type = JSON_NUMBER;
    value->is_integer = whole && str_to_i64(text, &value->integer);
    if (!str_to_double(text, &value->number)) return bad(r, "number out of range");
    return OK;
}

static Status parse_word(Reader *r, JsonValue *value)
{
    static const struct {
        const char *word;
        JsonType type;
        double number;
    } words[] = { { "null", JSON_NULL, 0 }, { "true", JSON_BOOL, 1 }, { "false", JSON_BOOL, 0 } };
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i].word);
        if (r->bytes - r->at < n || memcmp(r->text + r->at, words[i].word, n) != 0) continue;
        r->at += n;
        value->type = words[i].type;
        value->number = words[i].number;
        return OK;
    }
    return parse_number(r, value);
}

static Status parse_member(Reader *r, bool keyed, JsonValue **out)
{
    const char *key = NULL;
    skip_blanks(r);
    if (keyed) {
        TRY(parse_string(r, &key));
        skip_blanks(r);
        if (!accept(r, ':')) return bad(r, "expected ':'");
    }
    TRY(parse_value(r, out));
    (*out)->key = key;
    skip_blanks(r);
    return OK;
}

/* An object (keyed) or an array, after its opening bracket. */
static Status parse_members(Reader *r, JsonValue *parent, bool keyed)
{
    char close = keyed ? '}' : ']';
    JsonValue **tail = &parent->child;
    parent->type = keyed ? JSON_OBJECT : JSON_ARRAY;
    skip_blanks(r);
    if (accept(r, close)) return OK;
    do {
        JsonValue *member = NULL;
        TRY(parse_member(r, keyed, &member));
        *tail = member;
        tail = &member->next;
    } while (accept(r, ','));
    return accept(r, close) ? OK : bad(r, keyed ? "expected ',' or '}'" : "expected ',' or ']'");
}

static Status parse_value(Reader *r, JsonValue **out)
{
    if (++r->values > VALUES_MAX) return bad(r, "too many values");
    JsonValue *value = arena_alloc(r->arena, sizeof *value);
    if (!value) return ERR_MEMORY;
    *out = value;
    skip_blanks(r);
    if (peek(r) == '"') {
        value->type = JSON_STRING;
        return parse_string(r, &value->string);
    }
    bool object = accept(r, '{');
    if (!object && !accept(r, '[')) return parse_word(r, value);
    if (++r->depth > DEPTH_MAX) return bad(r, "nested too deeply");
    TRY(parse_members(r, value, object));
    r->depth--;
    return OK;
}

Status json_parse(struct Arena *arena, const char *text, size_t bytes, JsonValue **out)
{
    Reader reader = { .arena = arena, .text = text, .bytes = bytes };
    JsonValue *value;
    *out = NULL;
    TRY(parse_value(&reader, &value));
    skip_blanks(&reader);
    if (reader.at != bytes) return bad(&reader, "text after the end");
    *out = value;
    return OK;
}

/* No deeper than json_parse() let it be. */
Status json_make_visible(struct Arena *arena, JsonValue *tree)
{
    for (JsonValue *v = tree; v; v = v->next) {
        if (v->child) TRY(json_make_visible(arena, v->child));
        if (v->type != JSON_STRING) continue;
        StrBuf shown FREED_BY(str_free) = { 0 };
        str_add_visible(&shown, v->string, "");
        if (shown.text) v->string = arena_strdup(arena, shown.text);
        if (shown.failed || !v->string) return ERR_MEMORY;
    }
    return OK;
}

const JsonValue *json_get(const JsonValue *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT) return NULL;
    for (const JsonValue *member = object->child; member; member = member->next) {
        if (strcmp(member->key, key) == 0) return member;
    }
    return NULL;
}

bool json_truth(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->type == JSON_BOOL && v->number != 0;
}

double json_double(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->type == JSON_NUMBER ? v->number : (double)NAN;
}

int64_t json_whole(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->type == JSON_NUMBER && v->is_integer ? v->integer : -1;
}

const char *json_text(const JsonValue *object, const char *key, const char *absent)
{
    const JsonValue *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->string : absent;
}
