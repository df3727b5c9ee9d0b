/* plan.c - gives every tensor of a program a slab and an offset before anything runs.
 *
 * PARAMETERS AND GRADIENTS lie in the order in which backward completes the gradients (or in the
 * order a training program handed over), at equal offsets in their two slabs. Frozen parameters,
 * which have no gradient, come behind the others. Buffers lie in declaration order.
 *
 * LANES. A weight gradient goes to the side lane. It is joined before the first main node behind
 * the side node that is side_depth places later: so many may lag, and no more memory than theirs is
 * held back.
 *
 * ACTIVATIONS live from the node that produces them to the last node that reads them, or to the
 * join of that node, both inclusive. Placement has two steps:
 *   1. In place. Where an op allows an output over an input, the input dies at that node, and
 *      description and size are equal, the output joins the input's group; a group is one piece of
 *      memory whose life is the sum of its members' lives. An input that fills two slots of the
 *      node is left alone (the kernel may read it through the other slot after it was overwritten),
 *      and one input carries at most one output.
 *   2. Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
 *      Inference", 2020): the largest group first, each into the smallest gap left between placed
 *      groups that live at the same time, or behind them.
 *
 * plan_check() of the tests shares none of this: it works lifetimes out again and compares every
 * pair. */
#include "models/graph/plan.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static Status align_up(size_t bytes, size_t alignment, size_t *out)
{
    size_t padded = 0;
    if (!mem_add(bytes, alignment - 1, &padded))
        return fail(ERR_MEMORY, "memory plan: sizes overflow");
    *out = padded / alignment * alignment;
    return OK;
}

/* Appends an aligned range to a slab. */
static Status take(Plan *p, Slab slab, PlanEntry *entry, size_t bytes, size_t alignment)
{
    size_t padded = 0;
    TRY(align_up(bytes, alignment, &padded));
    entry->slab = slab;
    entry->offset = p->slab_bytes[slab];
    entry->bytes = bytes;
    if (!mem_add(entry->offset, padded, &p->slab_bytes[slab]))
        return fail(ERR_MEMORY, "memory plan: sizes overflow");
    return OK;
}

/* ---- lanes ---- */

/* No node reads what these make, but one that adds to it (GraphTensor.last_writer). */
static bool may_run_beside(OpKind kind)
{
    return kind == OP_CONV2D_BWD_WEIGHTS || kind == OP_CONV2D_BWD_WEIGHTS_NORM ||
           kind == OP_LINEAR_BWD_WEIGHTS;
}

static void choose_lanes(Plan *p, const Graph *g, int depth)
{
    const int nodes = graph_node_count(g);
    for (int i = 0; i < nodes; i++) {
        bool beside = depth > 0 && may_run_beside(graph_node(g, i)->kind);
        p->nodes[i] = (PlanNode){ .lane = beside ? PLAN_SIDE : PLAN_MAIN, .joined_at = -1 };
    }
    for (int i = 0; i < nodes; i++) {
        if (p->nodes[i].lane != PLAN_SIDE) continue;
        int later = i;
        for (int passed = 0; passed < depth && later < nodes;)
            if (++later < nodes && p->nodes[later].lane == PLAN_SIDE) passed++;
        if (later < nodes) later++; /* on to the first main node behind it */
        while (later < nodes && p->nodes[later].lane != PLAN_MAIN) later++;
        p->nodes[i].joined_at = later;
    }
    /* a node that adds to a gradient waits for the one that makes it */
    for (int i = 0; i < nodes; i++)
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            const TensorId id = graph_node(g, i)->in[k];
            if (id == TENSOR_NONE || graph_tensor(g, id)->role != ROLE_GRAD) continue;
            int *joined_at = &p->nodes[graph_tensor(g, id)->producer].joined_at;
            if (*joined_at > i) *joined_at = i;
        }
}

/* ---- lifetimes ---- */

static void measure_lifetimes(const Graph *g, Plan *p)
{
    PlanEntry *entries = p->entries;
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        entries[id].first_node = entries[id].last_node = -1;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        const int last = p->nodes[i].lane == PLAN_SIDE ? p->nodes[i].joined_at : i;
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
            if (n->out[k] == TENSOR_NONE) continue;
            entries[n->out[k]].first_node = i;
            entries[n->out[k]].last_node = last;
        }
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (n->in[k] != TENSOR_NONE && entries[n->in[k]].last_node < last)
                entries[n->in[k]].last_node = last;
    }
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->role != ROLE_ACTIVATION)
            entries[id].first_node = entries[id].last_node = -1;
}

/* ---- parameters, gradients, buffers ---- */

static Status order_by_names(const Graph *g, const PlanInputs *in, TensorId *order, int params)
{
    if (in->param_count != params)
        return fail(ERR_INTERNAL, "memory plan: %d names for %d parameters", in->param_count,
                    params);
    for (int i = 0; i < params; i++) {
        order[i] = graph_find(g, in->param_order[i]);
        if (order[i] == TENSOR_NONE || graph_tensor(g, order[i])->role != ROLE_PARAM)
            return fail(ERR_INTERNAL, "memory plan: %s is not a parameter of this graph",
                        in->param_order[i]);
        for (int k = 0; k < i; k++)
            if (order[k] == order[i])
                return fail(ERR_INTERNAL, "memory plan: %s is named twice", in->param_order[i]);
    }
    return OK;
}

static int order_by_gradients(const Graph *g, TensorId *order)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        for (int k = 0; k < OP_MAX_OUTPUTS + OP_MAX_INPUTS; k++) {
            TensorId id = k < OP_MAX_OUTPUTS ? n->out[k] : n->in[k - OP_MAX_OUTPUTS];
            if (id != TENSOR_NONE && graph_tensor(g, id)->role == ROLE_GRAD &&
                graph_tensor(g, id)->last_writer == i)
                order[count++] = graph_tensor(g, id)->grad_of;
        }
    }
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->frozen) order[count++] = id;
    return count;
}

/* Declaration order serves evaluation alone: without backward and without a training program there
 * is no other order to keep. */
static Status order_params(const Graph *g, const PlanInputs *in, TensorId *order, int *count)
{
    *count = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->role == ROLE_PARAM) order[(*count)++] = id;
    if (in->param_order) return order_by_names(g, in, order, *count);
    bool has_backward = false;
    for (int i = 0; i < *count; i++)
        has_backward = has_backward || graph_tensor(g, order[i])->grad != TENSOR_NONE;
    if (has_backward && order_by_gradients(g, order) != *count)
        return fail(ERR_INTERNAL, "memory plan: not every parameter has one gradient");
    return OK;
}

static Status place_param(Plan *p, const Graph *g, const PlanInputs *in, TensorId id)
{
    const GraphTensor *t = graph_tensor(g, id);
    const size_t bytes = in->tensor_bytes[id];
    if (bytes == 0)
        return fail(ERR_INTERNAL, "memory plan: the size of parameter %s is not known", t->name);
    TRY(take(p, SLAB_PARAM, &p->entries[id], bytes, in->alignment));
    if (t->grad == TENSOR_NONE) return OK;
    if (in->tensor_bytes[t->grad] != bytes)
        return fail(ERR_INTERNAL, "memory plan: %s has %zu bytes and its gradient %zu", t->name,
                    bytes, in->tensor_bytes[t->grad]);
    return take(p, SLAB_GRAD, &p->entries[t->grad], bytes, in->alignment);
}

static Status place_fixed(Plan *p, const Graph *g, const PlanInputs *in)
{
    TensorId *order = mem_calloc((size_t)graph_tensor_count(g), sizeof *order);
    if (!order) return ERR_MEMORY;
    int count = 0;
    Status status = order_params(g, in, order, &count);
    for (int i = 0; i < count && status == OK; i++) status = place_param(p, g, in, order[i]);
    mem_free(order);
    for (TensorId id = 0; id < graph_tensor_count(g) && status == OK; id++) {
        const TensorRole role = graph_tensor(g, id)->role;
        if (role == ROLE_BUFFER)
            status = take(p, SLAB_BUFFER, &p->entries[id], in->tensor_bytes[id], in->alignment);
        if (role == ROLE_TEACHER)
            status = take(p, SLAB_TEACHER, &p->entries[id], in->tensor_bytes[id], in->alignment);
        if (role == ROLE_INPUT || role == ROLE_OUTPUT)
            p->entries[id].bytes = in->tensor_bytes[id]; /* SLAB_EXTERNAL is 0 */
    }
    return status;
}

/* ---- activations ---- */

/* Whether output out of node index may be written over its input x. carried[x]: another output
 * already lies there. */
static bool may_lie_over(const Plan *p, const Graph *g, int index, TensorId out, TensorId x,
                         const bool *carried)
{
    if (x == TENSOR_NONE || carried[x]) return false;
    const GraphTensor *to = graph_tensor(g, out), *tx = graph_tensor(g, x);
    if (to->role != ROLE_ACTIVATION || tx->role != ROLE_ACTIVATION || tx->producer < 0)
        return false;
    int slots = 0; /* that x fills */
    for (int k = 0; k < OP_MAX_INPUTS; k++) slots += graph_node(g, index)->in[k] == x;
    /* last_node of what the side lane reads is the join: until then it is not written over */
    if (p->entries[x].last_node != index || slots != 1) return false;
    /* Equal descriptions get equal layouts; equal bytes alone would not promise that. */
    if (to->desc.dtype != tx->desc.dtype || !tensor_same_shape(&to->desc, &tx->desc)) return false;
    return p->entries[out].bytes == p->entries[x].bytes;
}

static void choose_in_place(Plan *p, const Graph *g, const unsigned *no_alias, bool *carried)
{
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        const OpDef *def = op_def(n->kind);
        for (int k = 0; k < op_outputs(def); k++) {
            const int slot = no_alias && no_alias[i] >> k & 1 ? -1 : op_in_place_of(n->kind, k);
            if (n->out[k] == TENSOR_NONE || slot < 0 ||
                !may_lie_over(p, g, i, n->out[k], n->in[slot], carried))
                continue;
            p->entries[n->out[k]].over = n->in[slot];
            carried[n->in[slot]] = true;
        }
    }
}

/* A group: a tensor that lies over no other, and all that lie over it in turn. */
typedef struct Group {
    TensorId root;
    int first_node, last_node;
    size_t bytes, offset; /* bytes aligned */
} Group;

static int compare_groups(const void *a, const void *b)
{
    const Group *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->root > y->root) -
           (x->root < y->root); /* the same plan on every machine, whatever qsort does with ties */
}

static TensorId find_root(const Plan *p, TensorId id)
{
    while (p->entries[id].over != TENSOR_NONE) id = p->entries[id].over;
    return id;
}

/* Fills groups and returns their number. group_of is scratch by tensor. An output has a higher id
 * than the input it lies over. */
static Status collect_groups(const Plan *p, const Graph *g, size_t alignment, Group *groups,
                             int *group_of, int *count)
{
    *count = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const PlanEntry *e = &p->entries[id];
        if (e->slab != SLAB_ACTIVATION || e->first_node < 0) continue;
        if (e->over == TENSOR_NONE) {
            group_of[id] = *count;
            groups[*count] =
                (Group){ .root = id, .first_node = e->first_node, .last_node = e->last_node };
            TRY(align_up(e->bytes, alignment, &groups[(*count)++].bytes));
        } else {
            Group *group = &groups[group_of[find_root(p, id)]];
            if (e->last_node > group->last_node) group->last_node = e->last_node;
        }
    }
    return OK;
}

/* Offset for group in the smallest gap that holds it, given placed groups sorted by offset. */
static size_t find_gap(const Group *placed, int count, const Group *group)
{
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int i = 0; i < count; i++) {
        const Group *other = &placed[i];
        if (other->last_node < group->first_node || other->first_node > group->last_node) continue;
        if (other->offset > end && other->offset - end >= group->bytes &&
            other->offset - end < best_gap) {
            best = end;
            best_gap = other->offset - end;
        }
        if (other->offset + other->bytes > end) end = other->offset + other->bytes;
    }
    return best != SIZE_MAX ? best : end;
}

/* Places groups[0..count), which is sorted by size, into placed, which stays sorted by offset. */
static Status place_groups(Plan *p, const Group *groups, int count, Group *placed)
{
    for (int i = 0; i < count; i++) {
        Group group = groups[i];
        group.offset = find_gap(placed, i, &group);
        size_t end;
        if (!mem_add(group.offset, group.bytes, &end))
            return fail(ERR_MEMORY, "memory plan: activations overflow");
        if (end > p->slab_bytes[SLAB_ACTIVATION]) p->slab_bytes[SLAB_ACTIVATION] = end;
        int at = i;
        for (; at > 0 && placed[at - 1].offset > group.offset; at--) placed[at] = placed[at - 1];
        placed[at] = group;
        p->entries[group.root].offset = group.offset;
    }
    return OK;
}

static Status size_activations(Plan *p, const Graph *g, const PlanInputs *in)
{
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        PlanEntry *e = &p->entries[id];
        if (graph_tensor(g, id)->role != ROLE_ACTIVATION) continue;
        e->slab = SLAB_ACTIVATION;
        if (e->first_node < 0) continue; /* a fusion took its producer */
        e->bytes = in->tensor_bytes[id];
        if (e->bytes == 0)
            return fail(ERR_INTERNAL, "memory plan: the size of %s is not known",
                        graph_tensor(g, id)->name);
        size_t padded = 0;
        TRY(align_up(e->bytes, in->alignment, &padded));
        if (!mem_add(p->naive_activation_bytes, padded, &p->naive_activation_bytes))
            return fail(ERR_MEMORY, "memory plan: activations overflow");
    }
    return OK;
}

static Status place_activations(Plan *p, const Graph *g, const PlanInputs *in)
{
    const size_t tensors = (size_t)graph_tensor_count(g);
    bool *carried = mem_calloc(tensors, sizeof *carried);
    Group *groups = mem_calloc(tensors, sizeof *groups),
          *placed = mem_calloc(tensors, sizeof *placed);
    int *group_of = mem_calloc(tensors, sizeof *group_of), count = 0;
    Status status =
        carried && groups && placed && group_of ? size_activations(p, g, in) : ERR_MEMORY;
    if (status != OK) goto done;
    choose_in_place(p, g, in->node_no_alias, carried);
    status = collect_groups(p, g, in->alignment, groups, group_of, &count);
    if (status != OK) goto done;
    qsort(groups, (size_t)count, sizeof *groups, compare_groups);
    status = place_groups(p, groups, count, placed);
    for (size_t i = 0; i < tensors && status == OK; i++)
        if (p->entries[i].over != TENSOR_NONE)
            p->entries[i].offset = p->entries[find_root(p, (TensorId)i)].offset;
done:
    mem_free(carried);
    mem_free(groups);
    mem_free(placed);
    mem_free(group_of);
    return status;
}

Status plan_create(Plan **out, const Graph *g, const PlanInputs *in)
{
    *out = NULL;
    TRY(graph_status(g));
    ASSERT(in->alignment > 0);
    Plan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->entries = mem_calloc((size_t)graph_tensor_count(g), sizeof *p->entries);
    p->nodes = mem_calloc((size_t)graph_node_count(g) + 1, sizeof *p->nodes);
    Status status = p->entries && p->nodes ? OK : ERR_MEMORY;
    if (status != OK) goto done;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) p->entries[id].over = TENSOR_NONE;
    choose_lanes(p, g, in->side_depth);
    measure_lifetimes(g, p);
    for (int i = 0; i < graph_node_count(g); i++) {
        size_t *largest = &p->workspace_bytes[p->nodes[i].lane];
        if (in->node_workspace[i] > *largest) *largest = in->node_workspace[i];
    }
    status = place_fixed(p, g, in);
    if (status == OK) status = place_activations(p, g, in);
done:
    if (status != OK) plan_destroy(p);
    if (status == OK) *out = p;
    return status;
}

void plan_destroy(Plan *p)
{
    if (!p) return;
    mem_free(p->entries);
    mem_free(p->nodes);
    mem_free(p);
}
