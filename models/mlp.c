/* mlp.c - multilayer perceptron: linear and ReLU in turn, named fc1, fc2, ... The first linear
 * layer flattens the images. */
#include "models/families.h"
#include <stdio.h>

Status mlp_build(Graph *g, const ModelDef *def, const ModelOptions *o)
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
