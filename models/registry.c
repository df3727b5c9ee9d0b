/* registry.c - all networks by name: one table row a variant. A new network of a known family is a new row, nothing
 * else. */
#include "base/str.h"
#include "models/families.h"
#include <string.h>

#define RESNET "ResNet v1.5, torchvision's names and shapes"
#define CIFAR  "ResNet for 32 px images, He et al. 2015 section 4.2"
#define MLP    "perceptron with two hidden layers of 512"

static const ResNetRow resnet18 = { block_basic, { 2, 2, 2, 2 } };
static const ResNetRow resnet34 = { block_basic, { 3, 4, 6, 3 } };
static const ResNetRow resnet50 = { block_bottleneck, { 3, 4, 6, 3 } };
static const ResNetRow resnet101 = { block_bottleneck, { 3, 4, 23, 3 } };
static const ResNetRow resnet152 = { block_bottleneck, { 3, 8, 36, 3 } };
static const CifarResNetRow resnet20 = { 3 }, resnet32 = { 5 }, resnet44 = { 7 }, resnet56 = { 9 }, resnet110 = { 18 };
static const MlpRow mlp = { 2, { 512, 512 } };

static const ModelDef models[] = {
    { "resnet18", RESNET, resnet_build, &resnet18 },
    { "resnet34", RESNET, resnet_build, &resnet34 },
    { "resnet50", RESNET, resnet_build, &resnet50 },
    { "resnet101", RESNET, resnet_build, &resnet101 },
    { "resnet152", RESNET, resnet_build, &resnet152 },
    { "resnet20", CIFAR, resnet_cifar_build, &resnet20 },
    { "resnet32", CIFAR, resnet_cifar_build, &resnet32 },
    { "resnet44", CIFAR, resnet_cifar_build, &resnet44 },
    { "resnet56", CIFAR, resnet_cifar_build, &resnet56 },
    { "resnet110", CIFAR, resnet_cifar_build, &resnet110 },
    { "mlp", MLP, mlp_build, &mlp },
};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

int model_count(void)
{
    return MODEL_COUNT;
}

const ModelDef *model_at(int index)
{
    ASSERT(index >= 0 && index < MODEL_COUNT);
    return &models[index];
}

const ModelDef *model_find(const char *name)
{
    for (int i = 0; i < MODEL_COUNT; i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

const char *model_nearest(const char *name)
{
    const char *names[MODEL_COUNT];
    for (int i = 0; i < MODEL_COUNT; i++) names[i] = models[i].name;
    return str_nearest(name, names, MODEL_COUNT);
}

static Status check_options(const ModelOptions *o)
{
    const GraphOptions *g = &o->graph;
    if (g->batch < 1 || g->height < 1 || g->width < 1)
        return fail(ERR_USAGE, "batch and image size must be at least 1");
    if (g->classes < 1) return fail(ERR_USAGE, "a network needs at least one class");
    if (!(o->width > 0)) return fail(ERR_USAGE, "the width multiplier must be positive");
    if ((int)o->stem < 0 || o->stem >= STEM_COUNT) return fail(ERR_INTERNAL, "stem %d does not exist", (int)o->stem);
    return OK;
}

Status model_build(Graph **out, const ModelDef *def, const ModelOptions *o)
{
    *out = NULL;
    TRY(check_options(o));
    Graph *g = NULL;
    TRY(graph_create(&g));
    graph_set_options(g, &o->graph);
    Status status = def->build(g, def, o);
    if (status == OK && o->graph.training) status = graph_append_backward(g);
    if (status != OK) {
        graph_destroy(g);
        return fail_note(status, "%s", def->name);
    }
    *out = g;
    return OK;
}
