/* hub.c - see hub.h. The fields are those of timm's PretrainedCfg (1.0.31). */
#include "trainer/engine/files/hub.h"
#include "base/fs.h"
#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASS_NAME_BYTES = 256 };

Status hub_check(const CheckpointModel *m)
{
    const char *name = m->def->name, *stem = stem_names[m->config->model.stem],
               *blurpool = blurpool_names[m->config->model.blurpool];
    if (!m->def->timm)
        return fail(ERR_USAGE, "--hub: timm has no network that computes what %s does", name);
    if (m->config->model.stem != STEM_IMAGENET)
        return fail(ERR_USAGE, "--hub: timm has no %s with model.stem: %s", name, stem);
    if (m->config->model.blurpool != BLURPOOL_NONE)
        return fail(ERR_USAGE, "--hub: timm has no %s with model.blurpool: %s", name, blurpool);
    return OK;
}

static void add_channels(JsonWriter *w, const char *key, const ConfigList *list, int64_t channels)
{
    json_begin_array(w, key);
    for (int64_t i = 0; i < channels; i++)
        json_number(w, NULL, list->values[list->count == 1 ? 0 : i]);
    json_end_array(w);
}

/* timm scales the shorter side to floor(size / this). */
static double crop_of(int64_t size, int64_t resize)
{
    double crop = (double)size / (double)resize;
    while (floor((double)size / crop) < (double)resize) crop = nextafter(crop, 0);
    return crop;
}

static void add_images(JsonWriter *w, const CheckpointModel *m)
{
    const Config *c = m->config;
    const int64_t channels = c->model.in_channels, size = c->data.image_size;
    json_begin_array(w, "input_size");
    json_int(w, NULL, channels);
    json_int(w, NULL, size);
    json_int(w, NULL, size);
    json_end_array(w);
    json_bool(w, "fixed_input_size", m->def->one_size);
    json_string(w, "interpolation", interpolation_names[c->data.interpolation]);
    json_number(w, "crop_pct", crop_of(size, c->data.eval_resize ? c->data.eval_resize : size));
    json_string(w, "crop_mode", "center");
    add_channels(w, "mean", &c->data.mean, channels);
    add_channels(w, "std", &c->data.std, channels);
}

static void add_classes(JsonWriter *w, const CheckpointModel *m)
{
    if (!m->meta.class_names || !m->meta.named_classes) return;
    json_begin_array(w, "label_names");
    for (int64_t i = 0; i < m->classes; i++) {
        char name[CLASS_NAME_BYTES];
        checkpoint_model_class_name(m, i, name, sizeof name);
        json_string(w, NULL, name);
    }
    json_end_array(w);
}

/* The name of the layer whose weight this is. */
static void add_layer(JsonWriter *w, const char *key, const char *weight)
{
    char layer[WEIGHTS_NAME_BYTES];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(weight) - strlen(".weight")), weight);
    json_string(w, key, layer);
}

Status hub_write_config(const CheckpointModel *m, const char *path)
{
    WeightList list;
    StrBuf text = { 0 };
    JsonWriter w = { .out = &text };
    const Weight *first = NULL, *head = NULL;
    TRY(weights_list(&list, m->graph, m->def, MODEL_NAMES_TIMM));
    for (int i = 0; i < list.count; i++) {
        const Weight *item = &list.items[i];
        if (item->first && str_ends_with_nocase(item->other, ".weight")) first = item;
        if (item->head && str_ends_with_nocase(item->other, ".weight")) head = item;
    }
    ASSERT(first && head);
    json_begin_object(&w, NULL);
    json_string(&w, "architecture", m->def->timm);
    json_int(&w, "num_classes", m->classes);
    json_int(&w, "num_features", head->desc.dims[1]);
    add_classes(&w, m);
    json_begin_object(&w, "pretrained_cfg");
    add_images(&w, m);
    json_int(&w, "num_classes", m->classes);
    add_layer(&w, "first_conv", first->other);
    add_layer(&w, "classifier", head->other);
    json_end_object(&w);
    json_end_object(&w);
    str_add(&text, "\n");
    weights_free(&list);
    return fs_write_text(OK, path, &text);
}
