/* str.h - strings: a growing buffer, strict number parsing, nearest name. */
#ifndef CONVOY_BASE_STR_H
#define CONVOY_BASE_STR_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* zero-initialise; text is always NUL-terminated once something was added, else NULL */
typedef struct StrBuf {
    char *text;
    size_t length, capacity;
    bool failed; /* an allocation failed; later adds do nothing; check once at the end */
} StrBuf;
void str_add(StrBuf *b, const char *s);
void str_add_n(StrBuf *b, const char *s, size_t n);
void str_printf(StrBuf *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* Behind a blank, unless a line begins: as one word of a shell. */
void str_add_word(StrBuf *b, const char *word);
/* "45 s", "3:20", "1:02:03", "2 days 1:02:03" */
void str_add_duration(StrBuf *b, double seconds);
bool str_reserve(StrBuf *b, size_t n); /* room for n more bytes; false: failed */
void str_clear(StrBuf *b);             /* length 0, keeps the memory */
void str_free(StrBuf *b);

/* The whole of s must be a number (surrounding blanks allowed), in range of the type; else false
 * and *out untouched. */
bool str_to_i64(const char *s, int64_t *out);
bool str_to_double(const char *s, double *out); /* decimal and exponent forms; no inf, nan, hex */
bool str_to_bool(const char *s, bool *out);     /* true/false/yes/no/on/off/1/0 */
bool str_starts_with(const char *s, const char *prefix);
bool str_ends_with_nocase(const char *s, const char *suffix);
/* Whether all of text is as pattern says, in which * stands for any characters, even none, and ?
 * for one. */
bool str_matches(const char *pattern, const char *text);
/* ---- text that others wrote ---- */

/* Bytes of the UTF-8 character at text and its number; 0 if there is none (RFC 3629: no overlong
 * form, no surrogate). */
int str_character(const char *text, uint32_t *code);
/* Whether a terminal would act on it rather than show it: control characters, C1's among them, ends
 * of lines, marks that turn the direction of what follows. */
bool str_steers(uint32_t code);
/* Adds text so that a terminal only shows it: what steers, or is no UTF-8, byte by byte as \x1b, or
 * as \n, \r, \t. Characters in keep pass. */
void str_add_visible(StrBuf *b, const char *text, const char *keep);
/* The same into bytes at out, cut to them between two characters; nothing passes. */
void str_visible(char *out, size_t bytes, const char *text);

/* The last line of text that is not blank, in place; "" if there is none. */
const char *str_last_line(char *text);
/* The entry of names[0..n) nearest to s, or NULL if none is near enough to be worth suggesting. */
const char *str_nearest(const char *s, const char *const *names, int n);
#endif
