/* registry.c - all networks by name. A new network of a known family is a new row in its file; a
 * new family is a file and its place in the list below. */
#include "base/str.h"
#include "models/families.h"
#include <stdio.h>
#include <string.h>

const char *const stem_names[STEM_COUNT + 1] = {
    [STEM_IMAGENET] = "imagenet", [STEM_CIFAR] = "cifar"
};

const char *const blurpool_names[BLURPOOL_COUNT + 1] = { [BLURPOOL_NONE] = "none",
                                                         [BLURPOOL_FFCV] = "ffcv",
                                                         [BLURPOOL_COMPOSER] = "composer",
                                                         [BLURPOOL_TIMM] = "timm" };

static const ModelFamily *const families[] = {
    &resnet_family,   &resnet_cifar_family, &efficientnet_family, &mlp_family, &airbench_family,
    &convnext_family, &mobilenet_family,    &regnet_family,       &vit_family, &roberta_family
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0], MODELS_MAX = 256 };

int model_count(void)
{
    int count = 0;
    for (int f = 0; f < FAMILY_COUNT; f++) count += families[f]->count;
    return count;
}

const ModelDef *model_at(int index)
{
    ASSERT(index >= 0 && index < model_count());
    int f = 0;
    for (; index >= families[f]->count; f++) index -= families[f]->count;
    return &families[f]->rows[index];
}

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < model_count(); i++)
        if (strcmp(model_at(i)->name, name) == 0) return model_at(i);
    return NULL;
}

/* The network here that timm calls so, with or without a tag of weights behind a dot; NULL. */
static const char *name_of_timm(const char *name)
{
    char plain[64];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "."), name);
    const ModelDef *def = model_find(plain);
    if (def) return def->name;
    for (int i = 0; i < model_count(); i++)
        if (model_at(i)->timm && strcmp(model_at(i)->timm, plain) == 0) return model_at(i)->name;
    return NULL;
}

void model_suggest(const char *name, char *out, size_t bytes)
{
    const char *here = name_of_timm(name);
    if (here) {
        snprintf(out, bytes, "; it is called %s here%s", here,
                 str_starts_with(name, here) ? ", and model.init=FILE sets its weights" : "");
        return;
    }
    const char *names[MODELS_MAX], *nearest[MODEL_SUGGESTIONS];
    int left = model_count(), found = 0;
    ASSERT(left <= MODELS_MAX);
    for (int i = 0; i < left; i++) names[i] = model_at(i)->name;
    while (found < MODEL_SUGGESTIONS && (nearest[found] = str_nearest(name, names, left))) {
        int at = 0;
        while (names[at] != nearest[found]) at++;
        for (left--; at < left; at++) names[at] = names[at + 1];
        found++;
    }
    snprintf(out, bytes, "%s",
             found ? " (did you mean " : " (convoy inspect model --help lists all)");
    for (int i = 0; i < found; i++) {
        const char *after = i + 1 == found ? "?)" : i + 2 == found ? " or " : ", ";
        const size_t length = strlen(out);
        snprintf(out + length, bytes - length, "%s%s", nearest[i], after);
    }
}

const ModelDef *model_named(const ModelDef *def, ModelNames names)
{
    return !def->twin || def->names == names ? def : model_find(def->twin);
}

void model_weights_file(const ModelDef *def, const ModelWeights *w, char *out, size_t bytes)
{
    if (w->file) snprintf(out, bytes, "%s%s.pth", def->name, w->file);
    else snprintf(out, bytes, "timm/%s.%s", def->timm, w->name);
}

const char *model_interpolation_name(ModelInterpolation interpolation)
{
    static const char *const names[MODEL_INTERPOLATION_COUNT] = {
        [MODEL_BILINEAR] = "bilinear", [MODEL_BICUBIC] = "bicubic"
    };
    return names[interpolation];
}

static Status check_options(const ModelDef *def, const ModelOptions *o)
{
    if (!def->drops && (o->stochastic_depth > 0 || o->dropout > 0))
        return fail(ERR_USAGE,
                    "model.stochastic_depth and model.dropout are not supported by this network");
    if (o->stochastic_depth >= 1 || o->dropout >= 1 || o->attention_dropout >= 1)
        return fail(ERR_USAGE, "stochastic depth and dropout must stay below 1");
    if (!def->blurs && o->blurpool != BLURPOOL_NONE)
        return fail(ERR_USAGE, "model.blurpool is only supported by ResNets");
    if (!def->stems && o->stem == STEM_CIFAR)
        return fail(ERR_USAGE, "model.stem: this network has no stem for small images");
    const GraphOptions *g = &o->graph;
    if (def->text != (g->tokens > 0))
        return fail(ERR_USAGE, "model.name: this network reads %s, but the data has %s",
                    def->text ? "text" : "images", def->text ? "images" : "text");
    if (g->batch < 1 || (!def->text && (g->height < 1 || g->width < 1)))
        return fail(ERR_USAGE, "batch and image size must be at least 1");
    if (g->height < def->least_size || g->width < def->least_size)
        return fail(ERR_USAGE,
                    "images must have at least %d x %d pixels (data.image_size, data.train_size, "
                    "data.progressive_sizes)",
                    def->least_size, def->least_size);
    if (g->classes < 1) return fail(ERR_USAGE, "a network needs at least one class");
    if (!(o->width > 0)) return fail(ERR_USAGE, "the width multiplier must be positive");
    if ((int)o->stem < 0 || o->stem >= STEM_COUNT)
        return fail(ERR_INTERNAL, "stem %d does not exist", (int)o->stem);
    return OK;
}

static bool has_any(const Graph *g, OpKind kind)
{
    for (int i = 0; i < graph_node_count(g); i++)
        if (graph_node(g, i)->kind == kind) return true;
    return false;
}

/* What is asked of batch norms and of attention needs some. */
static Status check_layers(const Graph *g, const ModelOptions *o)
{
    const bool norms = o->graph.bn_frozen || o->graph.bn_ranks > 1 || o->zero_init_last_gamma;
    if (norms && !has_any(g, OP_BATCHNORM))
        return fail(
            ERR_USAGE,
            "model.bn and model.zero_init_last_gamma require batch norm; this network has none");
    if (o->attention_dropout > 0 && !has_any(g, OP_ATTENTION))
        return fail(ERR_USAGE, "model.attention_dropout requires attention; this network has none");
    return OK;
}

Status model_build(Graph **out, const ModelDef *def, const ModelOptions *o)
{
    *out = NULL;
    TRY(check_options(def, o));
    GraphOptions options = o->graph;
    options.segments = def->segments;
    Graph *g = NULL;
    TRY(graph_create(&g));
    graph_set_options(g, &options);
    Status status = def->build(g, def, o);
    if (status == OK && o->graph.training) status = check_layers(g, o);
    if (status == OK && o->graph.training) status = graph_freeze(g, o->graph.freeze);
    if (status == OK && o->graph.training && o->teacher) status = graph_add_teacher(g, o->teacher);
    if (status == OK && o->graph.training) status = graph_append_backward(g);
    if (status != OK) {
        graph_destroy(g);
        return fail_note(status, "%s", def->name);
    }
    *out = g;
    return OK;
}
