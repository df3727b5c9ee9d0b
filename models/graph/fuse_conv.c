/* fuse_conv.c - batch norm of an evaluation given to the convolution in front of it, where the
 * backend takes it (FuseOptions.takes): y = act(bn(conv(x)) + residual) is one node, and conv(x) is
 * never written.
 *
 * The new node takes the batch norm's place, behind whatever made the residual, so the array stays
 * in topological order. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"

/* The convolution whose result only bn reads; NULL if there is none. */
static const GraphNode *find_conv(const Graph *g, const GraphNode *bn)
{
    int reader, slot;
    if (bn->kind != OP_BATCHNORM || ((const BatchNormAttr *)bn->attr)->mode != BN_EVAL) return NULL;
    const TensorId x = bn->in[BN_IN_X];
    const int producer = g->tensors[x].producer;
    /* A result that leaves the graph (another role) has to be written. */
    if (producer < 0 || g->nodes[producer].kind != OP_CONV2D ||
        g->nodes[producer].in[CONV_IN_B] != TENSOR_NONE || g->tensors[x].role != ROLE_ACTIVATION)
        return NULL;
    if (bn->out[BN_OUT_SAVED] != TENSOR_NONE || graph_edit_count_readers(g, x, &reader, &slot) != 1)
        return NULL;
    return &g->nodes[producer];
}

static GraphNode fused_node(const GraphNode *conv, const GraphNode *bn, const Conv2dBnAttr *attr)
{
    GraphNode n = graph_edit_empty_node(OP_CONV2D_BN, conv, attr);
    n.in[CONV_BN_IN_X] = conv->in[CONV_IN_X];
    n.in[CONV_BN_IN_W] = conv->in[CONV_IN_W];
    for (int i = 0; i < 4; i++) n.in[CONV_BN_IN_GAMMA + i] = bn->in[BN_IN_GAMMA + i];
    n.in[CONV_BN_IN_RESIDUAL] = bn->in[BN_IN_RESIDUAL];
    n.out[CONV_BN_OUT_Y] = bn->out[BN_OUT_Y];
    return n;
}

/* Sets gone of the convolution whose batch norm, node i, takes it over. */
static void fuse_one(Graph *g, const FuseOptions *o, int i, bool *gone)
{
    GraphNode *bn = &g->nodes[i];
    const GraphNode *conv = find_conv(g, bn);
    if (!conv) return;
    const BatchNormAttr *norm = bn->attr;
    if (!op_act(norm->act)->folded) return;
    const Conv2dBnAttr attr = { .conv = *(const Conv2dAttr *)conv->attr,
                                .eps = norm->eps,
                                .act = norm->act };
    GraphNode fused = fused_node(conv, bn, &attr);
    Fusion f = { .name = "epilogue", .before_count = 2, .after_count = 1 };
    f.before[0] = graph_edit_shape_of(g, conv);
    f.before[1] = graph_edit_shape_of(g, bn);
    f.after[0] = graph_edit_shape_of(g, &fused);
    if (!o->takes(o->cookie, &f)) return;
    Conv2dBnAttr *copy = arena_alloc(g->arena, sizeof *copy);
    if (!copy) {
        graph_break(g, ERR_MEMORY);
        return;
    }
    *copy = attr;
    fused.attr = copy;
    gone[conv - g->nodes] = true;
    *bn = fused;
}

Status graph_fuse_convs(Graph *g, const FuseOptions *o)
{
    if (!o->takes) return OK;
    bool *gone = mem_calloc((size_t)g->node_count, sizeof *gone);
    if (!gone) return ERR_MEMORY;
    for (int i = 0; i < g->node_count && g->status == OK; i++) fuse_one(g, o, i, gone);
    graph_edit_remove_nodes(g, gone);
    mem_free(gone);
    return graph_status(g);
}
