/* foreign_model.c - see foreign_model.h. */
#include "trainer/engine/files/foreign_model.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

enum { USUAL_SIZE = 224 }; /* data.image_size where nobody says it */
enum { NAME_BYTES = 96, SETS = 5, SET_BYTES = 128, SETS_MAX = 80 };
static const char *const may_be_set[] = { "data.",
                                          "model.stem=", "model.blurpool=", "model.in_channels=" };

static Status unknown_weights(const ModelDef *def, const char *name)
{
    StrBuf text = { 0 };
    for (int i = 0; i < MODEL_WEIGHTS_MAX && def->weights[i].name; i++)
        str_printf(&text, "%s%s", i ? ", " : "; there are ", def->weights[i].name);
    Status status = text.failed ? ERR_MEMORY
                                : fail(ERR_USAGE, "--model: %s has no weights %s%s", def->name,
                                       name, text.length ? text.text : "");
    str_free(&text);
    return status;
}

/* "resnet50:IMAGENET1K_V2" */
static Status find_model(const ModelDef **def, const ModelWeights **weights, const char *word)
{
    char name[NAME_BYTES];
    const char *colon = strchr(word, ':');
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - word) : NAME_BYTES - 1, word);
    *def = model_find(name);
    if (!*def)
        return fail(ERR_USAGE, "--model: unknown network %s (convoy inspect model --help)", name);
    *weights = (*def)->weights;
    for (int i = 0; colon && i < MODEL_WEIGHTS_MAX && (*def)->weights[i].name; i++)
        if (strcmp((*def)->weights[i].name, colon + 1) == 0) *weights = &(*def)->weights[i];
    if (colon && (!(*weights)->name || strcmp((*weights)->name, colon + 1) != 0))
        return unknown_weights(*def, colon + 1);
    return OK;
}

/* The shorter side for images of the size that is set, in the ratio of w; rounded down, as timm
 * does. */
static int64_t resize_of(const ModelWeights *w, const ForeignModel *foreign)
{
    static const char key[] = "data.image_size=";
    int64_t size = w->size, asked; /* a size that is none is refused with its key */
    for (int i = 0; i < foreign->set_count; i++)
        if (str_starts_with(foreign->sets[i], key) &&
            str_to_i64(foreign->sets[i] + sizeof key - 1, &asked) && asked < INT32_MAX)
            size = asked;
    return size * w->resize / w->size;
}

/* ---- images ---- */

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

void foreign_model_tell_images(const Config *c, const ModelDef *def, const char *path)
{
    const ModelWeights *all = def->weights, *w = NULL;
    for (int i = 0; i < MODEL_WEIGHTS_MAX && all[i].name; i++) {
        if (wants(&all[i], c)) return;
        if (!w && all[i].size == c->data.image_size) w = &all[i];
    }
    if (!w && c->data.image_size == USUAL_SIZE && all->name) w = all;
    if (w)
        log_warning("%s: the published weights of %s (%s) require data.image_size=%d "
                    "data.eval_resize=%d data.interpolation=%s%s",
                    path, def->name, w->name, w->size, w->resize,
                    model_interpolation_name(w->interpolation),
                    w->halves ? " data.mean=[0.5] data.std=[0.5]" : "");
}

/* What published weights say of their images; then the caller's settings. */
static Status configure(CheckpointModel *m, const ModelWeights *w, const ForeignModel *foreign)
{
    char text[SETS][SET_BYTES];
    const char *sets[SETS_MAX];
    int count = 0;
    snprintf(text[count++], SET_BYTES, "model.name=%s", m->def->name);
    snprintf(text[count++], SET_BYTES, "data.image_size=%d",
             w->name ? w->size : m->def->input.size);
    if (w->name) {
        snprintf(text[count++], SET_BYTES, "data.eval_resize=%lld",
                 (long long)resize_of(w, foreign));
        snprintf(text[count++], SET_BYTES, "data.interpolation=%s",
                 model_interpolation_name(w->interpolation));
    }
    ASSERT(count <= SETS && count + foreign->set_count + 2 <= SETS_MAX);
    for (int i = 0; i < count; i++) sets[i] = text[i];
    if (w->name && w->halves) {
        sets[count++] = "data.mean=[0.5, 0.5, 0.5]";
        sets[count++] = "data.std=[0.5, 0.5, 0.5]";
    }
    for (int i = 0; i < foreign->set_count; i++) {
        bool may = false;
        for (size_t k = 0; k < sizeof may_be_set / sizeof *may_be_set; k++)
            may = may || str_starts_with(foreign->sets[i], may_be_set[k]);
        if (!may)
            return fail(ERR_USAGE,
                        "%s: with --model only data.*, model.stem, model.blurpool and "
                        "model.in_channels can be set",
                        foreign->sets[i]);
        sets[count++] = foreign->sets[i];
    }
    return config_load(&m->config, NULL, sets, count);
}

/* A name a line; without a file, those that convoy export wrote. */
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

static Status open_parts(CheckpointModel *m, const char *path, const ForeignModel *foreign,
                         int64_t batch)
{
    const ModelWeights *weights = NULL;
    Graph *probe = NULL;
    TRY(find_model(&m->def, &weights, foreign->model));
    TRY(configure(m, weights, foreign));
    TRY(safetensors_open(&m->file, path));
    if (weights_are_checkpoint(m->file))
        return fail(ERR_USAGE,
                    "%s: --model is not needed for a checkpoint, which names its network", path);
    TRY(checkpoint_model_graph(&probe, m, 1, 1, 0));
    Status status = weights_classes(&m->classes, probe, m->def, m->file, path);
    graph_destroy(probe);
    if (status == OK) status = read_names(m, foreign->classes, path);
    return status == OK ? checkpoint_model_graph(&m->graph, m, m->classes, batch, 0) : status;
}

Status foreign_model_open(CheckpointModel *out, const char *path, const ForeignModel *foreign,
                          int64_t batch)
{
    *out = (CheckpointModel){ .foreign = true };
    Status status = open_parts(out, path, foreign, batch);
    if (status != OK) checkpoint_model_close(out);
    return status;
}
