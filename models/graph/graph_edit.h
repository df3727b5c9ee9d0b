/* graph_edit.h - what the files that rewrite a graph share (fuse.c, fuse_conv.c, fuse_norm.c). */
#ifndef CONVOY_MODELS_GRAPH_GRAPH_EDIT_H
#define CONVOY_MODELS_GRAPH_GRAPH_EDIT_H
#include "models/graph/graph.h"

OpShape graph_edit_shape_of(const Graph *g, const GraphNode *n);
/* Of the network, the phase and the name of like, without inputs and outputs. */
GraphNode graph_edit_empty_node(OpKind kind, const GraphNode *like, const void *attr);
/* Number of input slots that read id; *reader and *slot are the last of them. */
int graph_edit_count_readers(const Graph *g, TensorId id, int *reader, int *slot);
void graph_edit_number_producers(Graph *g); /* and last writers of all tensors, from the nodes */
/* gone [nodes]; tensors of nodes that are gone stay as entries without producer or consumer and
 * take no memory. */
void graph_edit_remove_nodes(Graph *g, const bool *gone);
#endif
