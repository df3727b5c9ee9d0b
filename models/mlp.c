/* mlp.c - multilayer perceptron: linear and ReLU in turn, named fc1, fc2, ... The first linear
 * layer flattens the images. */
#include "models/blocks.h"
#include "models/families.h"
#include <stdio.h>

#define MAX_HIDDEN 4

typedef struct MlpRow {
    int hidden_count;
    int64_t hidden[MAX_HIDDEN];
} MlpRow;

static Status build_mlp(Graph *g, const ModelDef *def, const ModelOptions *o)
{
    const MlpRow *row = def->params;
    char name[BLOCK_NAME_MAX];
    TensorId x = graph_images(g, &o->graph);
    for (int i = 0; i < row->hidden_count; i++) {
        snprintf(name, sizeof name, "fc%d", i + 1);
        x = graph_linear(g, name, x, block_scale_channels(row->hidden[i], o->width));
        snprintf(name, sizeof name, "relu%d", i + 1);
        x = graph_activation(g, name, x, ACT_RELU);
    }
    snprintf(name, sizeof name, "fc%d", row->hidden_count + 1);
    graph_softmax_xent(g, graph_linear(g, name, x, o->graph.classes));
    return graph_status(g);
}

static const ModelDef rows[] = {
    { .name = "mlp",
      .summary = "perceptron with two hidden layers of 512",
      .build = build_mlp,
      .params = &(const MlpRow){ 2, { 512, 512 } },
      .input = { 1, 28 },
      .one_size = true },
};
const ModelFamily mlp_family = MODEL_FAMILY(rows);
