/* graph_edit.c - see graph_edit.h. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"

static TensorDesc desc_of(const Graph *g, TensorId id)
{
    return id == TENSOR_NONE ? (TensorDesc){ .rank = 0 } : g->tensors[id].desc;
}

OpShape graph_edit_shape_of(const Graph *g, const GraphNode *n)
{
    OpShape s = { .kind = n->kind, .attr = n->attr };
    for (int i = 0; i < OP_MAX_INPUTS; i++) s.in[i] = desc_of(g, n->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) s.out[i] = desc_of(g, n->out[i]);
    return s;
}

GraphNode graph_edit_empty_node(OpKind kind, const GraphNode *like, const void *attr)
{
    GraphNode n = { .kind = kind,
                    .phase = like->phase,
                    .name = like->name,
                    .attr = attr,
                    .teacher = like->teacher };
    for (int i = 0; i < OP_MAX_INPUTS; i++) n.in[i] = TENSOR_NONE;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) n.out[i] = TENSOR_NONE;
    return n;
}

int graph_edit_count_readers(const Graph *g, TensorId id, int *reader, int *slot)
{
    int readers = 0;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (g->nodes[i].in[k] == id) {
                readers++;
                *reader = i;
                *slot = k;
            }
    return readers;
}

void graph_edit_number_producers(Graph *g)
{
    for (TensorId id = 0; id < g->tensor_count; id++)
        g->tensors[id].producer = g->tensors[id].last_writer = -1;
    for (int i = 0; i < g->node_count; i++) {
        const GraphNode *n = &g->nodes[i];
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (n->out[k] != TENSOR_NONE)
                g->tensors[n->out[k]].producer = g->tensors[n->out[k]].last_writer = i;
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (n->in[k] != TENSOR_NONE && g->tensors[n->in[k]].role == ROLE_GRAD)
                g->tensors[n->in[k]].last_writer = i;
    }
}

void graph_edit_remove_nodes(Graph *g, const bool *gone)
{
    int kept = 0;
    for (int i = 0; i < g->node_count; i++)
        if (!gone[i]) g->nodes[kept++] = g->nodes[i];
    g->node_count = kept;
    graph_edit_number_producers(g);
}
