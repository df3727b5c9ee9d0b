/* config_value.c - finding a key by its name, and setting one value from text. */
#include "base/mem.h"
#include "trainer/engine/config/config_internal.h"
#include "trainer/engine/config/foreign_words.h"
#include <stdio.h>
#include <string.h>

/* ---- keys ---- */

int config_find_key(const char *key)
{
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].key, key) == 0) return i;
    return -1;
}

bool config_is_key(const char *text, size_t n)
{
    for (int i = 0; i < config_key_count; i++)
        if (strncmp(config_keys[i].key, text, n) == 0 && config_keys[i].key[n] == '\0') return true;
    return false;
}

bool config_is_section(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < config_key_count; i++)
        if (strncmp(config_keys[i].key, name, n) == 0 && config_keys[i].key[n] == '.') return true;
    return false;
}

static const char *leaf(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* The full key or section worth suggesting, or NULL. */
static const char *nearest_key(const char *key)
{
    const char *names[CONFIG_KEY_MAX], *same;
    int count = 0;
    /* The right name in the wrong section, or in none, beats a similar spelling. */
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(leaf(config_keys[i].key), leaf(key)) == 0) names[count++] = config_keys[i].key;
    if (count > 0) return (same = str_nearest(key, names, count)) ? same : names[0];
    for (int i = 0; i < config_key_count; i++) names[i] = config_keys[i].key;
    const char *nearest = str_nearest(key, names, config_key_count);
    if (nearest || strchr(key, '.')) return nearest;
    char sections[CONFIG_KEY_MAX][32];
    for (int i = 0; i < config_key_count; i++) {
        const char *full = config_keys[i].key;
        snprintf(sections[i], sizeof sections[i], "%.*s", (int)(leaf(full) - full) - 1, full);
        names[i] = sections[i];
    }
    const char *section = str_nearest(key, names, config_key_count);
    /* the copies die here; a key of the section stays */
    for (int i = 0; section && i < config_key_count; i++)
        if (section == names[i]) return config_keys[i].key;
    return NULL;
}

void config_add_advice(const char *word, StrBuf *out)
{
    const ForeignWord *row = foreign_word_find(word);
    if (row) {
        foreign_word_describe(row, out);
        return;
    }
    char plain[64];
    snprintf(plain, sizeof plain, "%s", word + strspn(word, "-"));
    for (char *c = plain; *c; c++)
        if (*c == '-') *c = '_';
    const char *only = NULL;
    int count = 0;
    for (int i = 0; i < config_key_count; i++) {
        const bool of_series = strncmp(config_keys[i].key, "scale.", 6) == 0;
        if (of_series || strcmp(leaf(config_keys[i].key), plain) != 0) continue;
        only = config_keys[i].key;
        count++;
    }
    if (count == 1) str_printf(out, "use %s=VALUE", only);
}

static Status fail_foreign(const char *where, const char *key)
{
    StrBuf advice FREED_BY(str_free) = { 0 };
    config_add_advice(key, &advice);
    return advice.failed ? ERR_MEMORY
                         : fail(ERR_USAGE, "%sunknown key %s; %s", where, key, advice.text);
}

Status config_fail_unknown(const char *where, const char *key)
{
    const ForeignWord *row = foreign_word_find(key);
    if (config_is_section(key) && !row)
        return fail(ERR_USAGE, "%s%s is a section, not a key; it takes no value", where, key);
    const char *nearest = nearest_key(key);
    const bool misspelt = nearest && strchr(key, '.') && str_nearest(key, &nearest, 1);
    if (row && !misspelt) return fail_foreign(where, key);
    if (!nearest)
        return fail(ERR_USAGE, "%sunknown key %s (convoy inspect config lists all)", where, key);
    return fail(ERR_USAGE, "%sunknown key %s (did you mean %s?)", where, key, nearest);
}

Status config_note_origin(ConfigOrigin *origin, int index, int line, const char *where)
{
    if (origin->line[index] != 0 && line != ORIGIN_SET)
        return fail(ERR_USAGE, "%s%s is set twice (first in line %d)", where,
                    config_keys[index].key, origin->line[index]);
    origin->line[index] = line;
    return OK;
}

/* ---- one value ---- */

static Status fail_value(const ConfigKey *key, const char *text, const char *where)
{
    StrBuf allowed FREED_BY(str_free) = { 0 };
    config_add_allowed(key, &allowed);
    const char *words[CONFIG_WORDS_MAX];
    const char *nearest = str_nearest(text, words, config_key_words(key, words));
    return fail(ERR_USAGE, "%s%s is %s%s%s; it must be %s%s%s%s", where, key->key,
                *text ? "\"" : "", *text ? text : "empty", *text ? "\"" : "",
                allowed.text ? allowed.text : "", nearest ? " (did you mean " : "",
                nearest ? nearest : "", nearest ? "?)" : "");
}

static bool in_range(const ConfigKey *key, double value)
{
    bool above = key->flags & KEY_OPEN_MIN ? value > key->min : value >= key->min;
    bool below = key->flags & KEY_OPEN_MAX ? value < key->max : value <= key->max;
    return above && below;
}

static bool parse_number(const ConfigKey *key, const char *text, double *out)
{
    return str_to_double(text, out) && in_range(key, *out);
}

static bool parse_double(const ConfigKey *key, const char *text, double *out)
{
    if (!key->other || strcmp(text, key->other) != 0) return parse_number(key, text, out);
    *out = CONFIG_OTHER;
    return true;
}

/* A whole number; the range is checked in double, whose limits here are whole and below 2^53. */
static bool parse_int(const ConfigKey *key, const char *text, int64_t *out)
{
    if (key->other && strcmp(text, key->other) == 0) {
        *out = CONFIG_OTHER;
        return true;
    }
    return str_to_i64(text, out) && in_range(key, (double)*out);
}

static bool parse_name(const ConfigKey *key, const char *text, int *out)
{
    const char *words[CONFIG_WORDS_MAX];
    const int count = config_key_words(key, words);
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], text) != 0) continue;
        *out = i - (key->other != NULL);
        return true;
    }
    return false;
}

/* Whether a YAML file can hold the text: UTF-8 without control characters. Otherwise a run could
 * not be dumped and read back. */
static bool is_printable_utf8(const char *text)
{
    for (int n; *text; text += n) {
        uint32_t code = 0;
        n = str_character(text, &code);
        const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
        if (n == 0 || control || code == 0xFEFF || code == 0xFFFE || code == 0xFFFF) return false;
    }
    return true;
}

static Status set_string(const ConfigKey *key, char **field, const char *text, const char *where)
{
    if (!is_printable_utf8(text))
        return fail(ERR_USAGE, "%s%s must be UTF-8 text without control characters", where,
                    key->key);
    char *copy = mem_strdup(text);
    if (!copy) return ERR_MEMORY;
    mem_free(*field);
    *field = copy;
    return OK;
}

static Status set_list(const ConfigKey *key, ConfigList *field, const char *const *items, int count,
                       const char *where)
{
    ConfigList list = { 0 };
    const bool other = key->other && count == 1 && strcmp(items[0], key->other) == 0;
    if (count > CONFIG_LIST_MAX)
        return fail(ERR_USAGE, "%s%s has %d values; at most %d are allowed", where, key->key, count,
                    CONFIG_LIST_MAX);
    for (int i = 0; i < count && !other; i++)
        if (!parse_number(key, items[i], &list.values[list.count++]))
            return fail_value(key, items[i], where);
    if (other) list.count = CONFIG_OTHER;
    *field = list;
    return OK;
}

Status config_set_items(Config *c, const ConfigKey *key, const char *const *items, int count,
                        const char *where)
{
    void *field = (char *)c + key->offset;
    ASSERT(key->type == KEY_LIST || count == 1);
    bool good = true;
    switch (key->type) {
    case KEY_BOOL:
        good = str_to_bool(items[0], field);
        break;
    case KEY_INT:
        good = parse_int(key, items[0], field);
        break;
    case KEY_DOUBLE:
        good = parse_double(key, items[0], field);
        break;
    case KEY_ENUM:
        good = parse_name(key, items[0], field);
        break;
    case KEY_STRING:
        return set_string(key, field, items[0], where);
    case KEY_LIST:
        return set_list(key, field, items, count, where);
    }
    return good ? OK : fail_value(key, items[0], where);
}

/* Splits "[a, b]" or "a, b" in place; count may exceed capacity, then only that many are kept. */
static int split_list(char *text, const char **items, int capacity)
{
    size_t n = strlen(text);
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text[n - 1] = '\0';
        text++;
    }
    if (text[strspn(text, " ")] == '\0') return 0;
    int count = 0;
    for (char *item = text, *comma; item; item = comma) {
        comma = strchr(item, ',');
        if (comma) *comma++ = '\0';
        if (count < capacity) items[count] = item;
        count++;
    }
    return count;
}

Status config_set_text(Config *c, const ConfigKey *key, const char *text, const char *where)
{
    if (key->type != KEY_LIST) return config_set_items(c, key, &text, 1, where);
    const char *items[CONFIG_LIST_MAX];
    char *copy FREED = mem_strdup(text);
    if (!copy) return ERR_MEMORY;
    int count = split_list(copy, items, CONFIG_LIST_MAX);
    return config_set_items(c, key, items, count, where);
}
