/* teacher.c - the network of a teacher within that of its student; see graph_add_teacher() in
 * graph.h.
 *
 * Its nodes come first. Once the student's begin, only its logits are kept, so it adds memory only
 * if it needs more than the student's step. No parameter of the student comes before them, so the
 * backward pass leaves them out. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"
#include <string.h>

typedef struct Copy {
    Graph *g;
    const Graph *from;
    TensorId *ids; /* in g, by tensor of from */
    const GraphNode *input;
} Copy;

static const char *own_name(Graph *g, const char *name)
{
    const char *own = arena_printf(g->arena, "teacher.%s", name);
    if (!own) graph_break(g, ERR_MEMORY);
    return own;
}

static void copy_tensors(const Copy *c)
{
    for (TensorId id = 0; id < c->from->tensor_count && c->g->status == OK; id++) {
        const GraphTensor *t = &c->from->tensors[id];
        const bool learnt = t->role == ROLE_PARAM || t->role == ROLE_BUFFER;
        c->ids[id] = TENSOR_NONE;
        if (!learnt && t->role != ROLE_ACTIVATION) continue;
        const char *name = own_name(c->g, t->name);
        if (name)
            c->ids[id] =
                graph_add_tensor(c->g, name, learnt ? ROLE_TEACHER : ROLE_ACTIVATION, &t->desc);
    }
}

/* The teacher's input is made of the same pixels as the student's. */
static void take_input(const Copy *c, GraphNode *n, InputAttr *attr)
{
    const InputAttr *own = c->input->attr;
    memcpy(n->in, c->input->in, sizeof n->in);
    attr->erase = own->erase;
    attr->views = own->views;
}

static GraphNode copy_node(const Copy *c, const GraphNode *from)
{
    const size_t bytes = op_def(from->kind)->attr_bytes;
    GraphNode n = *from;
    void *attr = bytes ? arena_alloc(c->g->arena, bytes) : NULL;
    n.name = own_name(c->g, from->name);
    n.teacher = true;
    if (bytes && !attr) graph_break(c->g, ERR_MEMORY);
    if (c->g->status != OK) return n;
    if (bytes) n.attr = memcpy(attr, from->attr, bytes);
    for (int k = 0; k < OP_MAX_INPUTS; k++)
        if (n.in[k] != TENSOR_NONE) n.in[k] = c->ids[n.in[k]];
    for (int k = 0; k < OP_MAX_OUTPUTS; k++)
        if (n.out[k] != TENSOR_NONE) n.out[k] = c->ids[n.out[k]];
    if (n.kind == OP_INPUT) take_input(c, &n, attr);
    return n;
}

/* The loss, which is g's last node, stays the student's. */
static Status put_before(const Copy *c)
{
    Graph *g = c->g;
    const int most = c->from->node_count + g->node_count;
    GraphNode *nodes = arena_alloc(g->arena, (size_t)most * sizeof *nodes);
    int count = 0;
    if (!nodes) return graph_break(g, ERR_MEMORY);
    g->nodes[g->node_count - 1].in[XENT_IN_TEACHER] = c->ids[c->from->logits];
    for (int i = 0; i < c->from->node_count; i++)
        if (c->from->nodes[i].kind != OP_SOFTMAX_XENT)
            nodes[count++] = copy_node(c, &c->from->nodes[i]);
    memcpy(nodes + count, g->nodes, (size_t)g->node_count * sizeof *nodes);
    g->nodes = nodes;
    g->node_count += count;
    g->node_capacity = most;
    graph_edit_number_producers(g);
    return graph_status(g);
}

Status graph_add_teacher(Graph *g, const Graph *teacher)
{
    TRY(graph_status(g));
    Copy c = { .g = g, .from = teacher, .input = g->nodes };
    while (c.input->kind != OP_INPUT) c.input++;
    if (!tensor_same_shape(&g->tensors[g->logits].desc, &teacher->tensors[teacher->logits].desc))
        return graph_break(g, fail(ERR_INTERNAL, "teacher and student have other logits"));
    c.ids = mem_calloc((size_t)teacher->tensor_count, sizeof *c.ids);
    if (!c.ids) return graph_break(g, ERR_MEMORY);
    copy_tensors(&c);
    const Status status = g->status == OK ? put_before(&c) : graph_status(g);
    mem_free(c.ids);
    return status;
}
