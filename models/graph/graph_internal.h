/* graph_internal.h - struct Graph, for the files of models/graph/ only. Everybody else goes through
 * graph.h. */
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

/* fuse_norm.c, fuse_own.c, fuse_conv.c */
Status graph_fuse_norms(Graph *g, const FuseOptions *o);
Status graph_fuse_own(Graph *g, const FuseOptions *o);
Status graph_fuse_convs(Graph *g, const FuseOptions *o);
/* recompute.c */
Status graph_recompute(Graph *g, Recompute how);
#endif
