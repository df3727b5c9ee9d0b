/* config_network.c - what a configuration makes of a network, and of the batches that it reads. */
#include "models/models.h"
#include "trainer/engine/config/config.h"

bool config_is_text(const Config *c)
{
    const ModelDef *def = model_find(c->model.name);
    return def && def->text;
}

bool config_is_masked(const Config *c)
{
    return config_is_text(c) && c->model.head == HEAD_MLM;
}

/* Size of the dictionary where the data is not here: that of the published RoBERTa. */
#define USUAL_WORDS 50265

static int64_t usual_words(const Config *c)
{
    return config_is_masked(c) && c->model.classes > 0 ? c->model.classes : USUAL_WORDS;
}

TokenOptions config_token_options(const Config *c)
{
    const ModelDef *def = model_find(c->model.name);
    return (TokenOptions){ .tokens = c->data.tokens,
                           .one_separator = def && def->segments,
                           .break_mode = c->data.break_mode,
                           .mask = c->data.mask,
                           .mask_keep = c->data.mask_keep,
                           .mask_random = c->data.mask_random,
                           .words = config_is_text(c) ? (int)usual_words(c) : 0 };
}

void config_set_batch(const Config *c, int64_t batch, GraphOptions *g)
{
    g->batch = batch;
    if (config_is_masked(c)) g->masked = batch * mask_most(c->data.mask, c->data.tokens);
}

void config_fill_text(const Config *c, LoaderOptions *o)
{
    GraphOptions g = { .masked = 0 };
    if (!config_is_text(c)) return;
    config_set_batch(c, o->batch, &g);
    o->tokens = c->data.tokens;
    o->masked = g.masked;
    o->segments = model_find(c->model.name)->segments;
}

ModelOptions config_model_options(const Config *c, int64_t image_size, int64_t classes)
{
    ModelOptions o = { .stem = (Stem)c->model.stem,
                       .blurpool = (BlurPool)c->model.blurpool,
                       .zero_init_last_gamma = c->model.zero_init_last_gamma,
                       .width = 1,
                       .stochastic_depth = c->model.stochastic_depth,
                       .dropout = c->model.dropout,
                       .attention_dropout = c->model.attention_dropout,
                       .layers = (int)c->model.layers,
                       .hidden = (int)c->model.hidden,
                       .heads = (int)c->model.heads };
    const int64_t usual = config_is_masked(c) ? USUAL_WORDS : config_is_text(c) ? 2 : 1000;
    if (classes < 0) classes = c->model.classes > 0 ? c->model.classes : usual;
    o.graph = (GraphOptions){ .batch = 1,
                              .channels = c->model.in_channels,
                              .height = image_size,
                              .width = image_size,
                              .classes = classes,
                              .tokens = config_is_text(c) ? c->data.tokens : 0,
                              .words = config_is_text(c) ? usual_words(c) : 0 };
    if (config_is_masked(c)) o.graph.words = classes;
    config_set_batch(c, 1, &o.graph);
    for (int i = 0; i < c->model.in_channels; i++) {
        o.graph.mean[i] = (float)c->data.mean.values[c->data.mean.count == 1 ? 0 : i];
        o.graph.std[i] = (float)c->data.std.values[c->data.std.count == 1 ? 0 : i];
    }
    return o;
}
