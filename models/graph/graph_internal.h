/* graph_internal.h - struct Graph, for the files of models/graph/ only (graph.c, build.c, grad.c,
 * fuse.c). Everybody else goes through graph.h. */
#ifndef CONVOY_MODELS_GRAPH_GRAPH_INTERNAL_H
#define CONVOY_MODELS_GRAPH_GRAPH_INTERNAL_H
#include "base/arena.h"
#include "base/mem.h"
#include "models/graph/graph.h"

struct Graph {
    Arena *arena; /* owns everything below, and this struct's strings and attributes */
    GraphOptions options;
    Status status;     /* first error; sticky */
    char message[512]; /* its sentence */
    GraphNode *nodes;
    int node_count, node_capacity;
    GraphTensor *tensors;
    int tensor_count, tensor_capacity;
    TensorId logits;
};

/* Makes status the graph's first error, with this thread's sentence, unless it already has one.
 * Returns the graph's error. */
Status graph_break(Graph *g, Status status);

/* ---- fuse.c, for it, fuse_norm.c and fuse_conv.c ---- */
OpShape graph_shape_of(const Graph *g, const GraphNode *n);
/* Of the phase and the name of like, without inputs and outputs. */
GraphNode graph_empty_node(OpKind kind, const GraphNode *like, const void *attr);
/* Number of input slots that read id; *reader and *slot are the last of them. */
int graph_count_readers(const Graph *g, TensorId id, int *reader, int *slot);
void graph_number_producers(Graph *g); /* of all tensors, from the nodes */
/* gone [nodes]; tensors of nodes that are gone stay as entries without producer or consumer and
 * take no memory. */
void graph_remove_nodes(Graph *g, const bool *gone);
/* ---- fuse_norm.c ---- */
Status graph_fuse_norms(Graph *g, const FuseOptions *o);
/* ---- fuse_conv.c ---- */
Status graph_fuse_convs(Graph *g, const FuseOptions *o);
#endif
