/* config_yaml.c - YAML into a Config through libyaml's event stream, so that every message can name
 * its line.
 *
 * A config file is one document: a map of sections, each a map of keys; a dotted key at the top
 * ("train.epochs: 3") is the same thing. A value is a scalar or a list of scalars. Refused, each
 * with file and line: a key or section given twice, aliases, nested lists, a second document, and
 * of course unknown keys. Depth is bounded because a map may only stand under a known section; size
 * is, because libyaml's time grows with the square of some of what a text may hold. */
#include "base/arena.h"
#include "trainer/engine/config/config_internal.h"
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define SECTION_MAX 32
#define WHERE_BYTES 512

typedef struct Reader {
    yaml_parser_t parser;
    const char *name;
    Config *config;
    ConfigOrigin *origin;
    Arena *arena;                      /* texts of one load */
    const char *sections[SECTION_MAX]; /* maps entered so far */
    int section_lines[SECTION_MAX];
    int section_count;
} Reader;

static int event_line(const yaml_event_t *e)
{
    return (int)e->start_mark.line + 1;
}

static Status next_event(Reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event)) return OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return fail(ERR_MEMORY, "%s: out of memory in libyaml", r->name);
    /* Encoding errors leave problem_mark alone; the position read so far is as near as libyaml
     * knows. */
    size_t line =
        r->parser.error == YAML_READER_ERROR ? r->parser.mark.line : r->parser.problem_mark.line;
    const char *context = r->parser.context ? r->parser.context : "";
    return fail(ERR_USAGE, "%s:%d: bad YAML: %s%s%s", r->name, (int)line + 1, context,
                *context ? ", " : "", r->parser.problem ? r->parser.problem : "unreadable");
}

/* A scalar's text, copied; plain null is the empty text. */
static Status copy_scalar(Reader *r, const yaml_event_t *e, const char **out)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length)
        return fail(ERR_USAGE, "%s:%d: text contains a zero byte", r->name, event_line(e));
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) text = "";
    *out = arena_strdup(r->arena, text);
    return *out ? OK : ERR_MEMORY;
}

/* The texts of a list; its start was read. */
static Status read_list(Reader *r, const char *key, const char **items, int capacity, int *count)
{
    *count = 0;
    for (;;) {
        yaml_event_t event;
        TRY(next_event(r, &event));
        Status status = OK;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end && event.type != YAML_SCALAR_EVENT)
            status = fail(ERR_USAGE, "%s:%d: %s: a list may only contain plain values", r->name,
                          event_line(&event), key);
        else if (!end && *count == capacity)
            status = fail(ERR_USAGE, "%s:%d: %s: the list has more than %d values", r->name,
                          event_line(&event), key, capacity);
        else if (!end) status = copy_scalar(r, &event, &items[(*count)++]);
        yaml_event_delete(&event);
        if (status != OK || end) return status;
    }
}

/* Sets key from a scalar or list event at line. */
static Status read_value(Reader *r, const char *key, int line, const yaml_event_t *value)
{
    const char *items[CONFIG_LIST_MAX];
    int count = 1;
    if (value->type == YAML_SEQUENCE_START_EVENT)
        TRY(read_list(r, key, items, CONFIG_LIST_MAX, &count));
    else TRY(copy_scalar(r, value, &items[0]));
    char where[WHERE_BYTES];
    snprintf(where, sizeof where, "%s:%d: ", r->name, line);
    int index = config_find_key(key);
    if (index < 0) return config_fail_unknown(where, key);
    TRY(config_note_origin(r->origin, index, line, where));
    if (value->type == YAML_SEQUENCE_START_EVENT && config_keys[index].type != KEY_LIST)
        return fail(ERR_USAGE, "%s%s is a list; it takes one value", where, key);
    const ConfigKey *set = &config_keys[index];
    if (value->type == YAML_SCALAR_EVENT) return config_set_text(r->config, set, items[0], where);
    return config_set_items(r->config, set, items, count, where);
}

/* Notes that a section's map begins: it must be a section, and new. */
static Status enter_section(Reader *r, const char *name, int line)
{
    char where[WHERE_BYTES];
    snprintf(where, sizeof where, "%s:%d: ", r->name, line);
    if (config_find_key(name) >= 0)
        return fail(ERR_USAGE, "%s%s takes a value, not a map", where, name);
    if (!config_is_section(name)) return config_fail_unknown(where, name);
    for (int i = 0; i < r->section_count; i++)
        if (strcmp(r->sections[i], name) == 0)
            return fail(ERR_USAGE, "%ssection %s appears twice (first in line %d)", where, name,
                        r->section_lines[i]);
    /* no name twice, and every name is one of the table's */
    ASSERT(r->section_count < SECTION_MAX);
    r->sections[r->section_count] = name;
    r->section_lines[r->section_count++] = line;
    return OK;
}

static Status read_map(Reader *r, const char *prefix);

/* The value that follows key. */
static Status read_member(Reader *r, const char *key, int line)
{
    yaml_event_t value;
    TRY(next_event(r, &value));
    Status status;
    if (value.type == YAML_MAPPING_START_EVENT) {
        status = enter_section(r, key, line);
        if (status == OK) status = read_map(r, key);
    } else if (value.type == YAML_SCALAR_EVENT || value.type == YAML_SEQUENCE_START_EVENT) {
        /* An empty section ("log:" and nothing below it) sets nothing. */
        bool empty = value.type == YAML_SCALAR_EVENT && value.data.scalar.length == 0 &&
                     config_is_section(key);
        status = empty ? OK : read_value(r, key, line, &value);
    } else {
        status = fail(ERR_USAGE, "%s:%d: %s: aliases are not supported", r->name,
                      event_line(&value), key);
    }
    yaml_event_delete(&value);
    return status;
}

/* The members of a map whose start was read. Recursion ends because only known sections are
 * entered, each once. */
static Status read_map(Reader *r, const char *prefix)
{
    for (;;) {
        yaml_event_t event;
        TRY(next_event(r, &event));
        bool end = event.type == YAML_MAPPING_END_EVENT;
        int line = event_line(&event);
        const char *key = NULL;
        Status status = OK;
        if (!end && event.type != YAML_SCALAR_EVENT)
            status = fail(ERR_USAGE, "%s:%d: a key must be plain text", r->name, line);
        else if (!end) status = copy_scalar(r, &event, &key);
        yaml_event_delete(&event);
        if (status != OK || end) return status;
        if (*prefix && !(key = arena_printf(r->arena, "%s.%s", prefix, key))) return ERR_MEMORY;
        TRY(read_member(r, key, line));
    }
}

static Status read_stream(Reader *r)
{
    int documents = 0;
    for (;;) {
        yaml_event_t event;
        TRY(next_event(r, &event));
        yaml_event_type_t type = event.type;
        int line = event_line(&event);
        /* "---" and nothing after it */
        bool empty = type == YAML_SCALAR_EVENT && event.data.scalar.length == 0;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT) return OK;
        if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
            return fail(ERR_USAGE, "%s:%d: a second YAML document; a config file has only one",
                        r->name, line);
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT || empty)
            continue;
        if (type != YAML_MAPPING_START_EVENT)
            return fail(ERR_USAGE, "%s:%d: a config file must be a map of keys and values", r->name,
                        line);
        TRY(read_map(r, ""));
    }
}

Status config_read_yaml(Config *c, ConfigOrigin *origin, const char *name, const char *text,
                        size_t bytes)
{
    Reader r = { .name = name, .config = c, .origin = origin };
    if (bytes > CONFIG_BYTES_MAX)
        return fail(ERR_USAGE, "%s: has %zu bytes; a config file may have at most %d", name, bytes,
                    CONFIG_BYTES_MAX);
    TRY(arena_create(&r.arena, 0));
    Status status;
    if (!yaml_parser_initialize(&r.parser)) {
        status = fail(ERR_MEMORY, "%s: out of memory in libyaml", name);
    } else {
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
        status = read_stream(&r);
        yaml_parser_delete(&r.parser);
    }
    arena_destroy(r.arena);
    return status;
}

const char *config_yaml_version(void)
{
    return yaml_get_version_string();
}
