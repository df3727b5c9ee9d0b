/* graph_look.c - see graph_look.h. */
#include "tests/tools/graph_look.h"

#include "tests/test.h"

int graph_count_kind(const Graph *g, OpKind kind)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++) count += graph_node(g, i)->kind == kind;
    return count;
}

void graph_check_order(const Graph *g)
{
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (n->in[k] == TENSOR_NONE) continue;
            const GraphTensor *t = graph_tensor(g, n->in[k]);
            CHECK(t->producer < i && (t->producer >= 0 || t->role != ROLE_ACTIVATION));
        }
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (n->out[k] != TENSOR_NONE) CHECK_INT(graph_tensor(g, n->out[k])->producer, i);
    }
}
