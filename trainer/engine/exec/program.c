/* program.c - see program.h. */
#include "trainer/engine/exec/program_internal.h"
#include <string.h>

Status program_bind_node(Program *p, int index)
{
    const GraphNode *n = graph_node(p->graph, index);
    OpInstance *op = &p->nodes[index];
    bool complete = true;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (n->out[i] != TENSOR_NONE) op->out[i].data = p->tensors[n->out[i]].data;
    }
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (n->in[i] == TENSOR_NONE) continue;
        op->in[i].data = p->tensors[n->in[i]].data;
        complete = complete && op->in[i].data;
    }
    if (!complete) return OK; /* images or labels: program_set_input() will come back */
    const OpImpl *impl = op->backend->v->ops[op->kind];
    return impl->bind ? impl->bind(op) : OK;
}

Status program_set_input(Program *p, const char *name, const void *data)
{
    TensorId id = graph_input(p->graph, name);
    ASSERT(id != TENSOR_NONE);
    /* Inputs are only read: the one place where const is dropped, because OpTensor serves inputs
     * and outputs. */
    memcpy(&p->tensors[id].data, &data, sizeof data);
    for (int i = 0; i < graph_node_count(p->graph); i++) {
        const GraphNode *n = graph_node(p->graph, i);
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (n->in[k] == id) TRY(program_bind_node(p, i));
        }
    }
    return OK;
}

const Graph *program_graph(const Program *p)
{
    return p->graph;
}
const Plan *program_plan(const Program *p)
{
    return p->plan;
}
const OpTensor *program_tensor(const Program *p, TensorId id)
{
    return &p->tensors[id];
}

const char *program_implementation(const Program *p, int node)
{
    return p->nodes[node].implementation;
}
double program_node_traffic(const Program *p, int node, OpTraffic *out)
{
    return backend_traffic(&p->nodes[node], out);
}
const Timeline *program_timeline(const Program *p, TimelineRun run)
{
    return p->timelines[run];
}

int program_step_items(const Program *p, TimelineRun run)
{
    int items = 0;
    for (int i = TIMELINE_STEP; i < (int)run; i++)
        if (p->timelines[i]) items += p->timelines[i]->count;
    return items;
}
const double *program_stats(const Program *p)
{
    return p->result;
}
