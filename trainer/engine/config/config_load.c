/* config_load.c - a Config from defaults, then a file, then --set, then the checks between keys.
 *
 * Every value, wherever it comes from, goes through config_set_items(), so a default or a dumped
 * value is checked like a user's. Strings are owned by the Config and never NULL. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/data.h"
#include "kernels/ops/update.h"
#include "models/models.h"
#include "trainer/engine/config/config_internal.h"
#include <stdio.h>
#include <string.h>

static Status set_defaults(Config *c)
{
    for (int i = 0; i < config_key_count; i++)
        TRY(config_set_text(c, &config_keys[i], config_keys[i].fallback, "default: "));
    return OK;
}

/* A file of the folder that begins as name does, or is spelt almost so: into out. */
static void add_near_file(StrBuf *out, const char *folder, const char *name)
{
    char **names FREED = NULL;
    int64_t count = 0;
    if (fs_list(folder, &names, &count) != OK) return;
    const size_t length = strcspn(name, ".");
    const char *near = NULL;
    for (int64_t i = 0; i < count && !near && length > 0; i++)
        if (strncmp(names[i], name, length) == 0 && strstr(names[i], ".yaml")) near = names[i];
    if (!near) near = str_nearest(name, (const char *const *)names, (int)count);
    const char *slash = strcmp(folder, "/") == 0 ? "" : "/";
    if (near) str_printf(out, " (did you mean %s%s%s?)", folder, slash, near);
}

/* A network in the place of a config, or a name without its folder or its end, is often meant. */
static Status fail_missing(const char *path)
{
    StrBuf advice FREED_BY(str_free) = { 0 };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder FREED = slash ? fs_parent(path) : mem_strdup("configs");
    if (folder) add_near_file(&advice, folder, name);
    if (model_find(name)) str_printf(&advice, "; a network is chosen by model.name=%s", name);
    return fail(ERR_USAGE, "%s: no such config file or run folder%s", path,
                advice.text && !advice.failed ? advice.text : "");
}

static Status read_file(Config *c, ConfigOrigin *origin, const char *path)
{
    uint8_t *text FREED = NULL;
    size_t bytes = 0;
    if (!fs_exists(path)) return fail_missing(path);
    Status status = fs_read_limited(path, CONFIG_BYTES_MAX, &text, &bytes);
    if (status != OK)
        return status == ERR_MEMORY ? status : fail(ERR_USAGE, "%s", status_message());
    return config_read_yaml(c, origin, path, (const char *)text, bytes);
}

/* Applies one "key=value"; of several for one key the last holds, so that a script can append. */
static Status apply_set(Config *c, ConfigOrigin *origin, const char *set)
{
    char name[128];
    const char *equals = strchr(set, '=');
    if (!equals) return fail(ERR_USAGE, FROM_SET "%s: expected key=value", set);
    snprintf(name, sizeof name, "%.*s", (int)(equals - set < 127 ? equals - set : 127), set);
    int index = config_find_key(name);
    if (index < 0) return config_fail_unknown(FROM_SET, name);
    TRY(config_note_origin(origin, index, ORIGIN_SET, FROM_SET));
    return config_set_text(c, &config_keys[index], equals + 1, FROM_SET);
}

static Status set_key(Config *c, const char *key, const char *text)
{
    return config_set_text(c, &config_keys[config_find_key(key)], text, "");
}

/* runs/STEM for a config file STEM.yaml. */
static Status default_run_dir(Config *c, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    StrBuf dir FREED_BY(str_free) = { 0 };
    str_printf(&dir, "runs/%.*s", n, base);
    return dir.failed ? ERR_MEMORY : set_key(c, "run.dir", dir.text);
}

/* Evaluation cuts image_size out of what eval_resize leaves, in the ratio of the network's first
 * published weights; rounded down, as timm does. */
static int64_t usual_resize(const Config *c)
{
    const ModelDef *def = model_find(c->model.name);
    const ModelWeights usual = { .size = 224, .resize = 256 };
    const ModelWeights *weights = def ? &def->weights[0] : &usual;
    if (c->model.stem == STEM_CIFAR || weights->size == 0) return c->data.image_size;
    return c->data.image_size * weights->resize / weights->size;
}

static void resolve_eval_resize(Config *c)
{
    c->data.eval_resize_auto = c->data.eval_resize == CONFIG_OTHER;
    if (c->data.eval_resize_auto) c->data.eval_resize = usual_resize(c);
}

/* Whether data.dir is itself what both sets are read from: they are divided, or in the names of its
 * files. */
static Status is_both(const Config *c, bool *both)
{
    *both = c->data.val_split > 0;
    if (*both || !c->data.dir[0] || fs_holds(c->data.dir, "train")) return OK;
    const Status status = dataset_holds_sets(c->data.dir, both);
    return status == ERR_DATA ? fail_note(status, "data.dir") : status;
}

/* Sets that lie in data.dir under other names than train and val are named, not guessed. */
static Status check_names(const Config *c, const ConfigOrigin *origin, const char *set)
{
    char *folder FREED = fs_join(c->data.dir, set), *train FREED = NULL, *val FREED = NULL;
    if (!folder) return ERR_MEMORY;
    if (fs_exists(folder)) return OK;
    TRY(dataset_find_set(&train, c->data.dir, DATA_TRAIN));
    TRY(dataset_find_set(&val, c->data.dir, DATA_VAL));
    if (!train || !val) return OK;
    return config_fail_key(
        origin, "data.dir",
        ": %s does not exist; use --set 'data.train=%s' --set 'data.val=%s' instead", folder, train,
        val);
}

/* data.dir turns into the two folders that it stands for, which --set may name otherwise; and an
 * evaluation of other data by --set data.val takes the place of the images held out. */
static Status resolve_sets(Config *c, const ConfigOrigin *origin)
{
    static const char *const keys[] = { "data.train", "data.val" };
    const int dir = origin->line[config_find_key("data.dir")];
    const char *const values[] = { c->data.train, c->data.val };
    const bool split = c->data.val_split > 0;
    bool both = false;
    TRY(is_both(c, &both));
    for (int i = 0; i < 2 && c->data.dir[0]; i++) {
        const int given = origin->line[config_find_key(keys[i])];
        if (given == ORIGIN_SET && (dir != ORIGIN_SET || (i == 1 && !values[i][0]))) continue;
        if (values[i][0] && (given == ORIGIN_SET) == (dir == ORIGIN_SET))
            return config_fail_key(origin, "data.dir",
                                   "sets data.train and data.val, which are set too; set either "
                                   "data.dir or those two");
        if (!both) TRY(check_names(c, origin, i == 0 ? "train" : "val"));
        StrBuf folder = { 0 };
        if (!both) str_printf(&folder, "%s/%s", c->data.dir, i == 0 ? "train" : "val");
        else if (i == 0 || !split) str_add(&folder, c->data.dir);
        Status status =
            folder.failed ? ERR_MEMORY : set_key(c, keys[i], folder.length ? folder.text : "");
        str_free(&folder);
        TRY(status);
    }
    if (c->data.val[0] && origin->line[config_find_key("data.val")] == ORIGIN_SET &&
        origin->line[config_find_key("data.val_split")] != ORIGIN_SET)
        c->data.val_split = 0;
    return set_key(c, "data.dir", "");
}

/* What the optimizer was published with. */
static void resolve_published(Config *c)
{
    const UpdateKind kind = (UpdateKind)c->optimizer.name;
    const double *betas = update_betas(kind);
    if (c->optimizer.eps == CONFIG_OTHER) c->optimizer.eps = update_eps(kind);
    if (c->optimizer.betas.count == CONFIG_OTHER)
        c->optimizer.betas = (ConfigList){ .count = 2, .values = { betas[0], betas[1] } };
}

/* A warm-up in steps stands in for the default one in epochs; that both are said is an error. kept:
 * by a run's own file, which says every key, so that only --set counts. */
static void resolve_warmup(Config *c, const ConfigOrigin *origin, bool kept)
{
    const int steps = origin->line[config_find_key("schedule.warmup_steps")];
    const int epochs = origin->line[config_find_key("schedule.warmup_epochs")];
    if (c->schedule.warmup_steps <= 0) return;
    if (epochs == 0 || (kept && steps == ORIGIN_SET && epochs != ORIGIN_SET))
        c->schedule.warmup_epochs = 0;
}

static Status override(Config *c, ConfigOrigin *origin, const char *const *sets, int set_count)
{
    for (int i = 0; i < set_count; i++) TRY(apply_set(c, origin, sets[i]));
    return OK;
}

/* The same of what a run has kept, where auto has become a number: it follows image_size still. */
static Status override_kept(Config *c, ConfigOrigin *origin, const char *const *sets, int set_count)
{
    const int64_t image_size = c->data.image_size;
    bool follows = c->data.eval_resize == usual_resize(c);
    for (int i = 0; i < set_count; i++)
        follows = follows && !str_starts_with(sets[i], "data.eval_resize=");
    TRY(override(c, origin, sets, set_count));
    if (follows && c->data.image_size != image_size) c->data.eval_resize = CONFIG_OTHER;
    return OK;
}

Status config_override(Config *c, const char *const *sets, int set_count)
{
    ConfigOrigin origin = { .path = NULL };
    TRY(override_kept(c, &origin, sets, set_count));
    if (c->data.eval_resize == CONFIG_OTHER) resolve_eval_resize(c);
    config_note_unread(c, &origin, true);
    resolve_published(c);
    resolve_warmup(c, &origin, true);
    TRY(resolve_sets(c, &origin));
    return config_check(c, &origin);
}

/* folder: of the run whose config.yaml origin->path is; NULL: none. */
static Status load(Config *c, ConfigOrigin *origin, const char *folder, const char *const *sets,
                   int set_count)
{
    const char *path = origin->path;
    TRY(set_defaults(c));
    if (path) TRY(read_file(c, origin, path));
    if (folder) TRY(set_key(c, "run.dir", folder));
    if (folder && strcmp(c->checkpoint.resume, "none") == 0)
        TRY(set_key(c, "checkpoint.resume", "auto"));
    TRY((folder ? override_kept : override)(c, origin, sets, set_count));
    if (path && c->run.dir[0] == '\0') TRY(default_run_dir(c, path));
    resolve_eval_resize(c);
    config_note_unread(c, origin, folder != NULL);
    resolve_published(c);
    resolve_warmup(c, origin, folder != NULL);
    TRY(resolve_sets(c, origin));
    return config_check(c, origin);
}

/* Where origin->path is a folder, that of a run: *folder is it, without slashes at the end, and
 * origin->path the config in it. mem_free both. */
static Status find_folder(ConfigOrigin *origin, char **folder, char **path)
{
    if (!origin->path || !fs_is_dir(origin->path)) return OK;
    if (!(*folder = mem_strdup(origin->path))) return ERR_MEMORY;
    for (size_t n = strlen(*folder); n > 1 && (*folder)[n - 1] == '/';) (*folder)[--n] = '\0';
    if (!(*path = fs_join(*folder, "config.yaml"))) return ERR_MEMORY;
    origin->path = *path;
    if (fs_exists(*path)) return OK;
    return fail(ERR_USAGE, "%s: not a run folder: it has no config.yaml", *folder);
}

Status config_load(Config **out, const char *path, const char *const *sets, int set_count)
{
    ConfigOrigin origin = { .path = path };
    char *folder FREED = NULL, *own FREED = NULL;
    *out = NULL;
    Config *c FREED_BY(config_destroy_at) = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    TRY(find_folder(&origin, &folder, &own));
    TRY(load(c, &origin, folder, sets, set_count));
    *out = c;
    c = NULL;
    return OK;
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

Status config_parse(Config **out, const char *yaml)
{
    ConfigOrigin origin = { .path = "stored config" };
    *out = NULL;
    Config *c FREED_BY(config_destroy_at) = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    TRY(set_defaults(c));
    TRY(config_read_yaml(c, &origin, origin.path, yaml, strlen(yaml)));
    resolve_eval_resize(c);
    resolve_published(c);
    *out = c;
    c = NULL;
    return OK;
}

Status config_stored(Config **out, const char *path)
{
    uint8_t *text FREED = NULL;
    size_t bytes = 0;
    *out = NULL;
    TRY(fs_read_limited(path, CONFIG_BYTES_MAX, &text, &bytes));
    return config_parse(out, (const char *)text);
}
