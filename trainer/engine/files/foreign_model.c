/* foreign_model.c - see foreign_model.h. */
#include "trainer/engine/files/foreign_model.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

enum { USUAL_SIZE = 224 }; /* data.image_size where nobody says it */
enum { NAME_BYTES = 96, SET_BYTES = 128, SETS_MAX = 80 };

static bool may_set(const char *set)
{
    static const char *const keys[] = { "data.",
                                        "model.stem=", "model.blurpool=", "model.in_channels=" };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (str_starts_with(set, keys[k])) return true;
    return false;
}

Status foreign_model_need_own(const char *path, const char *option)
{
    SafeFile *file = NULL;
    TRY(weights_open(&file, path));
    const bool own = weights_are_checkpoint(file);
    safetensors_close(file);
    if (own) return OK;
    return fail(ERR_DATA, "%s: not a Convoy checkpoint; for other weights name the network with %s",
                path, option);
}

static Status unknown_weights(const ModelDef *def, const char *name, const char *option)
{
    StrBuf text = { 0 };
    for (int i = 0; i < MODEL_WEIGHTS_MAX && def->weights[i].name; i++)
        str_printf(&text, "%s%s", i ? ", " : "; there are ", def->weights[i].name);
    Status status = text.failed ? ERR_MEMORY
                                : fail(ERR_USAGE, "%s: %s has no weights %s%s", option, def->name,
                                       name, text.length ? text.text : "");
    str_free(&text);
    return status;
}

/* What names the weights of "resnet50:IMAGENET1K_V2", or timm's "resnet50.a1_in1k"; NULL. */
static const char *tag_of(const char *word)
{
    return strpbrk(word, ":.");
}

static Status find_model(const ModelDef **def, const ModelWeights **weights,
                         const ForeignModel *foreign)
{
    char name[NAME_BYTES];
    const char *word = foreign->model, *option = foreign->option, *tag = tag_of(word);
    snprintf(name, sizeof name, "%.*s", tag ? (int)(tag - word) : NAME_BYTES - 1, word);
    *def = model_find(name);
    if (!*def) {
        char suggestion[MODEL_SUGGESTION_BYTES];
        model_suggest(name, suggestion, sizeof suggestion);
        return fail(ERR_USAGE, "%s: unknown network %s%s", option, name, suggestion);
    }
    if ((*def)->text)
        return fail(ERR_USAGE,
                    "%s: %s reads text, and only checkpoints of Convoy have a dictionary", option,
                    name);
    *weights = (*def)->weights;
    for (int i = 0; tag && i < MODEL_WEIGHTS_MAX && (*def)->weights[i].name; i++)
        if (strcmp((*def)->weights[i].name, tag + 1) == 0) *weights = &(*def)->weights[i];
    if (tag && (!(*weights)->name || strcmp((*weights)->name, tag + 1) != 0))
        return unknown_weights(*def, tag + 1, option);
    return OK;
}

/* ---- images ---- */

static void add_values(StrBuf *out, const char *key, const ConfigList *list, int64_t count)
{
    str_printf(out, "%s=", key);
    for (int i = 0; i < count; i++)
        str_printf(out, "%s%.9g", i ? "," : "", list->values[list->count == 1 ? 0 : i]);
    str_add(out, "\n");
}

static void add_images(const Config *c, bool stem, StrBuf *out)
{
    const int64_t channels = c->model.in_channels, size = c->data.image_size;
    if (stem) str_printf(out, "model.stem=%s\n", stem_names[c->model.stem]);
    str_printf(out,
               "model.in_channels=%lld\ndata.image_size=%lld\ndata.eval_resize=%lld\n"
               "data.interpolation=%s\n",
               (long long)channels, (long long)size,
               (long long)(c->data.eval_resize ? c->data.eval_resize : size),
               interpolation_names[c->data.interpolation]);
    add_values(out, "data.mean", &c->data.mean, channels);
    add_values(out, "data.std", &c->data.std, channels);
}

void foreign_model_add_images(const Config *c, StrBuf *out)
{
    str_printf(out, "model.blurpool=%s\n", blurpool_names[c->model.blurpool]);
    add_images(c, true, out);
}

/* Those that convoy export wrote; NULL: none. */
static const char *own_images(const SafeFile *file)
{
    const bool own = safetensors_metadata(file, "convoy") != NULL;
    return own ? safetensors_metadata(file, FOREIGN_MODEL_IMAGES) : NULL;
}

static void add_published(const ModelWeights *w, StrBuf *out)
{
    str_printf(out, "data.image_size=%d\ndata.eval_resize=%d\ndata.interpolation=%s\n%s", w->size,
               w->resize, model_interpolation_name(w->interpolation),
               w->halves ? "data.mean=0.5\ndata.std=0.5\n" : "");
}

/* Adds, after a blank each, the lines of text that known lacks. */
static void add_lacking(StrBuf *out, const char *text, const char *known)
{
    for (size_t n; *text; text += n + (text[n] != '\0')) {
        char line[SET_BYTES];
        n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s\n", (int)n, text);
        if (!strstr(known, line)) str_printf(out, " %.*s", (int)n, text);
    }
}

static bool are_halves(const ConfigList *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->values[i] != 0.5) return false;
    return true;
}

static bool wants(const ModelWeights *w, const Config *c)
{
    const int64_t resize = c->data.eval_resize > 0 ? c->data.eval_resize : c->data.image_size;
    return c->data.image_size == w->size && resize == w->resize &&
           strcmp(interpolation_names[c->data.interpolation],
                  model_interpolation_name(w->interpolation)) == 0 &&
           (are_halves(&c->data.mean) && are_halves(&c->data.std)) == w->halves;
}

static const ModelWeights *unlike_published(const Config *c, const ModelDef *def)
{
    const ModelWeights *all = def->weights, *w = NULL;
    for (int i = 0; i < MODEL_WEIGHTS_MAX && all[i].name; i++) {
        if (wants(&all[i], c)) return NULL;
        if (!w && all[i].size == c->data.image_size && !all[i].file == !all->file) w = &all[i];
    }
    return !w && c->data.image_size == USUAL_SIZE && all->name ? all : w;
}

void foreign_model_tell_images(const Config *c, const ModelDef *def, const SafeFile *file,
                               const char *path)
{
    StrBuf here = { 0 }, text = { 0 }, said = { 0 };
    const char *own = file ? own_images(file) : NULL;
    const ModelWeights *w = own ? NULL : unlike_published(c, def);
    foreign_model_add_images(c, &here);
    if (w) add_published(w, &text);
    if (w && !text.failed) add_lacking(&said, text.text, "");
    if (own && !here.failed) add_lacking(&said, own, here.text);
    if (w && said.length > 0 && !said.failed)
        log_warning("%s: the published weights of %s (%s) require%s", path, def->name, w->name,
                    said.text);
    if (own && said.length > 0 && !said.failed)
        log_warning("%s: these weights were exported with%s", path, said.text);
    str_free(&here);
    str_free(&text);
    str_free(&said);
}

/* Loads text, a setting per line. */
static Status load_images(CheckpointModel *m, char *text)
{
    const char *sets[SETS_MAX];
    char name[NAME_BYTES];
    int count = 0;
    snprintf(name, sizeof name, "model.name=%s", m->def->name);
    sets[count++] = name;
    for (char *line = text; *line && count < SETS_MAX; count++) {
        sets[count] = line;
        line += strcspn(line, "\n");
        if (*line) *line++ = '\0';
        if (!may_set(sets[count]))
            return fail(ERR_DATA, "\"%s\" is not a setting of images", sets[count]);
    }
    return config_load(&m->config, NULL, sets, count);
}

/* Then the caller's settings. An image size among them keeps the ratio to the shorter side; rounded
 * down, as timm does. */
static Status override(Config *c, const ForeignModel *foreign)
{
    static const char key[] = "data.image_size=";
    const int64_t old = c->data.image_size, resize = c->data.eval_resize;
    const char *sets[SETS_MAX];
    char text[SET_BYTES];
    int64_t size = old, asked; /* a size that is none is refused with its key */
    int count = 1;
    for (int i = 0; i < foreign->set_count; i++) {
        const char *set = foreign->sets[i];
        if (!may_set(set))
            return fail(ERR_USAGE,
                        "%s: with --model only data.*, model.stem, model.blurpool and "
                        "model.in_channels can be set",
                        set);
        if (str_starts_with(set, key) && str_to_i64(set + sizeof key - 1, &asked) && asked > 0 &&
            asked < INT32_MAX)
            size = asked;
        ASSERT(count < SETS_MAX);
        sets[count++] = set;
    }
    snprintf(text, sizeof text, "data.eval_resize=%lld", (long long)(size * resize / old));
    sets[0] = text;
    return config_override(c, sets, count);
}

static bool sets_images(const ForeignModel *foreign)
{
    for (int i = 0; i < foreign->set_count; i++)
        if (str_starts_with(foreign->sets[i], "data.")) return true;
    return tag_of(foreign->model) != NULL;
}

/* Images as the caller names published weights, else as the file says, else like the caller's, else
 * as the first published weights require, which need not be these. */
static Status configure(CheckpointModel *m, const ModelWeights *w, const ForeignModel *foreign,
                        const char *path)
{
    StrBuf text = { 0 }, said = { 0 };
    const char *own = tag_of(foreign->model) ? NULL : own_images(m->file);
    const Config *like = tag_of(foreign->model) ? NULL : foreign->like;
    if (own) str_add(&text, own);
    else if (like) add_images(like, m->def->stems, &text);
    else if (w->name) add_published(w, &text);
    else str_printf(&text, "data.image_size=%d\n", m->def->input.size);
    if (!own && !like && !sets_images(foreign) && !text.failed) add_lacking(&said, text.text, "");
    if (said.length > 0 && !said.failed)
        log_warning("%s: does not say how images are prepared; using%s%s%s%s", path, said.text,
                    w->name ? ", as the published weights " : "", w->name ? w->name : "",
                    w->name ? " require" : "");
    Status status = text.failed ? ERR_MEMORY : load_images(m, text.text);
    if (status == ERR_USAGE || status == ERR_DATA)
        status = fail_note(ERR_DATA, "%s: metadata \"" FOREIGN_MODEL_IMAGES "\"", path);
    str_free(&text);
    str_free(&said);
    return status == OK ? override(m->config, foreign) : status;
}

/* One name per line; without a file, those that convoy export wrote. */
static Status read_names(CheckpointModel *m, const char *file, const char *path)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int64_t lines = 0;
    if (!file && safetensors_metadata(m->file, "convoy"))
        m->meta.class_names = safetensors_metadata(m->file, "class_names");
    const char *named = safetensors_metadata(m->file, "named_classes");
    m->meta.named_classes = file || (named && strcmp(named, "1") == 0);
    if (!file) return OK;
    TRY(fs_read_limited(file, FS_TEXT_BYTES, &text, &bytes));
    m->class_names = (char *)text;
    m->meta.class_names = m->class_names;
    const bool mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) bytes--;
    char *to = m->class_names;
    for (size_t i = mark ? 3 : 0; i < bytes; i++) {
        if (text[i] != '\r') *to++ = (char)text[i];
        lines += text[i] == '\n' || i + 1 == bytes;
    }
    *to = '\0';
    if (!json_is_utf8(m->class_names) || memchr(text, '\0', (size_t)(to - m->class_names)))
        return fail(ERR_DATA, "%s: not UTF-8 text", file);
    if (lines == m->classes) return OK;
    return fail(ERR_DATA, "%s: %lld names, but %s has weights for %lld classes", file,
                (long long)lines, path, (long long)m->classes);
}

/* What an exported file says of labels. */
static Status read_labels(CheckpointModel *m, const char *path)
{
    const char *labels = safetensors_metadata(m->file, FOREIGN_MODEL_LABELS),
               *threshold = safetensors_metadata(m->file, FOREIGN_MODEL_THRESHOLD);
    if (!safetensors_metadata(m->file, "convoy") || !labels || strcmp(labels, "multi") != 0)
        return OK;
    m->config->data.labels = LABELS_MULTI;
    if (!threshold ||
        (str_to_double(threshold, &m->threshold) && m->threshold >= 0 && m->threshold <= 1))
        return OK;
    return fail(ERR_DATA, "%s: metadata threshold: %.40s is not a number from 0 to 1", path,
                threshold);
}

static Status open_parts(CheckpointModel *m, const char *path, const ForeignModel *foreign,
                         int64_t batch)
{
    const ModelWeights *weights = NULL;
    Graph *probe = NULL;
    TRY(find_model(&m->def, &weights, foreign));
    TRY(weights_open(&m->file, path));
    if (weights_are_checkpoint(m->file))
        return fail(ERR_USAGE, "%s: %s is not needed for a checkpoint, which names its network",
                    path, foreign->option);
    TRY(configure(m, weights, foreign, path));
    TRY(read_labels(m, path));
    TRY(checkpoint_model_graph(&probe, m, 1, 1, 0));
    Status status = weights_narrow(m->file, probe, m->def, foreign->which, path);
    if (status == OK) status = weights_classes(&m->classes, probe, m->def, m->file, path);
    graph_destroy(probe);
    if (status == OK) status = read_names(m, foreign->classes, path);
    return status == OK ? checkpoint_model_graph(&m->graph, m, m->classes, batch, 0) : status;
}

Status foreign_model_open(CheckpointModel *out, const char *path, const ForeignModel *foreign,
                          int64_t batch)
{
    *out = (CheckpointModel){ .foreign = true, .threshold = CHECKPOINT_MODEL_THRESHOLD };
    Status status = open_parts(out, path, foreign, batch);
    if (status != OK) checkpoint_model_close(out);
    return status;
}
