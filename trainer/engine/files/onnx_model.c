/* onnx_model.c - see onnx_model.h. Field numbers are those of onnx.proto. */
#include "trainer/engine/files/onnx_model.h"
#include "base/json.h"
#include "base/wire.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/onnx_graph.h"

enum { CLASS_NAME_BYTES = 256 };
enum { MODEL_METADATA = 14, METADATA_KEY = 1, METADATA_VALUE = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

/* A dimension that is free has a name. */
static void put_dim(StrBuf *shape, const char *name, int64_t value)
{
    StrBuf dim = { 0 };
    if (name) wire_put_text(&dim, DIM_PARAM, name);
    else wire_put_int(&dim, DIM_VALUE, value);
    wire_give_message(shape, SHAPE_DIM, &dim);
}

/* shape is freed. */
static void put_value(StrBuf *out, int field, const char *name, int type, StrBuf *shape)
{
    StrBuf tensor = { 0 }, wrapped = { 0 }, value = { 0 };
    wire_put_int(&tensor, TENSOR_ELEMENT, type);
    wire_give_message(&tensor, TENSOR_SHAPE, shape);
    wire_give_message(&wrapped, TYPE_TENSOR, &tensor);
    wire_put_text(&value, VALUE_NAME, name);
    wire_give_message(&value, VALUE_TYPE, &wrapped);
    wire_give_message(out, field, &value);
}

void onnx_model_put_images(StrBuf *out, int field, const GraphOptions *o, bool pixels,
                           bool free_size)
{
    StrBuf shape = { 0 };
    put_dim(&shape, "N", 0);
    if (!pixels) put_dim(&shape, NULL, o->channels);
    put_dim(&shape, free_size ? "height" : NULL, o->height);
    put_dim(&shape, free_size ? "width" : NULL, o->width);
    if (pixels) put_dim(&shape, NULL, o->channels);
    put_value(out, field, "images", pixels ? ONNX_GRAPH_U8 : ONNX_GRAPH_F32, &shape);
}

void onnx_model_put_logits(StrBuf *out, int field, const GraphOptions *o)
{
    StrBuf shape = { 0 };
    put_dim(&shape, "N", 0);
    put_dim(&shape, NULL, o->classes);
    put_value(out, field, "logits", ONNX_GRAPH_F32, &shape);
}

/* One entry for whoever feeds the network; value is JSON, and freed. */
static void put_metadata(StrBuf *out, const char *key, StrBuf *value)
{
    StrBuf entry = { 0 };
    wire_put_text(&entry, METADATA_KEY, key);
    wire_put_message(&entry, METADATA_VALUE, value);
    str_free(value);
    wire_give_message(out, MODEL_METADATA, &entry);
}

/* One value for each channel. */
static void put_channels(StrBuf *out, const char *key, const ConfigList *list, int64_t channels)
{
    StrBuf text = { 0 };
    JsonWriter w = { .out = &text };
    json_begin_array(&w, NULL);
    for (int64_t i = 0; i < channels; i++)
        json_number(&w, NULL, list->values[list->count == 1 ? 0 : i]);
    json_end_array(&w);
    put_metadata(out, key, &text);
}

static void put_classes(StrBuf *out, const CheckpointModel *m)
{
    char name[CLASS_NAME_BYTES];
    StrBuf text = { 0 };
    JsonWriter w = { .out = &text };
    json_begin_array(&w, NULL);
    for (int64_t i = 0; i < m->classes; i++) {
        checkpoint_model_class_name(m, i, name, sizeof name);
        json_string(&w, NULL, name);
    }
    json_end_array(&w);
    put_metadata(out, "classes", &text);
}

void onnx_model_put_metadata(StrBuf *out, const CheckpointModel *m)
{
    const GraphOptions *o = graph_options(m->graph);
    const Config *c = m->config;
    StrBuf size = { 0 }, resize = { 0 }, interpolation = { 0 };
    JsonWriter w = { .out = &interpolation };
    str_printf(&size, "%lld", (long long)o->height);
    str_printf(&resize, "%lld",
               (long long)(c->data.eval_resize ? c->data.eval_resize : c->data.image_size));
    json_string(&w, NULL, interpolation_names[c->data.interpolation]);
    if (c->data.labels == LABELS_MULTI) {
        StrBuf labels = { 0 }, threshold = { 0 };
        JsonWriter words = { .out = &labels }, number = { .out = &threshold };
        json_string(&words, NULL, label_kind_names[LABELS_MULTI]);
        json_number(&number, NULL, m->threshold);
        put_metadata(out, FOREIGN_MODEL_LABELS, &labels);
        put_metadata(out, FOREIGN_MODEL_THRESHOLD, &threshold);
    }
    put_metadata(out, "image_size", &size);
    put_metadata(out, "resize", &resize);
    put_metadata(out, "interpolation", &interpolation);
    put_channels(out, "mean", &m->config->data.mean, o->channels);
    put_channels(out, "std", &m->config->data.std, o->channels);
    put_classes(out, m);
}
