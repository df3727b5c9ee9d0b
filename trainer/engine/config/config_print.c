/* config_print.c - the other direction of the key table: values, allowed ranges, the dump, the help
 * text and docs/config.md. */
#include "base/json.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/config/config_internal.h"
#include <string.h>

#define HELP_COLUMNS 100

static Status finish(const StrBuf *out)
{
    return out->failed ? fail(ERR_MEMORY, "out of memory printing the configuration") : OK;
}

/* A number with all its digits: JSON's numbers and quoted strings are YAML's too. */
static void add_number(double value, StrBuf *out)
{
    JsonWriter w = { .out = out };
    json_number(&w, NULL, value);
}

static void add_list(const ConfigList *list, StrBuf *out)
{
    str_add(out, "[");
    for (int i = 0; i < list->count; i++) {
        if (i) str_add(out, ", ");
        add_number(list->values[i], out);
    }
    str_add(out, "]");
}

int config_key_words(const ConfigKey *key, const char *words[CONFIG_WORDS_MAX])
{
    int count = 0;
    ASSERT(key->name_count < CONFIG_WORDS_MAX);
    if (key->other) words[count++] = key->other;
    for (int i = 0; i < key->name_count; i++) words[count++] = key->names[i];
    return count;
}

void config_add_value(const Config *c, const ConfigKey *key, StrBuf *out)
{
    const char *words[CONFIG_WORDS_MAX];
    const void *field = (const char *)c + key->offset;
    JsonWriter w = { .out = out };
    switch (key->type) {
    case KEY_BOOL:
        str_add(out, *(const bool *)field ? "true" : "false");
        break;
    case KEY_INT: /* a word for CONFIG_OTHER has been resolved, as in a double */
        json_int(&w, NULL, *(const int64_t *)field);
        break;
    case KEY_DOUBLE:
        add_number(*(const double *)field, out);
        break;
    case KEY_ENUM:
        config_key_words(key, words);
        str_add(out, words[*(const int *)field + (key->other != NULL)]);
        break;
    case KEY_STRING:
        json_string(&w, NULL, *(char *const *)field);
        break;
    case KEY_LIST:
        add_list(field, out);
        break;
    }
}

static void add_range(const ConfigKey *key, StrBuf *out)
{
    str_add(out, key->flags & KEY_OPEN_MIN ? "above " : "from ");
    add_number(key->min, out);
    str_add(out, key->flags & KEY_OPEN_MAX ? " to below " : " to ");
    add_number(key->max, out);
}

static void add_names(const ConfigKey *key, StrBuf *out)
{
    const char *words[CONFIG_WORDS_MAX];
    const int count = config_key_words(key, words);
    for (int i = 0; i < count; i++) str_printf(out, "%s%s", i ? ", " : "", words[i]);
}

void config_add_allowed(const ConfigKey *key, StrBuf *out)
{
    static const char *const kinds[] = {
        [KEY_BOOL] = "true or false", [KEY_INT] = "a whole number ",
        [KEY_DOUBLE] = "a number ",   [KEY_ENUM] = "",
        [KEY_STRING] = "text",        [KEY_LIST] = "a list of numbers ",
    };
    if (key->type == KEY_ENUM) str_add(out, "one of ");
    else if (key->other) str_printf(out, "%s, or ", key->other);
    str_add(out, kinds[key->type]);
    if (key->type == KEY_ENUM) add_names(key, out);
    if (key->type == KEY_INT || key->type == KEY_DOUBLE || key->type == KEY_LIST)
        add_range(key, out);
}

/* Length of the section's name in a key. */
static int section_length(const ConfigKey *key)
{
    return (int)(strchr(key->key, '.') - key->key);
}

static bool starts_section(int index)
{
    if (index == 0) return true;
    const ConfigKey *a = &config_keys[index - 1], *b = &config_keys[index];
    return section_length(a) != section_length(b) ||
           strncmp(a->key, b->key, (size_t)section_length(b)) != 0;
}

Status config_dump_yaml(const Config *c, StrBuf *out)
{
    for (int i = 0; i < config_key_count; i++) {
        const ConfigKey *key = &config_keys[i];
        int n = section_length(key);
        if (starts_section(i)) str_printf(out, "%.*s:\n", n, key->key);
        str_printf(out, "  %s: ", key->key + n + 1);
        config_add_value(c, key, out);
        str_add(out, "\n");
    }
    return finish(out);
}

static const char *resume_word(const ConfigKey *key)
{
    return key->flags & KEY_MATH ? "same" : "free";
}

Status config_write_markdown(StrBuf *out)
{
    str_add(out,
            "# Configuration keys\n\n"
            "This page is generated: `./convoy inspect config --markdown > docs/config.md`.\n"
            "A test compares it with `trainer/engine/config/config_keys.c`.\n\n"
            "A config file is YAML: sections that hold keys. On the command line\n"
            "`section.key=value`, after `--set` or alone, overrides the file; if a key is set\n"
            "twice, the last value applies. An unknown key is an error.\n\n"
            "*Resume*: a key marked `same` decides results; a run that continues from a\n"
            "checkpoint with another value prints a warning. A key marked `free` may change at\n"
            "any time.\n");
    for (int i = 0; i < config_key_count; i++) {
        const ConfigKey *key = &config_keys[i];
        if (starts_section(i)) {
            str_printf(out, "\n## %.*s\n\n", section_length(key), key->key);
            str_add(out, "| key | default | values | resume | meaning |\n|---|---|---|---|---|\n");
        }
        str_printf(out, "| `%s` | ", key->key);
        if (*key->fallback) str_printf(out, "`%s` | ", key->fallback);
        else str_add(out, "empty | ");
        config_add_allowed(key, out);
        str_printf(out, " | %s | %s", resume_word(key), key->help);
        str_add(out, " |\n");
    }
    return finish(out);
}

/* Adds text in lines of at most HELP_COLUMNS, each behind four blanks; broken at blanks. */
static void add_wrapped(StrBuf *out, const char *text)
{
    const size_t width = HELP_COLUMNS - 4;
    while (*text) {
        size_t n = strlen(text);
        if (n > width) {
            n = width;
            while (n > 0 && text[n] != ' ') n--;
            if (n == 0) n = width; /* one word longer than a line */
        }
        str_add(out, "    ");
        str_add_n(out, text, n);
        str_add(out, "\n");
        text += n;
        while (*text == ' ') text++;
    }
}

Status config_print_help(StrBuf *out)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    str_add(out,
            "Every key of a config file, with its default. Values given by --set section.key=value "
            "override the file.\n(same): decides results; a run that continues from a checkpoint "
            "with another value prints a warning. (free): may change.\n");
    for (int i = 0; i < config_key_count && !text.failed; i++) {
        const ConfigKey *key = &config_keys[i];
        if (starts_section(i)) str_add(out, "\n");
        str_printf(out, "%s = %s\n", key->key, *key->fallback ? key->fallback : "\"\"");
        str_clear(&text);
        str_printf(&text, "%s: ", key->help);
        config_add_allowed(key, &text);
        str_printf(&text, " (%s)", resume_word(key));
        if (text.text) add_wrapped(out, text.text);
    }
    if (text.failed) out->failed = true;
    return finish(out);
}
