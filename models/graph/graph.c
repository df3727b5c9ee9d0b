/* graph.c - the node and tensor arrays of a network: storage, look-up, and the one door by which
 * nodes enter.
 *
 * DESIGN. Both arrays only grow (fuse.c alone may take nodes out) and live in one arena with all
 * names and attributes, so a graph dies at once. Growing copies an array and abandons the old one
 * to the arena: pointers from graph_node(), graph_tensor() and their edit_ forms are borrowed until
 * the next node or tensor is added.
 *
 * graph_add_node() enforces what everything downstream relies on: inputs exist already (so array
 * order is topological order), required slots are filled, shapes were inferred by the op itself,
 * and every output has exactly one producer.
 *
 * The builder is sticky: graph_break() keeps the first error with its sentence, later calls do
 * nothing. */
#include "models/graph/graph.h"
#include "models/graph/graph_internal.h"
#include <stdio.h>
#include <string.h>

Status graph_create(Graph **out)
{
    *out = NULL;
    Arena *arena = NULL;
    TRY(arena_create(&arena, 0));
    Graph *g = arena_alloc(arena, sizeof *g);
    if (!g) {
        arena_destroy(arena);
        return ERR_MEMORY;
    }
    g->arena = arena;
    g->logits = TENSOR_NONE;
    *out = g;
    return OK;
}

void graph_destroy(Graph *g)
{
    if (g) arena_destroy(g->arena);
}

Status graph_break(Graph *g, Status status)
{
    if (g->status == OK) {
        g->status = status;
        snprintf(g->message, sizeof g->message, "%s", status_message());
    }
    return g->status;
}

Status graph_status(const Graph *g)
{
    if (g->status == OK) return OK;
    return fail(g->status, "%s", g->message);
}

TensorId graph_rank_sum(const GraphNode *n)
{
    if (n->kind == OP_BN_SUMS) return n->out[BN_SUMS_OUT_SUMS];
    return n->kind == OP_BN_BWD_SUMS ? n->out[BN_BWD_SUMS_OUT_SUMS] : TENSOR_NONE;
}

int graph_node_count(const Graph *g)
{
    return g->node_count;
}

int graph_tensor_count(const Graph *g)
{
    return g->tensor_count;
}

const GraphNode *graph_node(const Graph *g, int index)
{
    ASSERT(index >= 0 && index < g->node_count);
    return &g->nodes[index];
}

const GraphTensor *graph_tensor(const Graph *g, TensorId id)
{
    ASSERT(id >= 0 && id < g->tensor_count);
    return &g->tensors[id];
}

/* roles: bits by TensorRole */
static TensorId find(const Graph *g, const char *name, unsigned roles)
{
    for (TensorId id = 0; id < g->tensor_count; id++) {
        const GraphTensor *t = &g->tensors[id];
        if (roles >> t->role & 1 && strcmp(t->name, name) == 0) return id;
    }
    return TENSOR_NONE;
}

TensorId graph_find(const Graph *g, const char *name)
{
    return find(g, name, 1U << ROLE_PARAM | 1U << ROLE_BUFFER | 1U << ROLE_TEACHER);
}

TensorId graph_input(const Graph *g, const char *name)
{
    return find(g, name, 1U << ROLE_INPUT | 1U << ROLE_OUTPUT);
}

TensorId graph_logits(const Graph *g)
{
    return g->logits;
}

void graph_set_options(Graph *g, const GraphOptions *o)
{
    g->options = *o;
}

const GraphOptions *graph_options(const Graph *g)
{
    return &g->options;
}

int64_t graph_parameter_elements(const Graph *g)
{
    int64_t total = 0;
    for (TensorId id = 0; id < g->tensor_count; id++)
        if (g->tensors[id].role == ROLE_PARAM) total += tensor_elements(&g->tensors[id].desc);
    return total;
}

/* Room for one more element: NULL if there is none. */
static void *grow(Graph *g, void *items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) return items;
    int wider = *capacity ? 2 * *capacity : 64;
    size_t bytes;
    if (!mem_mul((size_t)wider, item_bytes, &bytes)) {
        fail(ERR_MEMORY, "graph with %d entries is too large", wider);
        return NULL;
    }
    void *moved = arena_alloc(g->arena, bytes);
    if (!moved) return NULL;
    if (count) memcpy(moved, items, (size_t)count * item_bytes);
    *capacity = wider;
    return moved;
}

TensorId graph_add_tensor(Graph *g, const char *name, TensorRole role, const TensorDesc *desc)
{
    if (g->status != OK) return TENSOR_NONE;
    GraphTensor *tensors =
        grow(g, g->tensors, g->tensor_count, &g->tensor_capacity, sizeof *tensors);
    const char *copy = arena_strdup(g->arena, name);
    if (!tensors || !copy) {
        graph_break(g, ERR_MEMORY);
        return TENSOR_NONE;
    }
    g->tensors = tensors;
    tensors[g->tensor_count] = (GraphTensor){ .name = copy,
                                              .desc = *desc,
                                              .role = role,
                                              .producer = -1,
                                              .last_writer = -1,
                                              .grad = TENSOR_NONE,
                                              .grad_of = TENSOR_NONE };
    return g->tensor_count++;
}

static bool is_optional(const char *slot_name)
{
    size_t n = slot_name ? strlen(slot_name) : 0;
    return n > 0 && slot_name[n - 1] == '?';
}

/* Points descs at the inputs' descriptions after checking that required slots are filled with
 * existing tensors. */
static Status check_inputs(const Graph *g, OpKind kind, const char *name, const TensorId *in,
                           const TensorDesc **descs)
{
    const OpDef *def = op_def(kind);
    for (int i = 0; i < op_inputs(def); i++) {
        descs[i] = NULL;
        if (in[i] == TENSOR_NONE) {
            if (is_optional(def->in_names[i])) continue;
            return fail(ERR_INTERNAL, "%s (%s): input %s is missing", name, op_name(kind),
                        def->in_names[i]);
        }
        if (in[i] < 0 || in[i] >= g->tensor_count)
            return fail(ERR_INTERNAL, "%s (%s): input %s is tensor %d, which does not exist", name,
                        op_name(kind), def->in_names[i], in[i]);
        descs[i] = &g->tensors[in[i]].desc;
    }
    return OK;
}

static Status infer_outputs(const Graph *g, OpKind kind, const char *name, const void *attr,
                            const TensorId *in, const bool *wanted, TensorDesc *out)
{
    const OpDef *def = op_def(kind);
    const TensorDesc *descs[OP_MAX_INPUTS] = { NULL };
    TRY(check_inputs(g, kind, name, in, descs));
    Status status = op_infer(kind, attr, descs, wanted, out);
    if (status != OK) return fail_note(status, "%s", name);
    for (int i = 0; i < op_outputs(def); i++)
        if (wanted[i] && out[i].rank == 0)
            return fail(ERR_INTERNAL, "%s (%s): shape of output %s was not inferred", name,
                        op_name(kind), def->out_names[i]);
    return OK;
}

/* Stores a node whose outputs are known to be valid. */
static int append(Graph *g, const OpDef *def, GraphNode node, const char *name, const void *attr,
                  const TensorDesc *out)
{
    GraphNode *nodes = grow(g, g->nodes, g->node_count, &g->node_capacity, sizeof *nodes);
    void *attr_copy = def->attr_bytes ? arena_alloc(g->arena, def->attr_bytes) : NULL;
    node.name = arena_strdup(g->arena, name);
    if (!nodes || !node.name || (def->attr_bytes && !attr_copy)) {
        graph_break(g, ERR_MEMORY);
        return -1;
    }
    if (attr_copy) memcpy(attr_copy, attr, def->attr_bytes);
    node.attr = attr_copy;
    g->nodes = nodes;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        node.out[i] = TENSOR_NONE;
        if (i >= op_outputs(def) || out[i].rank == 0) continue;
        node.out[i] = graph_add_tensor(g, name, ROLE_ACTIVATION, &out[i]);
        if (node.out[i] == TENSOR_NONE) return -1;
        g->tensors[node.out[i]].producer = g->tensors[node.out[i]].last_writer = g->node_count;
    }
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (node.in[i] != TENSOR_NONE && g->tensors[node.in[i]].role == ROLE_GRAD)
            g->tensors[node.in[i]].last_writer = g->node_count;
    nodes[g->node_count] = node;
    return g->node_count++;
}

int graph_add_node(Graph *g, OpKind kind, Phase phase, const char *name, const void *attr,
                   const TensorId *in, const bool *wanted, const TensorDesc *preset)
{
    if (g->status != OK) return -1;
    const OpDef *def = op_def(kind);
    if (def->attr_bytes && !attr) {
        graph_break(g, fail(ERR_INTERNAL, "%s (%s): attributes are missing", name, op_name(kind)));
        return -1;
    }
    GraphNode node = { .kind = kind, .phase = phase };
    bool want[OP_MAX_OUTPUTS] = { false };
    TensorDesc out[OP_MAX_OUTPUTS] = { { .rank = 0 } };
    for (int i = 0; i < OP_MAX_INPUTS; i++) node.in[i] = i < op_inputs(def) ? in[i] : TENSOR_NONE;
    for (int i = 0; i < op_outputs(def); i++) {
        want[i] = wanted ? wanted[i] : !is_optional(def->out_names[i]);
        if (want[i] && preset) out[i] = preset[i];
    }
    Status status = infer_outputs(g, kind, name, attr, node.in, want, out);
    if (status != OK) {
        graph_break(g, status);
        return -1;
    }
    return append(g, def, node, name, attr, out);
}
