/* config.c - loading a Config: defaults, then a file, then --set, then the checks between keys.
 *
 * Every value, wherever it comes from, goes through config_set_items(), so a default or a dumped
 * value is checked like a user's. Strings are owned by the Config and never NULL. */
#include "trainer/config/config.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/models.h"
#include "trainer/config/config_internal.h"
#include "trainer/config/progressive.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WHERE_BYTES    512
#define FILE_BYTES_MAX (1 << 20) /* a larger file is something else, named by mistake */

/* ---- keys ---- */

int config_find_key(const char *key)
{
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].key, key) == 0) return i;
    return -1;
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

const char *config_nearest_key(const char *key)
{
    const char *names[CONFIG_KEY_MAX];
    for (int i = 0; i < config_key_count; i++) names[i] = leaf(config_keys[i].key);
    /* The right name in the wrong section, or in none, beats a similar spelling. */
    for (int i = 0; i < config_key_count; i++)
        if (strcmp(names[i], leaf(key)) == 0) return config_keys[i].key;
    for (int i = 0; i < config_key_count; i++) names[i] = config_keys[i].key;
    const char *nearest = str_nearest(key, names, config_key_count);
    if (nearest) return nearest;
    if (strchr(key, '.')) return NULL;
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

Status config_fail_unknown(const char *where, const char *key)
{
    if (config_is_section(key))
        return fail(ERR_USAGE, "%s%s is a section; it holds keys and takes no value", where, key);
    const char *nearest = config_nearest_key(key);
    if (!nearest)
        return fail(ERR_USAGE, "%sunknown key %s (convoy inspect config lists all)", where, key);
    return fail(ERR_USAGE, "%sunknown key %s (did you mean %s?)", where, key, nearest);
}

/* ---- one value ---- */

static Status fail_value(const ConfigKey *key, const char *text, const char *where)
{
    StrBuf allowed = { 0 };
    config_add_allowed(key, &allowed);
    int count = 0;
    while (key->names && key->names[count]) count++;
    const char *nearest = key->names ? str_nearest(text, key->names, count) : NULL;
    Status status =
        fail(ERR_USAGE, "%s%s is %s%s%s; it must be %s%s%s%s", where, key->key, *text ? "\"" : "",
             *text ? text : "empty", *text ? "\"" : "", allowed.text ? allowed.text : "",
             nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    str_free(&allowed);
    return status;
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

/* A whole number; the range is checked in double, whose limits here are whole and below 2^53. */
static bool parse_int(const ConfigKey *key, const char *text, int64_t *out)
{
    return str_to_i64(text, out) && in_range(key, (double)*out);
}

static bool parse_name(const ConfigKey *key, const char *text, int *out)
{
    for (int i = 0; key->names[i]; i++) {
        if (strcmp(key->names[i], text) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

/* Whether a YAML file can hold the text: UTF-8 without control characters. Otherwise a run could
 * not be dumped and read back. */
static bool is_printable_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int more = *p < 0x80 ? 0 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
        uint32_t code = more == 0 ? *p : *p & (0x3Fu >> more);
        if (*p < 0x20 || *p == 0x7F || (*p >= 0x80 && *p < 0xC2) || *p > 0xF4) return false;
        for (int i = 1; i <= more; i++) {
            if ((p[i] & 0xC0) != 0x80) return false; /* the NUL at the end, too */
            code = code << 6 | (p[i] & 0x3Fu);
        }
        /* rejects overlong forms and C1 controls */
        static const uint32_t smallest[] = { 0, 0xA0, 0x800, 0x10000 };
        if (code < smallest[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return false;
        if (code == 0xFEFF || code == 0xFFFE || code == 0xFFFF) return false;
        p += more + 1;
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
    if (count > CONFIG_LIST_MAX)
        return fail(ERR_USAGE, "%s%s has %d values; it takes at most %d", where, key->key, count,
                    CONFIG_LIST_MAX);
    for (int i = 0; i < count; i++)
        if (!parse_number(key, items[i], &list.values[list.count++]))
            return fail_value(key, items[i], where);
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
        good = parse_number(key, items[0], field);
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
    char *copy = mem_strdup(text);
    if (!copy) return ERR_MEMORY;
    int count = split_list(copy, items, CONFIG_LIST_MAX);
    Status status = config_set_items(c, key, items, count, where);
    mem_free(copy);
    return status;
}

/* ---- loading ---- */

static Status set_defaults(Config *c)
{
    for (int i = 0; i < config_key_count; i++)
        TRY(config_set_text(c, &config_keys[i], config_keys[i].fallback, "default: "));
    return OK;
}

static Status read_file(Config *c, ConfigOrigin *origin, const char *path)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    if (!fs_exists(path)) return fail(ERR_USAGE, "%s: no such config file", path);
    if (fs_is_dir(path)) return fail(ERR_USAGE, "%s: is a folder, not a config file", path);
    Status status = fs_read_file(path, &text, &bytes);
    if (status != OK)
        return status == ERR_MEMORY ? status : fail(ERR_USAGE, "%s", status_message());
    if (bytes > FILE_BYTES_MAX)
        status = fail(ERR_USAGE, "%s: has %zu bytes; a config file has at most %d", path, bytes,
                      FILE_BYTES_MAX);
    else status = config_read_yaml(c, origin, path, (const char *)text, bytes, false);
    mem_free(text);
    return status;
}

/* Applies one "key=value"; of several for one key the last holds, so that a script can append. */
static Status apply_set(Config *c, ConfigOrigin *origin, const char *set)
{
    char name[128];
    const char *equals = strchr(set, '=');
    if (!equals) return fail(ERR_USAGE, "--set %s: write it as key=value", set);
    snprintf(name, sizeof name, "%.*s", (int)(equals - set < 127 ? equals - set : 127), set);
    int index = config_find_key(name);
    if (index < 0) return config_fail_unknown("--set: ", name);
    origin->line[index] = ORIGIN_SET;
    return config_set_text(c, &config_keys[index], equals + 1, "--set: ");
}

/* runs/STEM for a config file STEM.yaml. */
static Status default_run_dir(Config *c, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    StrBuf dir = { 0 };
    str_printf(&dir, "runs/%.*s", n, base);
    Status status = dir.failed ? ERR_MEMORY
                               : set_string(&config_keys[config_find_key("run.dir")], &c->run.dir,
                                            dir.text, "");
    str_free(&dir);
    return status;
}

/* ---- checks between keys ---- */

/* Records an error about key, led by where its value came from. */
static Status fail_check(const ConfigOrigin *origin, const char *key, const char *sentence)
{
    int line = origin->line[config_find_key(key)];
    if (line > 0) return fail(ERR_USAGE, "%s:%d: %s %s", origin->path, line, key, sentence);
    return fail(ERR_USAGE, "%s%s %s", line == ORIGIN_SET ? "--set: " : "", key, sentence);
}

static Status check_model(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES], suggestion[MODEL_SUGGESTION_BYTES];
    if (model_find(c->model.name)) return OK;
    model_suggest(c->model.name, suggestion, sizeof suggestion);
    snprintf(text, sizeof text, "is \"%s\", which is no network%s", c->model.name, suggestion);
    return fail_check(origin, "model.name", text);
}

static Status check_channels(const Config *c, const ConfigOrigin *origin, const char *key,
                             const ConfigList *list)
{
    char text[WHERE_BYTES];
    if (list->count == 1 || list->count == c->model.in_channels) return OK;
    snprintf(text, sizeof text,
             "has %d values and model.in_channels is %lld; give one value, or one for each channel",
             list->count, (long long)c->model.in_channels);
    return fail_check(origin, key, text);
}

static Status check_ascending(const Config *c, const ConfigOrigin *origin)
{
    const struct {
        const char *key;
        const ConfigList *list;
    } lists[] = { { "schedule.milestones", &c->schedule.milestones },
                  { "data.progressive_until", &c->data.progressive_until } };
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const double *values = lists[k].list->values;
        for (int i = 1; i < lists[k].list->count; i++)
            if (values[i] <= values[i - 1])
                return fail_check(origin, lists[k].key, "must be ascending");
    }
    return OK;
}

static Status check_whole(const ConfigOrigin *origin, const char *key, const ConfigList *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->values[i] != floor(list->values[i]))
            return fail_check(origin, key, "takes whole numbers");
    return OK;
}

static Status check_progressive(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES];
    const ConfigList *sizes = &c->data.progressive_sizes, *until = &c->data.progressive_until;
    TRY(check_whole(origin, "data.progressive_sizes", sizes));
    TRY(check_whole(origin, "data.progressive_until", until));
    if (sizes->count >= PROGRESSIVE_STAGES_MAX) {
        snprintf(text, sizeof text, "has %d values; it takes at most %d", sizes->count,
                 PROGRESSIVE_STAGES_MAX - 1);
        return fail_check(origin, "data.progressive_sizes", text);
    }
    if (sizes->count != until->count) {
        snprintf(text, sizeof text,
                 "has %d values and data.progressive_sizes %d; give one for each size",
                 until->count, sizes->count);
        return fail_check(origin, "data.progressive_until", text);
    }
    return OK;
}

static Status check_augmentation(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES];
    const ConfigList *jitter = &c->data.color_jitter;
    if (jitter->count != 4) {
        snprintf(text, sizeof text,
                 "has %d values; it takes four: brightness, contrast, saturation and hue",
                 jitter->count);
        return fail_check(origin, "data.color_jitter", text);
    }
    if (jitter->values[3] > 0.5) {
        snprintf(text, sizeof text, "changes the hue by %g; at most 0.5 is possible",
                 jitter->values[3]);
        return fail_check(origin, "data.color_jitter", text);
    }
    if (c->data.randaugment_magnitude >= c->data.magnitude_bins) {
        snprintf(text, sizeof text, "is %lld, not below data.magnitude_bins %lld",
                 (long long)c->data.randaugment_magnitude, (long long)c->data.magnitude_bins);
        return fail_check(origin, "data.randaugment_magnitude", text);
    }
    return check_channels(c, origin, "data.auto_augment_fill", &c->data.auto_augment_fill);
}

static Status check_scale(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES];
    const ConfigList *ranks = &c->scale.ranks;
    if (ranks->count == 0) return fail_check(origin, "scale.ranks", "names no number of ranks");
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->values[i] != (double)(int64_t)ranks->values[i])
            return fail_check(origin, "scale.ranks", "must be whole numbers");
        if (i > 0 && ranks->values[i] <= ranks->values[i - 1])
            return fail_check(origin, "scale.ranks", "must be ascending");
        bool shared = c->train.global_batch % (int64_t)ranks->values[i] == 0;
        if (c->scale.mode != CONFIG_SCALE_STRONG || (c->train.global_batch > 0 && shared)) continue;
        snprintf(text, sizeof text,
                 "is strong, which needs train.global_batch to be a multiple of %g ranks; it is "
                 "%lld",
                 ranks->values[i], (long long)c->train.global_batch);
        return fail_check(origin, "scale.mode", text);
    }
    return OK;
}

static Status check_trace(const Config *c, const ConfigOrigin *origin)
{
    int64_t first, last;
    if (c->log.trace_steps[0] == '\0' ||
        config_parse_trace_steps(c->log.trace_steps, &first, &last) == OK)
        return OK;
    return fail_check(origin, "log.trace_steps", status_message());
}

/* How images come into the network. */
static Status check_input(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES];
    TRY(check_channels(c, origin, "data.mean", &c->data.mean));
    TRY(check_channels(c, origin, "data.std", &c->data.std));
    if (c->model.in_channels != 1 && c->model.in_channels != 3) {
        snprintf(text, sizeof text, "is %lld; images are read with 1 or 3 channels",
                 (long long)c->model.in_channels);
        return fail_check(origin, "model.in_channels", text);
    }
    if (c->data.eval_resize != 0 && c->data.eval_resize < c->data.image_size) {
        snprintf(text, sizeof text, "is %lld, smaller than data.image_size %lld; 0 means the same",
                 (long long)c->data.eval_resize, (long long)c->data.image_size);
        return fail_check(origin, "data.eval_resize", text);
    }
    return OK;
}

Status config_check_input(const Config *c)
{
    const ConfigOrigin stored = { .path = "stored config" };
    return check_input(c, &stored);
}

static Status check(const Config *c, const ConfigOrigin *origin)
{
    char text[WHERE_BYTES];
    TRY(check_model(c, origin));
    TRY(check_input(c, origin));
    TRY(check_ascending(c, origin));
    TRY(check_progressive(c, origin));
    TRY(check_augmentation(c, origin));
    TRY(check_scale(c, origin));
    TRY(check_trace(c, origin));
    if (c->optimizer.betas.count != 2) {
        snprintf(text, sizeof text, "has %d values; it takes two", c->optimizer.betas.count);
        return fail_check(origin, "optimizer.betas", text);
    }
    if (c->optimizer.nesterov && c->optimizer.momentum <= 0)
        return fail_check(origin, "optimizer.nesterov", "needs optimizer.momentum above 0");
    if (c->train.batch_mode == CONFIG_BATCH_GLOBAL && c->train.global_batch == 0)
        return fail_check(origin, "train.global_batch",
                          "must be given (above 0) when train.batch_mode is global");
    return OK;
}

static Status load(Config *c, ConfigOrigin *origin, const char *path, const char *const *sets,
                   int set_count)
{
    TRY(set_defaults(c));
    if (path) TRY(read_file(c, origin, path));
    for (int i = 0; i < set_count; i++) TRY(apply_set(c, origin, sets[i]));
    if (path && c->run.dir[0] == '\0') TRY(default_run_dir(c, path));
    return check(c, origin);
}

Status config_load(Config **out, const char *path, const char *const *sets, int set_count)
{
    *out = NULL;
    ConfigOrigin origin = { .path = path };
    Config *c = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    Status status = load(c, &origin, path, sets, set_count);
    if (status != OK) config_destroy(c);
    else *out = c;
    return status;
}

void config_destroy(Config *c)
{
    if (!c) return;
    for (int i = 0; i < config_key_count; i++) {
        if (config_keys[i].type != KEY_STRING) continue;
        char **field = (void *)((char *)c + config_keys[i].offset);
        mem_free(*field);
    }
    mem_free(c);
}

/* ---- what must stay the same on resume ---- */

uint32_t config_math_hash(const Config *c)
{
    uint32_t crc = 0;
    StrBuf line = { 0 };
    for (int i = 0; i < config_key_count; i++) {
        if (!(config_keys[i].flags & KEY_MATH)) continue;
        str_clear(&line);
        str_printf(&line, "%s=", config_keys[i].key);
        config_add_value(c, &config_keys[i], &line);
        str_add(&line, "\n");
        if (!line.failed) crc = crc32c_update(crc, line.text, line.length);
    }
    bool failed = line.failed;
    str_free(&line);
    return failed ? 0 : crc;
}

static void add_difference(const Config *then, const Config *now, const ConfigKey *key, StrBuf *out)
{
    StrBuf a = { 0 }, b = { 0 };
    config_add_value(then, key, &a);
    config_add_value(now, key, &b);
    if (a.failed || b.failed) out->failed = true;
    else if (strcmp(a.text, b.text) != 0)
        str_printf(out, "%s%s was %s and is %s", out->length ? "; " : "", key->key, a.text, b.text);
    str_free(&a);
    str_free(&b);
}

Status config_parse(Config **out, const char *yaml)
{
    ConfigOrigin origin = { .path = "stored config" };
    Config *c = mem_calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return ERR_MEMORY;
    Status status = set_defaults(c);
    if (status == OK) status = config_read_yaml(c, &origin, origin.path, yaml, strlen(yaml), true);
    if (status == OK) *out = c;
    else config_destroy(c);
    return status;
}

Status config_math_difference(const Config *c, const char *yaml, StrBuf *out)
{
    Config *then = NULL;
    Status status = config_parse(&then, yaml);
    for (int i = 0; status == OK && i < config_key_count; i++)
        if (config_keys[i].flags & KEY_MATH) add_difference(then, c, &config_keys[i], out);
    config_destroy(then);
    if (status == OK && out->failed)
        status = fail(ERR_MEMORY, "out of memory comparing configurations");
    return status;
}

Status config_difference(const Config *then, const Config *now, StrBuf *out)
{
    for (int i = 0; i < config_key_count; i++) {
        const char *key = config_keys[i].key;
        if (strcmp(key, "run.dir") != 0 && !str_starts_with(key, "scale."))
            add_difference(then, now, &config_keys[i], out);
    }
    return out->failed ? fail(ERR_MEMORY, "out of memory comparing configurations") : OK;
}
