/* json.h - writes one JSON value after another into a StrBuf; and reads small documents (checkpoint
 * headers, metrics).
 *
 * Writer: commas and quoting are its business. Numbers carry all their digits (%.17g shortened to
 * the shortest form that reads back equal); NaN and infinities become null. Strings are escaped,
 * and so is all that steers a terminal; invalid UTF-8 bytes become U+FFFD. */
#ifndef CONVOY_BASE_JSON_H
#define CONVOY_BASE_JSON_H
#include "base/str.h"
#include <stdint.h>

typedef struct JsonWriter { /* zero-initialise, then set out */
    StrBuf *out;
    int depth;
    unsigned char need_comma[16];
} JsonWriter;
/* key NULL at top level and inside arrays; same below */
void json_begin_object(JsonWriter *w, const char *key);
void json_end_object(JsonWriter *w);
void json_begin_array(JsonWriter *w, const char *key);
void json_end_array(JsonWriter *w);
void json_string(JsonWriter *w, const char *key, const char *value);
void json_int(JsonWriter *w, const char *key, int64_t value);
void json_number(JsonWriter *w, const char *key, double value);
void json_bool(JsonWriter *w, const char *key, int value);

/* Reader: a tree in an arena-like block; bounds-checked, depth at most 16, at most 2 M
 * values. Objects and arrays are
 * linked lists of children. */
typedef enum JsonType {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} JsonType;
typedef struct JsonValue {
    JsonType type;
    const char *key;    /* inside an object, else NULL */
    const char *string; /* JSON_STRING: unescaped, NUL-terminated */
    double number;      /* JSON_NUMBER; JSON_BOOL as 0/1 */
    int64_t integer;    /* JSON_NUMBER: exact value where is_integer */
    int is_integer;
    struct JsonValue *child, *next;
} JsonValue;
struct Arena;
/* Parses text[0..bytes) completely; ERR_DATA with the byte offset otherwise. *out lives in
 * arena. */
Status json_parse(struct Arena *arena, const char *text, size_t bytes, JsonValue **out);
/* Gives every text of a tree that is about to be printed the form of str_add_visible(). */
Status json_make_visible(struct Arena *arena, JsonValue *tree);
int json_is_utf8(const char *text); /* whether all of it is valid UTF-8 */
/* NULL if object is NULL, no object, or has no such key */
const JsonValue *json_get(const JsonValue *object, const char *key);
bool json_truth(const JsonValue *object, const char *key);    /* it has that key, and true there */
double json_double(const JsonValue *object, const char *key); /* NaN: no number there */
int64_t json_whole(const JsonValue *object, const char *key); /* -1: no whole number there */
/* borrows; absent: no text there */
const char *json_text(const JsonValue *object, const char *key, const char *absent);
#endif
