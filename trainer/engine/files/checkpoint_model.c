/* checkpoint_model.c - see checkpoint_model.h. The number of classes is that of the last layer in
 * the file, since model.classes may leave it to a dataset that is not here. */
#include "trainer/engine/files/checkpoint_model.h"
#include "base/mem.h"
#include "trainer/engine/files/imagenet_names.h"
#include <stdio.h>
#include <string.h>

Status checkpoint_model_graph(Graph **out, const CheckpointModel *m, int64_t classes, int64_t batch,
                              int64_t size)
{
    const bool text = config_is_text(m->config);
    const int64_t side = text ? 1 : size ? size : m->config->data.image_size;
    ModelOptions o = config_model_options(m->config, side, classes);
    config_set_batch(m->config, batch, &o.graph);
    o.graph.words = m->words;
    o.graph.places = text ? size : 0;
    return model_build(out, m->def, &o);
}

/* Rows in the file of the weights that are input slot `slot` of node n. */
static Status find_rows(int64_t *out, const CheckpointModel *m, const Graph *g, const GraphNode *n,
                        int slot, const char *path)
{
    const char *name = graph_tensor(g, n->in[slot])->name;
    const SafeTensor *t = safetensors_find(m->file, name);
    if (!t)
        return fail(ERR_DATA, "%s: tensor %s is missing, which %s requires", path, name,
                    m->def->name);
    *out = t->desc.dims[0];
    return OK;
}

/* Rows of the last layer's weights, and of the words' table. */
static Status find_classes(CheckpointModel *m, const char *path)
{
    Graph *probe = NULL;
    TRY(checkpoint_model_graph(&probe, m, 1, 1, 0));
    const GraphNode *last = graph_node(probe, graph_tensor(probe, graph_logits(probe))->producer);
    Status status = find_rows(&m->classes, m, probe, last, LINEAR_IN_W, path);
    for (int i = 0; i < graph_node_count(probe) && status == OK; i++) {
        const GraphNode *n = graph_node(probe, i);
        if (n->kind == OP_EMBED) status = find_rows(&m->words, m, probe, n, EMBED_IN_WORDS, path);
    }
    graph_destroy(probe);
    return status;
}

static Status check_tensors(const CheckpointModel *m, const char *path)
{
    for (TensorId id = 0; id < graph_tensor_count(m->graph); id++) {
        const GraphTensor *t = graph_tensor(m->graph, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        const SafeTensor *have = safetensors_find(m->file, t->name);
        if (!have || have->desc.dtype != DTYPE_F32 || !tensor_same_shape(&have->desc, &t->desc))
            return fail(ERR_DATA, "%s: tensor %s is missing or has another shape than in %s", path,
                        t->name, m->def->name);
    }
    return OK;
}

/* A configuration is read as this version writes it, or not at all. */
Status checkpoint_model_config(Config **out, const CheckpointMeta *meta, const char *path)
{
    char why[512];
    StrBuf text = { 0 };
    Status status = config_parse(out, meta->config);
    if (status == ERR_USAGE) { /* the settings are not the user's here */
        snprintf(why, sizeof why, "%s", status_message());
        return checkpoint_fail_version(path, meta->writer, why);
    }
    TRY(status);
    status = config_dump_yaml(*out, &text);
    if (status == OK && strcmp(text.text, meta->config) != 0)
        status = checkpoint_fail_version(path, meta->writer, "its configuration has other keys");
    str_free(&text);
    if (status == OK) return OK;
    config_destroy(*out);
    *out = NULL;
    return status;
}

static Status open_parts(CheckpointModel *m, const char *path, int64_t batch)
{
    TRY(checkpoint_open(&m->file, &m->meta, path));
    TRY(checkpoint_model_config(&m->config, &m->meta, path));
    TRY(config_check_input(m->config));
    m->def = model_find(m->meta.model);
    if (!m->def)
        return fail(ERR_DATA, "%s: a checkpoint of %s, an unknown network", path, m->meta.model);
    if (m->def->text != config_is_text(m->config))
        return fail(ERR_DATA, "%s: a checkpoint of %s with the configuration of %s", path,
                    m->meta.model, m->config->model.name);
    TRY(find_classes(m, path));
    TRY(checkpoint_model_graph(&m->graph, m, m->classes, batch, 0));
    TRY(check_tensors(m, path));
    return weights_check_finite(m->file, false, path);
}

Status checkpoint_model_open(CheckpointModel *out, const char *path, int64_t batch)
{
    *out = (CheckpointModel){ .threshold = CHECKPOINT_MODEL_THRESHOLD };
    Status status = open_parts(out, path, batch);
    if (status == ERR_USAGE) status = fail_note(ERR_DATA, "%s", path);
    if (status != OK) checkpoint_model_close(out);
    return status;
}

Status checkpoint_model_set_threshold(CheckpointModel *m, double threshold, const char *path)
{
    m->threshold = threshold;
    return m->config->data.labels == LABELS_MULTI
               ? OK
               : fail(ERR_USAGE,
                      "--threshold: %s was trained with one label per image (data.labels)", path);
}

Status checkpoint_model_choose(CheckpointModel *m, WeightsChoice which, const char *path)
{
    TRY(weights_choose(m->file, which, m->config->ema.best, path, &m->ema));
    return check_tensors(m, path);
}

Status checkpoint_model_dictionary(Dictionary **out, const CheckpointModel *m, const char *path)
{
    const char *words = m->meta.words && m->meta.words[0] ? m->meta.words : m->meta.class_names;
    TRY(dictionary_make(out, words ? words : "", path));
    const int count = (*out)->words;
    if (count == m->words && (*out)->mask >= 0) return OK;
    dictionary_destroy(*out);
    *out = NULL;
    return fail(ERR_DATA, "%s: has the names of %d words%s, but weights for %lld", path, count,
                count == m->words ? " without <mask>" : "", (long long)m->words);
}

void checkpoint_model_close(CheckpointModel *m)
{
    graph_destroy(m->graph);
    mem_free(m->class_names);
    config_destroy(m->config);
    safetensors_close(m->file);
    *m = (CheckpointModel){ .file = NULL };
}

bool checkpoint_model_borrows_names(const CheckpointModel *m)
{
    return m->foreign && m->classes == IMAGENET_CLASSES &&
           !(m->meta.class_names && m->meta.named_classes);
}

void checkpoint_model_class_name(const CheckpointModel *m, int64_t label, char *out, size_t bytes)
{
    const char *line = m->meta.class_names;
    for (int64_t i = 0; line && i < label; i++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    if (checkpoint_model_borrows_names(m)) imagenet_name(label, out, bytes);
    else if (line && *line && *line != '\n')
        snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
    else snprintf(out, bytes, "%lld", (long long)label);
}
