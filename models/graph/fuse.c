/* fuse.c - rewrites node patterns that a backend's kernels can do in one pass over memory. Runs
 * between backward and plan.
 *
 * add_into_batchnorm_bwd: where a residual block's input was made by a batch norm, its gradient is
 * the sum of two shares. The OP_ADD that sums them writes and re-reads one whole activation;
 * batchnorm_bwd can read both shares itself (dy, dy2). What convolutions can take over of a batch
 * norm is fuse_norm.c's (training) and fuse_conv.c's (evaluation); fuse_own.c has what needs none.
 *
 * Nodes only disappear here, and a surviving node's new inputs are inputs of the node that
 * disappeared before it, so the array stays in topological order. The tensor that the removed node
 * produced stays as an entry without producer or consumer and takes no memory. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"

/* Moves the addends of node into the batch norm that alone reads their sum. False if the pattern is
 * not there. */
static bool fold_add(Graph *g, int node)
{
    const GraphNode *add = &g->nodes[node];
    const TensorId sum = add->out[ADD_OUT_Y];
    int reader = -1, slot = -1;
    if (add->kind != OP_ADD || g->tensors[sum].role != ROLE_ACTIVATION) return false;
    if (graph_edit_count_readers(g, sum, &reader, &slot) != 1) return false;
    GraphNode *bn = &g->nodes[reader];
    const bool reads_two = bn->kind == OP_BATCHNORM_BWD || bn->kind == OP_BN_BWD_SUMS;
    if (!reads_two || slot != BN_BWD_IN_DY || bn->in[BN_BWD_IN_DY2] != TENSOR_NONE) return false;
    bn->in[BN_BWD_IN_DY] = add->in[ADD_IN_A];
    bn->in[BN_BWD_IN_DY2] = add->in[ADD_IN_B];
    return true;
}

static Status fold_adds(Graph *g)
{
    /* Readers come later in the array, so compaction in the same pass would move a node between
     * being found and being edited. */
    bool *gone = mem_calloc((size_t)g->node_count, sizeof *gone);
    if (!gone) return ERR_MEMORY;
    for (int i = 0; i < g->node_count; i++) gone[i] = fold_add(g, i);
    graph_edit_remove_nodes(g, gone);
    mem_free(gone);
    return OK;
}

Status graph_fuse(Graph *g, const FuseOptions *o)
{
    TRY(graph_status(g));
    if (o->add_into_batchnorm_bwd) TRY(fold_adds(g));
    TRY(graph_fuse_norms(g, o));
    TRY(graph_fuse_own(g, o));
    TRY(graph_fuse_convs(g, o));
    return graph_recompute(g, o->recompute);
}
