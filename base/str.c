/* str.c - growing text, strict parsing of numbers, nearest names. */
#include "base/str.h"

#include "base/mem.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- buffer ---- */

bool str_reserve(StrBuf *b, size_t n)
{
    size_t need;
    if (b->failed) return false;
    if (!mem_add(b->length, n, &need) || !mem_add(need, 1, &need)) {
        b->failed = true;
        return false;
    }
    if (need <= b->capacity) return true;
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < need) capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *text = mem_realloc(b->text, capacity);
    if (!text) {
        b->failed = true;
        return false;
    }
    b->text = text;
    b->capacity = capacity;
    return true;
}

void str_add_n(StrBuf *b, const char *s, size_t n)
{
    if (!str_reserve(b, n)) return;
    if (n > 0) memcpy(b->text + b->length, s, n); /* s may be NULL where there is nothing */
    b->length += n;
    b->text[b->length] = '\0';
}

void str_add(StrBuf *b, const char *s)
{
    str_add_n(b, s, strlen(s));
}

void str_printf(StrBuf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(n >= 0);
    if (!str_reserve(b, (size_t)n)) return;
    va_start(args, format);
    vsnprintf(b->text + b->length, (size_t)n + 1, format, args);
    va_end(args);
    b->length += (size_t)n;
}

void str_clear(StrBuf *b)
{
    b->length = 0;
    b->failed = false;
    if (b->text) b->text[0] = '\0';
}

void str_free(StrBuf *b)
{
    mem_free(b->text);
    *b = (StrBuf){ 0 };
}

/* ---- text that others wrote ---- */

int str_character(const char *text, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)text;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* by bytes: no overlong form */
    int n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n == 0 || p[0] > 0xF4) return 0;
    *code = n == 1 ? p[0] : p[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0; /* also stops at the NUL */
        *code = *code << 6 | (p[i] & 0x3F);
    }
    bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
    return *code < least[n] || surrogate || *code > 0x10FFFF ? 0 : n;
}

bool str_steers(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = { { 0, 0x1F }, { 0x7F, 0x9F }, { 0x2028, 0x202E }, { 0x2066, 0x2069 } };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

enum { SHOWN_BYTES = 16 }; /* three bytes as \xNN, and a NUL */

/* How the character at text, not its end, is shown; returns its bytes. */
static int show(char shown[SHOWN_BYTES], const char *text, const char *keep)
{
    static const char letters[] = "\n\r\t", names[] = "nrt";
    uint32_t code = 0;
    int n = str_character(text, &code);
    const char *letter = strchr(letters, *text);
    if (n > 0 && (!str_steers(code) || strchr(keep, *text))) {
        snprintf(shown, SHOWN_BYTES, "%.*s", n, text);
    } else if (letter) {
        snprintf(shown, SHOWN_BYTES, "\\%c", names[letter - letters]);
    } else {
        n = n > 0 ? n : 1;
        for (int i = 0; i < n; i++)
            snprintf(shown + 4 * i, SHOWN_BYTES - 4 * (size_t)i, "\\x%02x", (unsigned char)text[i]);
    }
    return n;
}

void str_add_visible(StrBuf *b, const char *text, const char *keep)
{
    char shown[SHOWN_BYTES];
    while (*text) {
        size_t plain = 0; /* most of what there is */
        while (text[plain] >= ' ' && text[plain] < 127) plain++;
        str_add_n(b, text, plain);
        text += plain;
        if (!*text) break;
        text += show(shown, text, keep);
        str_add(b, shown);
    }
}

void str_visible(char *out, size_t bytes, const char *text)
{
    char shown[SHOWN_BYTES];
    for (size_t n; *text && bytes > 0; out += n, bytes -= n) {
        text += show(shown, text, "");
        n = strlen(shown);
        if (n >= bytes) break;
        memcpy(out, shown, n);
    }
    if (bytes > 0) *out = '\0';
}

/* ---- numbers ---- */

static const char *skip_blanks(const char *s)
{
    while (isspace((unsigned char)*s)) s++;
    return s;
}

static const char *skip_digits(const char *s)
{
    while (isdigit((unsigned char)*s)) s++;
    return s;
}

void str_add_word(StrBuf *b, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    if (b->length > 0 && b->text[b->length - 1] != '\n') str_add(b, " ");
    if (word[0] && word[strspn(word, plain)] == '\0') {
        str_add(b, word);
        return;
    }
    str_add(b, "'");
    for (; *word; word++) str_add_n(b, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    str_add(b, "'");
}

void str_add_duration(StrBuf *b, double seconds)
{
    long long s = seconds > 0 && seconds < 1e12 ? (long long)(seconds + 0.5) : 0, days = s / 86400;
    if (days > 0) str_printf(b, "%lld %s ", days, days == 1 ? "day" : "days");
    if (s < 60) str_printf(b, "%lld s", s);
    else if (s < 3600) str_printf(b, "%lld:%02lld", s / 60, s % 60);
    else str_printf(b, "%lld:%02lld:%02lld", s % 86400 / 3600, s / 60 % 60, s % 60);
}

bool str_to_i64(const char *s, int64_t *out)
{
    const char *start = skip_blanks(s);
    const char *digits = start + (*start == '+' || *start == '-');
    const char *end = skip_digits(digits);
    if (end == digits || *skip_blanks(end) != '\0') return false;
    errno = 0;
    long long value = strtoll(start, NULL, 10);
    if (errno == ERANGE || value < INT64_MIN || value > INT64_MAX) return false;
    *out = value;
    return true;
}

/* The end of a decimal number at s, or s if there is none. strtod() alone would also take inf, nan
 * and hex. */
static const char *scan_decimal(const char *s)
{
    const char *p = s + (*s == '+' || *s == '-');
    const char *whole_end = skip_digits(p);
    ptrdiff_t digits = whole_end - p;
    p = whole_end;
    if (*p == '.') {
        const char *fraction_end = skip_digits(p + 1);
        digits += fraction_end - (p + 1);
        p = fraction_end;
    }
    if (digits == 0) return s;
    if (*p == 'e' || *p == 'E') {
        const char *exponent = p + 1 + (p[1] == '+' || p[1] == '-');
        const char *end = skip_digits(exponent);
        if (end == exponent) return s;
        p = end;
    }
    return p;
}

bool str_to_double(const char *s, double *out)
{
    const char *start = skip_blanks(s);
    const char *end = scan_decimal(start);
    if (end == start || *skip_blanks(end) != '\0') return false;
    double value = strtod(start, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

bool str_to_bool(const char *s, bool *out)
{
    static const char *const words[] = { "false", "no", "off", "0", "true", "yes", "on", "1" };
    for (int i = 0; i < 8; i++) {
        if (strcasecmp(s, words[i]) != 0) continue;
        *out = i >= 4;
        return true;
    }
    return false;
}

/* ---- comparing ---- */

bool str_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends_with_nocase(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && strcasecmp(s + n - k, suffix) == 0;
}

bool str_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL; /* the last * so far, and what it does not stand for */
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

/* longer strings are no typos of our names */
#define DISTANCE_MAX 127

static int min2(int a, int b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein (optimal string alignment) of strings up to DISTANCE_MAX. */
static int distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    int table[3][DISTANCE_MAX + 1]; /* rows i-2, i-1 and i, by i modulo 3 */
    int n = (int)la, m = (int)lb;
    for (int j = 0; j <= m; j++) table[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = table[i % 3];
        const int *above = table[(i + 2) % 3], *above2 = table[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int d = above[j - 1] + (a[i - 1] != b[j - 1]);
            d = min2(d, min2(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = min2(d, above2[j - 2] + 1);
            row[j] = d;
        }
    }
    return table[n % 3][m];
}

const char *str_nearest(const char *s, const char *const *names, int n)
{
    const char *best = NULL;
    size_t length = strlen(s);
    if (length > DISTANCE_MAX) return NULL;
    int best_distance = 2 + (int)length / 4; /* one edit, and one more for every four letters */
    for (int i = 0; i < n; i++) {
        int d = strlen(names[i]) > DISTANCE_MAX ? INT_MAX : distance(s, names[i]);
        if (d >= best_distance) continue;
        best_distance = d;
        best = names[i];
    }
    return best;
}

const char *str_last_line(char *text)
{
    if (!text) return "";
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]);) text[--n] = '\0';
    const char *last = text;
    for (const char *end; (end = strpbrk(last, "\r\n"));) last = end + 1;
    return last;
}
