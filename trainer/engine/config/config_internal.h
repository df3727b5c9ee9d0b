/* config_internal.h - what the config*.c files share: the table of keys and the one setter behind
 * file, --set and defaults.
 *
 * Nobody outside config*.c and its tests includes this; the rest of trainer/ reads the fields of
 * Config. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_CONFIG_INTERNAL_H
#define CONVOY_TRAINER_ENGINE_CONFIG_CONFIG_INTERNAL_H
#include "base/status.h"
#include "base/str.h"
#include "trainer/engine/config/config.h"
#include <stdbool.h>
#include <stddef.h>

/* at least config_key_count; lets callers keep one thing per key in a plain array */
#define CONFIG_KEY_MAX CONFIG_PRINTS_MAX

typedef enum KeyType { KEY_BOOL, KEY_INT, KEY_DOUBLE, KEY_ENUM, KEY_STRING, KEY_LIST } KeyType;

enum {
    KEY_MATH = 1, /* changes results: compared on resume */
    /* may differ between the parts of a run; every row has exactly one of the two */
    KEY_RUNTIME = 2,
    KEY_OPEN_MIN = 4, /* min itself is not allowed */
    KEY_OPEN_MAX = 8  /* max itself is not allowed */
};

typedef struct ConfigKey {
    const char *key; /* "section.field" */
    KeyType type;
    /* of the field in Config: bool, int64_t, double, int, char *, ConfigList */
    size_t offset;
    const char *fallback; /* the default, in the form in which --set takes it */
    double min, max;      /* numbers, and each value of a list; max may be INFINITY */
    /* KEY_ENUM, KEY_INT, KEY_DOUBLE, KEY_LIST: the word for CONFIG_OTHER; NULL: there is none */
    const char *other;
    const char *const *names; /* KEY_ENUM: the owner's, of which the first name_count may be said */
    int name_count;
    int flags;
    const char *help; /* one sentence without a final dot */
} ConfigKey;

extern const ConfigKey config_keys[];
extern const int config_key_count;

/* Where a value came from, for messages: file:line, --set or nothing. */
typedef struct ConfigOrigin {
    const char *path;         /* borrowed for the load */
    int line[CONFIG_KEY_MAX]; /* line in path; 0 = default, ORIGIN_SET = --set */
} ConfigOrigin;
#define ORIGIN_SET (-1)
#define FROM_SET   "command line: " /* before a message on a key=value, with --set or without */

/* config_value.c */
int config_find_key(const char *key);     /* index, -1 */
bool config_is_section(const char *name); /* "train" */
/* ERR_USAGE: "WHEREunknown key K (did you mean N?)"; where ends in ": ". */
Status config_fail_unknown(const char *where, const char *key);
/* Notes that key index is given at line. ERR_USAGE if it is there already in a file. */
Status config_note_origin(ConfigOrigin *origin, int index, int line, const char *where);
/* Sets one key from text; one item that is not a list for all types but KEY_LIST, which takes any
 * number. */
Status config_set_items(Config *c, const ConfigKey *key, const char *const *items, int count,
                        const char *where);
/* Sets one key from one text: a list is split at commas, brackets around it are optional. */
Status config_set_text(Config *c, const ConfigKey *key, const char *text, const char *where);
/* config_print.c: the words that an enum key may have, other first; how many. Word i is for value
 * i, or i - 1 behind other. */
#define CONFIG_WORDS_MAX 16
int config_key_words(const ConfigKey *key, const char *words[CONFIG_WORDS_MAX]);
/* as YAML (flow style) */
void config_add_value(const Config *c, const ConfigKey *key, StrBuf *out);
/* "from 0 to below 1", "one of sgd, adam" */
void config_add_allowed(const ConfigKey *key, StrBuf *out);

/* config_check.c: what keys must be together; ERR_USAGE led by where the value came from. */
Status config_check(const Config *c, const ConfigOrigin *origin);
/* Records an error about key, led by where its value came from. */
Status config_fail_key(const ConfigOrigin *origin, const char *key, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* config_caution.c: keeps which keys were given though the optimizer does not read them, for
 * config_warn(). Before auto is resolved. kept: by a run's own file, which says every key, so that
 * only --set counts. */
/* Whether the key has its default: a file may well say that. */
bool config_has_default(const Config *c, const ConfigKey *key);
void config_note_unread(Config *c, const ConfigOrigin *origin, bool kept);

/* config_yaml.c: reads a YAML text of name (for messages) into c. */
Status config_read_yaml(Config *c, ConfigOrigin *origin, const char *name, const char *text,
                        size_t bytes);
#endif
